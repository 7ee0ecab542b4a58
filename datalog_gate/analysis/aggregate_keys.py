"""Terms of aggregates that must tell rows apart.

An aggregate counts equal tuples once. ``sum{ n : os:cinder:volume(size=n) }`` is 600 for two volumes of 600. Terms tell
rows apart if, together with the variables that group them, they determine the row of each relation in the body, by keys
and equations.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lower import Conjunction, WrittenSet
from datalog_gate.analysis.program import variables
from datalog_gate.analysis.strata import close
from datalog_gate.base.diagnostics import Advice, Diagnostic
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.values import Kind
from datalog_gate.language import ast
from datalog_gate.language.printer import print_term
from datalog_gate.language.walk import variables as written_variables
from datalog_gate.schema.declaration import Relation, RelationRef, relation_name
from datalog_gate.schema.relations import ONE_ROW

ADDING = ("sum", "avg")
"""The aggregates that are wrong without a key. Equal values make no difference to min and max."""
MOST_STEPS = 100


def check_sets(
    sets: Iterable[WrittenSet],
    rules: Iterable[ir.CheckedRule],
    relations: Mapping[RelationRef, Relation],
    given: Container[str],
) -> Iterator[Diagnostic]:
    """Report aggregates whose terms may be equal for several rows.

    A sum is an error, unless the added relation declares no key and the terms may contain its key. Other aggregates are
    warnings. Nothing is known about `given` relations, which only facts define.
    """
    keys = _Keys(relations, given)
    for rule in rules:
        keys.rules.setdefault(relation_name(rule.relation), []).append(rule)
    for written in sets:
        if written.term.function not in ("min", "max") and not written.term.distinct:
            yield from _check_set(written, keys)


@dataclass(slots=True)
class _Keys:
    """What determines the rows of relations: declared keys, and keys that follow from the only rule of a relation."""

    relations: Mapping[RelationRef, Relation]
    given: Container[str]
    rules: dict[str, list[ir.CheckedRule]] = field(default_factory=dict)
    _by_rule: dict[tuple[str, frozenset[int]], bool] = field(default_factory=dict)
    _depth: int = 0

    def close(self, body: Conjunction, known: Collection[ir.Var]) -> frozenset[ir.Var]:
        """The variables of the body that have only one value once the known ones are fixed."""
        return close(known, body, lambda literal, closed: self._determined(literal, body, closed))

    def has_key(self, match: ir.Match, known: Collection[ir.Var]) -> bool:
        """Whether at most one row matches the known variables and the constants."""
        relation = self.relations[match.relation]
        fixed = frozenset(at for at, term in match.column_terms if isinstance(term, ir.Const) or term in known)
        key = [relation.positions[name] for name in relation.key] or range(len(relation.columns))
        return relation.name in ONE_ROW or fixed.issuperset(key) or self._has_key_by_rule(relation.name, fixed)

    def trace(self, var: ir.Var, body: Conjunction, known: Collection[ir.Var]) -> Iterator[tuple[ir.Match, int, bool]]:
        """Yield the matches that give a variable its value: each with the column, and whether a single row matches.
        Continues into the rules of derived relations without a key, where the columns of the head are known."""
        seen: set[int] = set()
        waiting: list[tuple[ir.Operand, Conjunction, Collection[ir.Var]]] = [(var, body, known)]
        while waiting:
            operand, body, known = waiting.pop()
            sources = ir.find_sources([operand], body)
            closed = self.close(body, known)
            for match in _matches(body):
                for at in (at for at, term in match.column_terms if term in sources):
                    yield match, at, self.has_key(match, closed)
                    for rule in () if self.is_base(match.relation) else self.rules[relation_name(match.relation)]:
                        if id(rule) not in seen:
                            seen.add(id(rule))
                            waiting.append((rule.arguments[at], rule.body, _head_variables(rule)))

    def is_base(self, relation: RelationRef) -> bool:
        """Whether tracing ends at this relation: it declares a key, or no rule derives it."""
        return bool(self.relations[relation].key) or relation_name(relation) not in self.rules

    def _determined(self, literal: ir.CheckedLiteral, body: Conjunction, known: Collection[ir.Var]) -> Iterable[ir.Var]:
        match literal:
            case ir.Match() if self.has_key(literal, known):
                return variables(literal)
            case ir.Compare("="):
                sides = [(to, by) for to, _, by in literal.from_each_side if isinstance(to, ir.Var)]
                return [to for to, by in sides if by in known or isinstance(by, ir.Const)]
            case ir.Call() if all(isinstance(term, ir.Const) or term in known for term in literal.inputs):
                return [output for output in literal.outputs if isinstance(output, ir.Var)]
            case ir.Fold():
                beside = {var for other in body if other is not literal for var in variables(other)}
                if all(var in known for var in variables(literal) if var in beside and var != literal.target):
                    return [literal.target]
        return ()

    def _has_key_by_rule(self, name: str, fixed: frozenset[int]) -> bool:
        """Whether the columns are a key of a relation with one rule, by the keys of what that rule reads."""
        rules = self.rules.get(name, ())
        if len(rules) != 1 or self._depth > MOST_STEPS:
            return False
        if (name, fixed) not in self._by_rule:
            self._by_rule[name, fixed] = False  # for a recursion
            self._depth += 1
            head = [argument for at, argument in enumerate(rules[0].arguments) if at in fixed]
            closed = self.close(rules[0].body, [argument for argument in head if isinstance(argument, ir.Var)])
            self._by_rule[name, fixed] = closed.issuperset(_head_variables(rules[0]))
            self._depth -= 1
        return self._by_rule[name, fixed]


def _check_set(written: WrittenSet, keys: _Keys) -> Iterator[Diagnostic]:
    term, adds = written.term, written.term.function in ADDING
    own = [operand for operand in written.terms if isinstance(operand, ir.Var)]
    known = written.outside.union(own)
    traces = (keys.trace(var, body, known) for body in written.bodies for var in own)
    open_matches = [match for body in written.bodies for match in _open_matches(body, known, keys)]
    if open_matches and (adds or not own or _takes_values(keys, traces)):
        relation = keys.relations[open_matches[0].relation]
        message = (
            f"{term.function} takes each value of `{_terms(term)}` only once, even if several rows of "
            f"{relation.ref} have it"
        )
        sure = adds and any(_is_wrong(match, written, keys) for match in open_matches)
        suggestion = _advise(written, relation, keys, known)
        yield Diagnostic("set-aggregate", message, term.span, suggestion, "error" if sure else "warning")
    elif not open_matches and adds and isinstance(first := written.terms[0], ir.Var):
        summed = (keys.trace(first, body, known) for body in written.bodies)
        if merged := next((match for trace in summed for match, _, is_one in trace if not is_one), None):
            message = (
                f"{term.function} takes `{_terms(term)}` from a relation in which equal rows of "
                f"{merged.relation} are one row"
            )
            suggestion = f"give that relation a column that tells the rows apart, or write {_meant(term)}"
            yield Diagnostic("set-aggregate", message, term.span, suggestion, "warning")


def _advise(written: WrittenSet, relation: Relation, keys: _Keys, known: Collection[ir.Var]) -> str:
    better = _with_keys(written, keys, known) if len(written.bodies) == 1 else None
    ways = [f"write `{better}`" if better else "add terms that tell the rows apart"]
    if not relation.key and relation.name in keys.rules:
        ways.append(f"declare the key of {relation.name.rpartition(':')[2]}")
    return Advice(f"{', '.join(ways)}, or write {_meant(written.term)}", *([better] if better else ()))


def _meant(term: ast.Aggregate) -> str:
    return f"`{term.function}{{ distinct {_terms(term)} : ... }}` if equal values should count once"


def _terms(term: ast.Aggregate) -> str:
    return ", ".join(map(print_term, term.terms))


def _open_matches(body: Conjunction, known: Collection[ir.Var], keys: _Keys) -> Iterator[ir.Match]:
    """The matches in which several rows may give equal terms."""
    closed = keys.close(body, known)
    return (match for match in _matches(body) if not keys.has_key(match, closed))


def _is_wrong(match: ir.Match, written: WrittenSet, keys: _Keys) -> bool:
    """Whether this is certainly wrong: the relation declares a key, or neither the grouping variables nor any term but
    the first says anything about its rows. If they do, they may be a key that is not declared."""
    if keys.relations[match.relation].key:
        return True
    says_nothing = written.outside.union(written.terms[1:]).isdisjoint(match.arguments)
    return says_nothing and relation_name(match.relation) not in keys.given


def _takes_values(keys: _Keys, traces: Iterable[Iterator[tuple[ir.Match, int, bool]]]) -> bool:
    """Whether the terms are plain values: neither part of a key nor a resource."""
    parts = [(match.relation, at) for trace in traces for match, at, _ in trace if keys.is_base(match.relation)]
    columns = [(keys.relations[relation], keys.relations[relation].columns[at]) for relation, at in parts]
    if any(column.name in relation.key or column.kinds & ~Kind.NULL == Kind.RESOURCE for relation, column in columns):
        return False
    return any(relation.key for relation, _ in columns)


def _with_keys(written: WrittenSet, keys: _Keys, known: Collection[ir.Var]) -> str | None:
    """The aggregate as the author would write it with the missing keys among its terms."""
    [body] = written.bodies
    taken = {var.name for var in written.outside} | {var.name for var in written_variables([written.term])}
    atoms = {node.span: node for node in written.term.body if isinstance(node, ast.Atom)}
    added: list[ast.Term] = []
    closed = keys.close(body, known)
    for match in _matches(body):
        if keys.has_key(match, closed):
            continue
        if match.span not in atoms:
            return None
        relation, atom = keys.relations[match.relation], atoms[match.span]
        for name in relation.key or relation.positions:
            at = relation.positions[name]
            if (variable := match.arguments[at]) is None:
                written_name = _new_name(relation, name, taken)
                taken.add(written_name)
                atom = _with_column(atom, relation, name, ast.Variable(written_name))
                added.append(ast.Variable(written_name))
            elif isinstance(variable, ir.Var) and variable not in closed:
                if not variable.name:
                    return None
                added.append(ast.Variable(variable.name))
                closed = keys.close(body, {*closed, variable})
        atoms[match.span] = atom
        closed = keys.close(body, {*closed, *variables(match)})
    terms = (*written.term.terms, *dict.fromkeys(added))
    inside = tuple(atoms.get(node.span, node) if isinstance(node, ast.Atom) else node for node in written.term.body)
    return print_term(replace(written.term, terms=terms, body=inside))


def _with_column(atom: ast.Atom, relation: Relation, column: str, term: ast.Variable) -> ast.Atom:
    """The atom with a variable in a column that it leaves open."""
    at = relation.positions[column]
    if at < len(atom.arguments):
        return replace(atom, arguments=(*atom.arguments[:at], term, *atom.arguments[at + 1 :]))
    others = [argument for argument in atom.named if argument.column != column]
    first = next((at for at, argument in enumerate(others) if argument.column not in relation.key), len(others))
    return replace(atom, named=(*others[:first], ast.NamedArgument(column, term), *others[first:]))


def _new_name(relation: Relation, column: str, taken: Collection[str]) -> str:
    """A variable for a key: ``v`` for the `_id` of `os:cinder:volume`, else ``volume``, else ``v2``."""
    owner = relation.name.rpartition(":")[2].partition(".")[0]
    word = owner if column in ("_id", "id") else column.lstrip("_")
    word = word if word.isidentifier() else "row"
    names = (word[0].lower(), word, *(f"{word[0].lower()}{at}" for at in range(2, len(taken) + 4)))
    return next(name for name in names if name not in taken)


def _matches(body: Sequence[ir.CheckedLiteral]) -> Iterator[ir.Match]:
    return (literal for literal in body if isinstance(literal, ir.Match))


def _head_variables(rule: ir.CheckedRule) -> list[ir.Var]:
    return [argument for argument in rule.arguments if isinstance(argument, ir.Var)]
