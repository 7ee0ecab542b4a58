"""Lints: what is no error in a rule, but probably a mistake.

Each lint is a warning with the text to write instead. A lint changes no evaluation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial

from datalog_gate.analysis.check import Checked
from datalog_gate.analysis.lint.single_use import find_single_uses
from datalog_gate.analysis.program import CheckedLiteral, CheckedRule, Fold, Match, Var, Without, variables
from datalog_gate.analysis.resolve import Names
from datalog_gate.analysis.slices import slice_for
from datalog_gate.base.diagnostics import Diagnostic, Span, in_order
from datalog_gate.language.ast import Aggregate, Atom, Constant, Declaration, Import, Module, Rule
from datalog_gate.language.walk import nodes
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import RelationRef, current_version
from datalog_gate.schema.relations import ONE_ROW


def lint(
    modules: Sequence[Module], checked: Checked, tested: Collection[str], catalogue: Catalogue = SHIPPED
) -> tuple[Diagnostic, ...]:
    names = Names(modules, {}, catalogue=catalogue)
    by_relation: dict[RelationRef, list[CheckedRule]] = {}
    rules = list(checked.program.rules)
    for rule in rules:
        by_relation.setdefault(rule.relation, []).append(rule)
    warnings = [*checked.warnings, *_of_policies(checked, tested)]
    used = _used(modules, checked, names)
    for module in modules:
        warnings += _unused(module, names, used)
        for written in module.statements:
            if isinstance(written, Rule):
                name = names.head(written.head, module.name).name
                ways = [rule for rule in by_relation.get(name, ()) if rule.span == written.span]
                warnings += find_single_uses(
                    written, list(nodes(written.body)), partial(names.relation, module=module.name), every=True
                )
                warnings += _constant_aggregates(written)
                if not ways:
                    message, advice = (
                        "this rule never holds: its body is false",
                        "correct the condition, or remove the rule",
                    )
                    warnings.append(_warning("never-fires", message, written.head.name_span, advice))
                warnings += (diagnostic for way in ways for diagnostic in _cartesian(way.body, (), by_relation))
    return in_order(warnings)


def _warning(code: str, message: str, span: Span, suggestion: str) -> Diagnostic:
    return Diagnostic(code, message, span, suggestion, "warning")


def _of_policies(checked: Checked, tested: Collection[str]) -> Iterator[Diagnostic]:
    for policy in checked.policies:
        if "message" not in policy.texts:
            suggestion = f'write @{policy.level}("{policy.id}", "...") with a message for the user who is refused'
            yield _warning("no-message", f"{policy.id} has no message", policy.span, suggestion)
        if policy.id not in tested:
            suggestion = f"add a case to the test.yaml beside it that expects {{policy: {policy.id}}}"
            yield _warning("no-test", f"no test expects {policy.id}", policy.span, suggestion)


def _used(modules: Iterable[Module], checked: Checked, names: Names) -> set[RelationRef]:
    """The relations that policies, unlocks and exports need, including their own."""
    wanted: set[RelationRef] = {policy.relation for policy in checked.policies}
    wanted |= {unlock.relation for unlock in checked.unlocks}
    wanted |= {f"{module.name}:{name}" for module in modules for name in names.scopes[module.name].exports}
    needed = slice_for(checked.program, frozenset(wanted))
    derived = {name for stratum in needed.strata for name in stratum.relations}
    return {current_version(name) for name in wanted | derived | needed.inputs}


def _unused(module: Module, names: Names, used: Set[RelationRef]) -> Iterator[Diagnostic]:
    scope = names.scopes[module.name]
    rules = [statement for statement in module.statements if isinstance(statement, Rule)]
    parts = nodes(part for rule in rules for part in (*rule.head.arguments, *rule.body))
    read = {atom.name for atom in parts if isinstance(atom, Atom)} - scope.relations.keys()
    reported: set[RelationRef] = set()
    for statement in module.statements:
        match statement:
            case Import(imported, span=span) if not read & names.scopes[names.imported(imported, module.name)].exports:
                yield _warning("never-used", f"nothing here uses the module {imported}", span, "remove the import")
            case Declaration(name, span=span) | Rule(Atom(name, name_span=span)):
                bare = name.rpartition(":")[2]
                if bare not in reported and scope.relations[bare].name not in used:
                    reported.add(bare)
                    suggestion = f"remove it, or write `export {bare}.` if other modules read it"
                    yield _warning("never-used", f"no policy or export needs {bare}", span, suggestion)


_IN_PLACE_OF_CONSTANTS = {
    **dict.fromkeys(("sum", "avg"), "add the variables that tell the rows apart after it"),
    **dict.fromkeys(("count", "list"), "write the variables that tell the rows apart instead"),
    **dict.fromkeys(("min", "max"), "take a variable of the rows, or match the relation itself"),
}


def _constant_aggregates(rule: Rule) -> Iterator[Diagnostic]:
    """``sum{ 1 : q(y) }`` is 1, however many rows there are, since an aggregate counts each tuple once."""
    for node in nodes((*rule.head.arguments, *rule.body)):
        if isinstance(node, Aggregate) and all(isinstance(term, Constant) for term in node.terms):
            message = f"every row gives {node.function} the same tuple, which counts only once"
            suggestion = _IN_PLACE_OF_CONSTANTS[node.function]
            yield _warning("constant-aggregate", message, node.span, suggestion)


def _cartesian(
    body: Sequence[CheckedLiteral], outer: Collection[Var], by_relation: Mapping[RelationRef, Sequence[CheckedRule]]
) -> Iterator[Diagnostic]:
    """Report relations of a body that no variables connect: every row meets every row."""
    groups: list[tuple[set[Var], list[Match]]] = []
    for literal in body:
        own = set(variables(literal)) - set(outer)
        several = [literal] if isinstance(literal, Match) and own and not _one_row(literal, by_relation) else []
        touching = [group for group in groups if group[0] & own]
        connected = [match for _, matches in touching for match in matches] + several
        names = own.union(*(names for names, _ in touching))
        groups = [group for group in groups if group not in touching] + [(names, connected)]
        if isinstance(literal, Without | Fold):
            around = {*outer, *(var for other in body if other is not literal for var in variables(other))}
            yield from _cartesian(literal.body, around, by_relation)
    apart = [group[1][0] for group in groups if group[1]]
    for other in apart[1:]:
        message = f"every row of {apart[0].relation} is combined with every row of {other.relation}"
        yield _warning("cartesian", message, other.span, "join the two by a variable, or split the rule")


def _one_row(match: Match, by_relation: Mapping[RelationRef, Sequence[CheckedRule]]) -> bool:
    rules = by_relation.get(match.relation, ())
    return match.relation in ONE_ROW or (
        len(rules) == 1 and not any(isinstance(literal, Match) for literal in rules[0].body)
    )
