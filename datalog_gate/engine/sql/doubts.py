"""Doubts: the stacks for which a lifted program may derive wrong rows.

Tables cannot hold every value and row. A row may lack values, which are null there. A row that may not exist is in a
relation of its own. Rows of a derived relation are in doubt if such a row fits a rule as far as it is known::

    p(root, x) :- q(root, x, y), r(y), not s(root, x).      =>      doubt#p#1~(root, x) :- q#2(root), q(root, x, null).
    (q may lack y; a row of s may not exist)                        doubt#p#1~(root, x) :- s?(root, x).

This may report too many rows, never too few: literals of a body that may be wrong or fail are left out, and a doubt has
only those columns of the relation that the others give; all rows with these values are in doubt. A root whose doubt
meets an error is in doubt too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lifting import ROOT_COLUMN, ROOT_VARIABLE, Lifted
from datalog_gate.analysis.program import variables
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.schema.declaration import MAYBE, Column, Relation, RelationRef
from datalog_gate.schema.signatures import KIND_TESTS

MOST_VERSIONS = 4
"""The most relations of doubts about a relation that have different columns of it."""


class DoubtfulRows(NamedTuple):
    """Rows that may be wrong: those with the values that a relation of doubts has."""

    relation: RelationRef
    """The relation of these rows."""
    positions: tuple[int, ...]
    """The columns of it that the relation of doubts has, after the root."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """A program that derives what is in doubt, too."""

    lifted: Lifted
    relations: Mapping[RelationRef, DoubtfulRows]
    """What each relation of doubts says."""

    @staticmethod
    def lacking(relation: str, column: int) -> str:
        """The name of the input with the roots whose rows of a relation lack values of a column."""
        return f"{relation}#{column}"


def with_doubts(lifted: Lifted, columns: Mapping[str, Set[int]]) -> Doubts:
    """Add the relations of doubts, and their inputs. `columns` are the columns that lack values, by lifted input. A
    `MAYBE` relation with rows is an input too, with or without such columns. `Doubts.lacking` names the input for each
    column."""
    program = lifted.program
    relations = dict(program.relations)
    added = {Doubts.lacking(name, column) for name in columns for column in columns[name]}
    relations |= {name: _roots(name) for name in added}
    for name in columns.keys() - relations.keys():
        relations[name] = replace(relations[name.removesuffix(MAYBE)], name=name)
    made = _Doubts(columns)
    strata: list[ir.Stratum] = []
    for stratum in program.strata:
        if rules := made.of(stratum):
            strata.append(ir.Stratum(tuple({rule.relation: None for rule in rules}), tuple(rules), stratum.recursive))
    doubts: dict[RelationRef, DoubtfulRows] = {
        doubt: DoubtfulRows(name, version.positions)
        for name, versions in made.relations.items()
        for version, doubt in versions.items()
    }
    for doubt, (of, positions) in doubts.items():
        relations[doubt] = _roots(str(doubt), *(relations[of].columns[at] for at in positions))
    inputs = program.inputs | added | columns.keys()
    whole = ir.CheckedProgram(relations, inputs, (*program.strata, *strata))
    return Doubts(Lifted(whole, lifted.relations | added | columns.keys() | doubts.keys()), doubts)


def _roots(name: str, *more: Column) -> Relation:
    columns = (ROOT_COLUMN, *more)
    return Relation(name, columns, key=tuple(column.name for column in columns), generated="doubt")


class _DoubtKind(NamedTuple):
    """A kind of doubts about a relation."""

    positions: tuple[int, ...] = ()
    """The columns of it that are known."""
    lacking: tuple[int, ...] = ()
    """Other columns, if only their values are in doubt: without them the rows are there."""


@dataclass(slots=True)
class _Doubts:
    """Builds the rules of doubts."""

    columns: Mapping[str, Set[int]]
    relations: dict[RelationRef, dict[_DoubtKind, str]] = field(default_factory=dict)
    """The relations of doubts, by the relation in doubt."""

    def of(self, stratum: ir.Stratum) -> list[ir.CheckedRule]:
        """The rules of doubts about the relations of a stratum."""
        while doubtful := {
            rule.relation: dict[_DoubtKind, str]()
            for rule in stratum.rules
            if rule.relation not in self.relations and not all(self.is_sure(match) for match, _ in _ways(rule.body))
        }:
            self.relations |= doubtful
        rules: list[ir.CheckedRule] = []
        before = -1
        while before < (before := sum(map(len, self.relations.values()))):
            rules = [doubt for rule in stratum.rules for doubt in self.doubt(rule)]
        return rules

    def doubt(self, rule: ir.CheckedRule) -> Iterator[ir.CheckedRule]:
        """Yield a rule for each way in which a wrong read makes derived rows doubtful."""
        occurrences = Counter(rule.arguments)
        for literal in rule.body:
            occurrences.update(variables(literal))
        for match, others in _ways(rule.body):
            for source, lacking in self.sources(match):
                if (passed_on := _passed_on(match, lacking, rule, occurrences)) is None:
                    continue
                known = [other for other in others if isinstance(other, ir.Match) and self.is_sure(other)]
                given = dict.fromkeys((*source, *known))
                bound = _bound(given, (match, *others))
                tests = [other for other in others if self.is_test(other, bound, occurrences)]
                is_given = [isinstance(term, ir.Const) or term in bound for term in rule.arguments]
                version = _DoubtKind(tuple(at for at in range(1, len(is_given)) if is_given[at]))
                version = version._replace(lacking=passed_on)
                name, version = self.version(rule.relation, version)
                arguments = (ROOT_VARIABLE, *(rule.arguments[at] for at in version.positions))
                yield ir.CheckedRule(name, arguments, (*given, *tests), rule.span)

    def version(self, relation: RelationRef, version: _DoubtKind) -> tuple[str, _DoubtKind]:
        """The relation of doubts of a kind, or of the one without columns if there are too many kinds already."""
        versions = self.relations[relation]
        if version not in versions and len(versions) >= MOST_VERSIONS:
            version = _DoubtKind()
        known, lacking = ("#".join(map(str, columns)) for columns in version)
        return versions.setdefault(version, f"doubt#{relation}#{known}~{lacking}"), version

    def is_test(
        self, literal: ir.CheckedLiteral, bound: Set[ir.Operand], occurrences: Mapping[ir.Operand, int]
    ) -> bool:
        """Whether the literal tests bound variables. Other variables of a negation must occur only in it."""
        own = Counter(variables(literal))
        if isinstance(literal, ir.Without):
            own = Counter({var: count for var, count in own.items() if occurrences[var] > count})
        return not isinstance(literal, ir.Match) and self.is_sure(literal) and bound >= own.keys()

    def sources(self, match: ir.Match) -> Iterator[tuple[list[ir.Match], Sequence[int]]]:
        """What may be wrong where a match reads: doubtful rows of a derived relation, or rows of an input. With it the
        columns of the match, if only their values are in doubt."""
        name, span = match.relation, match.span
        if name in self.relations:
            for (positions, values), doubt in [*self.relations[name].items()]:
                if not values or not {*match.columns}.isdisjoint(values):
                    known = (ROOT_VARIABLE, *(match.arguments[at] for at in positions))
                    yield [ir.Match(doubt, known, span)], values
            return
        lack, maybe = (self.columns.get(f"{name}{end}", frozenset[int]()) for end in ("", MAYBE))
        for column in lack & set(match.columns):
            arguments = [None if at in lack else term for at, term in enumerate(match.arguments)]
            arguments[column] = ir.Const(None)
            roots = ir.Match(Doubts.lacking(str(name), column), (ROOT_VARIABLE,), span)
            yield [roots, replace(match, arguments=tuple(arguments))], [column]
        if f"{name}{MAYBE}" in self.columns:
            arguments = [None if at in maybe else term for at, term in enumerate(match.arguments)]
            yield [ir.Match(f"{name}{MAYBE}", tuple(arguments), span)], ()

    def is_sure(self, literal: ir.CheckedLiteral) -> bool:
        """Whether the literal reads nothing wrong and never fails."""
        match literal:
            case ir.Match(name):
                return name not in self.relations and not any(True for _ in self.sources(literal))
            case ir.Compare(comparator="=" | "!="):
                return True
            case ir.Call(builtin):
                return builtin in KIND_TESTS
            case ir.Without(body):
                return all(map(self.is_sure, body))
        return False


def _ways(
    body: Sequence[ir.CheckedLiteral], around: Sequence[ir.CheckedLiteral] = ()
) -> Iterator[tuple[ir.Match, list[ir.CheckedLiteral]]]:
    """Yield each match of a body and its inner bodies, with the literals beside and around it."""
    for at, literal in enumerate(body):
        others = [*around, *body[:at], *body[at + 1 :]]
        match literal:
            case ir.Match():
                yield literal, others
            case ir.Without():
                yield from _ways(literal.body, others)
            case ir.Fold():
                yield from _ways(literal.body, [*others, literal])


def _passed_on(
    match: ir.Match, lacking: Sequence[int], rule: ir.CheckedRule, occurrences: Mapping[ir.Operand, int]
) -> tuple[int, ...] | None:
    """The columns of a rule that get the lacking values of a match; none if something else reads these, and None if
    nothing does."""
    values = [term for at in lacking if (term := match.arguments[at]) is not None]
    columns = tuple(at for at, term in enumerate(rule.arguments) if term in values)
    reads = sum([occurrences[value] for value in values]) - len(values)
    if not values or len({*values}) < len(values) or not all(isinstance(value, ir.Var) for value in values):
        return ()
    if not reads:
        return None
    return columns if reads == len(columns) and match in rule.body else ()


def _bound(given: Iterable[ir.Match], literals: Iterable[ir.CheckedLiteral]) -> set[ir.Operand]:
    """The variables of matches, and those that equal one of them or a constant and nothing else: what other literals
    bind may have an unknown value, which equations only test."""
    bound: set[ir.Operand] = {var for match in given for var in variables(match)}
    equations: list[set[ir.Operand]] = []
    doubtful: set[ir.Operand] = set()
    for literal in literals:
        match literal:
            case ir.Compare("=", left, right):
                equations.append({left, right})
            case ir.Match():
                doubtful.update(variables(literal))
            case ir.Call(outputs=outputs):
                doubtful.update(output for output in outputs if output)
            case ir.Fold(target=target):
                doubtful.add(target)
    constants = {term for pair in equations for term in pair if isinstance(term, ir.Const)}
    doubtful = _equated(doubtful - bound, equations, bound | constants)
    return _equated(bound | constants, equations, doubtful)


def _equated(terms: Set[ir.Operand], equations: Iterable[Set[ir.Operand]], apart: Set[ir.Operand]) -> set[ir.Operand]:
    """The terms and all that equations equate with them, but for those apart."""
    found = {*terms}
    while more := {term for pair in equations if pair & found for term in pair} - found - apart:
        found |= more
    return found
