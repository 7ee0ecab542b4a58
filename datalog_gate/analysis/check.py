"""The passes from syntax trees to a checked program with policies.

`PASSES` has them in order. Every error and warning of all passes is reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from datalog_gate.analysis.aggregate_keys import check_sets
from datalog_gate.analysis.allowed_values import check_values
from datalog_gate.analysis.annotations import Policies
from datalog_gate.analysis.linting import Review, find_lints
from datalog_gate.analysis.lower import Lowering
from datalog_gate.analysis.old_state import copy_of, stand_ins, with_old_state
from datalog_gate.analysis.policy import Policy, Unlock
from datalog_gate.analysis.program import CheckedProgram, CheckedRule, Const, Match, Stratum, Var
from datalog_gate.analysis.resolve import Names
from datalog_gate.analysis.safety import order
from datalog_gate.analysis.silences import check_silences, silence
from datalog_gate.analysis.slices import collect_dependencies
from datalog_gate.analysis.strata import matches, stratify
from datalog_gate.analysis.types import infer
from datalog_gate.base.diagnostics import NOWHERE, Diagnostic, closest, in_order, slip, suggest_name
from datalog_gate.base.errors import RulesError
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.language.ast import Module
from datalog_gate.schema import cloud
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import (
    Relation,
    RelationRef,
    given_version,
    is_all,
    is_old,
    relation_name,
)
from datalog_gate.schema.relations import EFFECTIVE, FIXED, TRANSITION, UNLOCKED

SERVICES: Mapping[str, int] = {UNLOCKED: 0, "gate:service": 0, "gate:grant": 1}
"""The relations of services, each with the column that names one."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked program with its policies and unlocks."""

    modules: tuple[Module, ...]
    program: CheckedProgram
    policies: tuple[Policy, ...]
    unlocks: tuple[Unlock, ...]
    warnings: tuple[Diagnostic, ...]
    silenced: tuple[Diagnostic, ...] = ()
    """The warnings that comments ignore."""


@dataclass(frozen=True, slots=True)
class Focus:
    """One module that a check is about."""

    module: str
    needed: frozenset[str]
    """The module and the modules it needs. Definitions in the latter count, but not their errors."""
    read: frozenset[str]
    """The full names of the module's relations that other modules read."""


@dataclass(slots=True)
class _Draft:
    """What the passes so far have made of the modules."""

    names: Names
    modules: Sequence[Module]
    focus: Focus | None
    problems: Sequence[Diagnostic]
    """The diagnostics of the parser."""
    diagnostics: list[Diagnostic]
    rules: list[CheckedRule] = field(default_factory=list)
    relations: dict[RelationRef, Relation] = field(default_factory=dict)
    """All relations in the rules, with their kinds."""
    policies: Sequence[Policy] = ()
    unlocks: Sequence[Unlock] = ()
    strata: Sequence[Stratum] = ()
    old_rules: Sequence[CheckedRule] = ()
    """The rules with those of old versions."""
    program: CheckedProgram | None = None

    @property
    def valid(self) -> bool:
        return not _has_error(self.diagnostics)

    @property
    def own(self) -> list[Module]:
        """The modules to report."""
        return [module for module in self.modules if self.focus is None or module.name == self.focus.module]

    @property
    def read_elsewhere(self) -> frozenset[str]:
        return self.focus.read if self.focus else frozenset()


def check(
    modules: Sequence[Module],
    *,
    names: Names | None = None,
    problems: Sequence[Diagnostic] = (),
    sources: Mapping[str, str] | None = None,
    catalogue: Catalogue = SHIPPED,
    focus: Focus | None = None,
) -> Checked:
    """Check the modules as one program.

    `names` are new ones of the modules, if facts fill more relations than those of the `catalogue`, or for a query.
    `problems` are the parser's diagnostics, which are reported with those of the passes. `sources` are the texts of
    the files, for excerpts. With a `focus` the warnings are those of one module. Errors: RulesError with all errors
    and warnings.
    """
    names = names or Names(modules, {}, catalogue=catalogue)
    needed = [module for module in modules if focus is None or module.name in focus.needed]
    draft = _Draft(names, needed, focus, problems, [*problems])
    draft.diagnostics += check_silences(draft.own)
    for run in PASSES:
        draft.diagnostics += run(draft)
    if draft.program is None or not draft.valid:
        raise RulesError(draft.diagnostics, sources)
    warnings, silenced = silence(modules, draft.diagnostics)
    return Checked(
        modules=tuple(draft.modules),
        program=draft.program,
        policies=tuple(draft.policies),
        unlocks=tuple(draft.unlocks),
        warnings=in_order(warnings),
        silenced=tuple(silenced),
    )


def _has_error(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(diagnostic.severity == "error" for diagnostic in diagnostics)


def _translate_congress(draft: _Draft) -> Iterable[Diagnostic]:
    """``p(x) :- nova:servers(id=x, 6='True')`` => ``p(x) :- nova:servers(id=x, locked=true)``

    The kind of a column decides what a text in it means. Since Congress rules may derive the column, kinds are first
    inferred from a translation that knows none.
    """
    if not draft.names.congress:
        return ()
    from datalog_gate.analysis.congress_translation import translate  # few rules are of Congress

    untyped, _ = translate(draft.modules, draft.names, {})
    first = replace(draft, modules=untyped)
    _lower_modules(first)
    draft.modules, notes = translate(draft.modules, draft.names, first.relations)
    return notes


def _lower_modules(draft: _Draft) -> Iterable[Diagnostic]:
    """``p(x) :- x > 1, not r(x), q(x)`` => ``p(x) :- q(x), x > 1, not r(x)``, and the kinds of `p`.

    Names are resolved, bodies reduced to conjunctions of simple literals and ordered. Kinds are inferred: ``q(1). p(x)
    :- q(x), x = "a"`` is a `kind-mismatch`.
    """
    names = draft.names
    lowering = Lowering(names)
    for module in draft.modules:
        for rule in module.rules:
            lowering.lower(rule, module.name)
    own = names.own()
    relations = lowering.relations | own
    diagnostics = [diagnostic for diagnostic in names.diagnostics if diagnostic not in names.consequences]
    diagnostics += lowering.diagnostics
    ordered = [order(rule, spans, diagnostics) for rule, spans in lowering.rules]
    written = [checked_rule for checked_rule in ordered if checked_rule]
    draft.rules = [*written, *_given_rules(written, relations, names), *stand_ins(relations, own)]
    inference = infer(draft.rules, relations, own.keys() - names.undeclared, names.given, names.congress)
    draft.relations = inference.relations
    return [
        *diagnostics,
        *inference.diagnostics,
        *check_sets(lowering.sets, draft.rules, draft.relations, names.given),
    ]


def _find_unread(draft: _Draft) -> Iterable[Diagnostic]:
    if draft.names.query is not None or _has_error(draft.problems):  # a rule that can't be parsed may read them
        return ()
    return draft.names.unread(draft.own, draft.read_elsewhere)


def _read_annotations(draft: _Draft) -> Iterable[Diagnostic]:
    """Annotated rules => also policies and unlocks, and for ``@unlock("edge") open(g) :- ...`` the rule

    ``gate:unlocked("edge", r) :- open(g), gate:effective#(g), gate:grant(g, "edge", _), gate:grant_scope(g, r)``
    """
    found = Policies(draft.modules, draft.names, draft.relations)
    draft.policies = [found.policies[identity] for identity in sorted(found.policies)]
    draft.unlocks = found.unlocks
    grant, resource = Var("grant"), Var("resource")
    for unlock in found.unlocks:
        service, span = Const(unlock.service), unlock.span
        body = (
            Match(unlock.relation, (grant,), span),
            Match(EFFECTIVE.name, (grant,), span),
            Match("gate:grant", (grant, service, None), span),
            Match("gate:grant_scope", (grant, resource), span),
        )
        draft.rules.append(CheckedRule(UNLOCKED, (service, resource), body, span))
    fixed = (*(FIXED[name] for name in (UNLOCKED, "gate:grant", "gate:grant_scope")), EFFECTIVE)
    draft.relations |= {relation.name: relation for relation in fixed}
    return found.diagnostics


def _define_live(draft: _Draft) -> Iterable[Diagnostic]:
    """``p(r) :- live:os:nova:server(r, ...)`` => also the rule of the `live:` relation:

    ``live:os:nova:server(r, id, ...) :- os:nova:server(r, ...), heat:physical(r, id), nova:servers(id, ...)``
    """
    catalogue = draft.names.catalogue
    for name in sorted(name for name in draft.relations if isinstance(name, str) and cloud.live_relation(name)):
        table, column = cloud.LIVE_TABLES[name.removeprefix(cloud.LIVE)]
        type_name = name.removeprefix(cloud.LIVE).partition(".")[0]
        declared, of_type = catalogue.declared(table), catalogue.relation(type_name)
        resource, row = Var("", "resource"), tuple(Var("", str(at)) for at in range(len(declared.columns)))
        physical = Match("heat:physical", (resource, row[declared.positions[column]]), NOWHERE)
        body: tuple[Match, ...] = (physical, Match(table, row, NOWHERE))
        draft.relations |= {table: declared, "heat:physical": FIXED["heat:physical"]}
        if of_type:  # an operator's catalogue may lack the type
            body = (Match(type_name, (resource, *(None for _ in of_type.columns[1:])), NOWHERE), *body)
            draft.relations[type_name] = of_type
        draft.rules.append(CheckedRule(name, (resource, *row), body, NOWHERE))
    return ()


def _order_strata(draft: _Draft) -> Iterable[Diagnostic]:
    """Rules => strata, none of which depends on its own negation."""
    draft.strata, diagnostics = stratify(draft.rules)
    return diagnostics


def _add_old_versions(draft: _Draft) -> Iterable[Diagnostic]:
    """``q(s) :- old:p(s)`` => also the rules of `old:p`, which replace its stand-in."""
    draft.old_rules, added, diagnostics = with_old_state(draft.rules, draft.relations, draft.names.catalogue)
    draft.relations |= added
    return diagnostics


def _check_services(draft: _Draft) -> Iterator[Diagnostic]:
    """Report services that no rule unlocks: ``not gate:unlocked("egde", r)``, or a grant for a misspelt service."""
    services = {unlock.service for unlock in draft.unlocks}
    for rule in draft.rules:
        for match in matches(rule.body):
            name = relation_name(match.relation)
            service = match.arguments[SERVICES[name]] if name in SERVICES else None
            if not isinstance(service, Const) or service.value in services:
                continue
            if name == UNLOCKED or slip(str(service.value), services):
                message = f"no rule unlocks the service {service.value}"
                near = closest(str(service.value), services)
                advice = suggest_name(near, f'write a rule with @unlock("{service.value}")')
                yield Diagnostic("unknown-service", message, match.span, advice)


def _find_lints(draft: _Draft) -> Iterable[Diagnostic]:
    """Constants that cannot occur, and lints; of a program with errors the lints that need no checked rules."""
    rules = [rule for stratum in draft.strata for rule in stratum.rules]
    review = Review(draft.own, draft.names, rules, draft.relations, draft.policies, read=draft.read_elsewhere)
    problems = [*check_values(review, whole=draft.valid)]
    if not draft.valid or _has_error(problems):
        review = replace(review, rules=(), policies=())
    return [*problems, *find_lints(review, loading=True)]


def _make_program(draft: _Draft) -> Iterator[Diagnostic]:
    """Rules without errors => the program. Reported are those that depend on all stacks of the cloud and on a single
    operation: nothing has both."""
    if not draft.valid:
        return
    rules, strata = draft.rules, draft.strata
    if draft.old_rules != rules:
        rules, strata = [*draft.old_rules], stratify(draft.old_rules)[0]
    derived = {rule.relation for rule in rules}
    used = {relation for rule in rules for relation in rule.mentioned}
    inputs = (used | draft.names.own().keys()) - derived
    described = {name: draft.relations[name] for name in sorted(inputs | derived, key=str)}
    program = draft.program = CheckedProgram(described, frozenset(inputs), tuple(strata))
    if not any(map(is_all, program.inputs)):
        return
    reads = collect_dependencies(program, (*draft.policies, *draft.unlocks))
    for policy in draft.policies:
        read = reads[policy.relation] & program.inputs
        changing = sorted(str(name) for name in read if is_old(name) or name in TRANSITION)
        if changing and any(map(is_all, read)):
            message = f"{policy.id} judges the whole cloud, but reads {', '.join(changing)}, which only a single stack"
            advice = "judge changes of a stack in a separate policy"
            yield Diagnostic("cloud-wide", f"{message} has", policy.span, advice)
    for unlock in draft.unlocks:
        if any(map(is_all, reads[unlock.relation] & program.inputs)):
            message = f"a grant of {unlock.service} can't depend on the whole cloud: it is decided for a single stack"
            yield Diagnostic("cloud-wide", message, unlock.span, "use relations of the stack or of the inventory")


PASSES: tuple[Callable[[_Draft], Iterable[Diagnostic]], ...] = (
    _translate_congress,
    _lower_modules,
    _find_unread,
    _read_annotations,
    _define_live,
    _order_strata,
    _add_old_versions,
    _check_services,
    _find_lints,
    _make_program,
)
"""The passes in order. Each changes the draft from what stands on the left of the arrow in its docstring to what stands
on the right, and reports what is wrong."""


def _given_rules(
    rules: Iterable[CheckedRule], relations: dict[RelationRef, Relation], names: Names
) -> list[CheckedRule]:
    """The rule ``p(...) :- p#given(...)`` for each relation that has rules and may also be filled by facts. The given
    versions are added to the relations."""
    given_rules = []
    derived = {rule.relation for rule in rules}
    for name in sorted(names.own().keys() & derived):
        given = names.given.get(name) or names.given.get(name.rpartition(":")[2])
        if name in names.undeclared and not given:
            continue
        relation = relations[name]
        if given is None or len(given.columns) != len(relation.columns):
            given = relation
        source = given_version(name)
        relations[source] = given
        given_rules.append(copy_of(source, name, len(relation.columns)))
    return given_rules
