"""Provenance: the first derivation of each row of a model.

The first is by the order of rules as written, then by the order of values, whatever the engine. No row supports itself:
within a recursive stratum it is derived only from rows of earlier rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.program import find_sources, operands, variables
from datalog_gate.analysis.safety import ScopedLiteral, scope
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import Kind, Row, Value, in_order, kind_of
from datalog_gate.engine.assignments import Assignments, Binding, Cause, head_row, value_of
from datalog_gate.engine.budget import Watch
from datalog_gate.engine.least_model import Model
from datalog_gate.engine.native import Rounds, errors_of, rounds
from datalog_gate.schema.declaration import RelationRef

Fact = tuple[RelationRef, Row]
Matched = tuple[ir.Match, Fact]


@dataclass(frozen=True, slots=True)
class Derivation:
    """A rule, the values of its variables, and the rows of its matches in the order of the body."""

    rule: ir.CheckedRule
    binding: Binding
    matched: tuple[Fact, ...]


@dataclass(slots=True)
class Provenance:
    """The derivations of the rows of one model, cached, with the rounds of recursive strata."""

    program: ir.CheckedProgram
    model: Model
    watch: Watch = field(default_factory=Watch)
    _rounds: dict[tuple[RelationRef, ...], Rounds] = field(default_factory=dict, init=False)
    _derivations: dict[Fact, Derivation | None] = field(default_factory=dict, init=False)
    _search: Assignments = field(init=False)

    def __post_init__(self) -> None:
        self._search = Assignments(self.model.tables, errors_of(self.model), self.watch, ordered=True)

    def derive(self, relation: RelationRef, row: Row) -> Derivation | None:
        """Find the first derivation of a row; None for a fact. Errors: BudgetError."""
        fact = relation, row
        if fact not in self._derivations:
            self._derivations[fact] = self._find_first(relation, row)
        return self._derivations[fact]

    def contributors(self, derivation: Derivation) -> Iterator[Matched]:
        """Find the first rows in each aggregate of a derivation. Errors: BudgetError."""
        for scoped in scope(derivation.rule):
            if isinstance(scoped.literal, ir.Fold):
                yield from self._contributor(scoped, derivation.binding)[1]

    def failure(self, cause: Cause) -> tuple[list[Value], list[Matched]]:
        """Find the inputs of an expression that failed: the values, and the rows of the matches around it, in its first
        failing assignment. Errors: BudgetError."""
        for stratum in self.program.strata:
            for rule in stratum.rules:
                if _holds(rule.body, cause) and (found := self._failure(scope(rule), {}, cause)):
                    return found
        return [], []

    def _failure(
        self, body: Sequence[ScopedLiteral], known: Binding, cause: Cause
    ) -> tuple[list[Value], list[Matched]] | None:
        failed = next((scoped.literal for scoped in body if _fails(scoped.literal, cause)), None)
        for binding, error in self._search.of_body(body, known):
            if error != cause:
                continue
            rows = list(self._rows(body, binding))
            if failed is None:
                for scoped in body:
                    if isinstance(scoped.literal, ir.Nesting) and _holds(scoped.literal.body, cause):
                        inner = {var: binding[var] for var in scoped.needs if var in binding}
                        if found := self._failure(scoped.body, inner, cause):
                            return found[0], rows + found[1]
                continue
            sources = find_sources(operands(failed), [scoped.literal for scoped in body])
            values = [binding[var] for var in sources if var in binding]
            for scoped in body:
                fold = scoped.literal
                if isinstance(fold, ir.Fold) and (fold is failed or fold.target in sources):
                    value, matched = self._contributor(scoped, binding, at_fault=True)
                    values += value
                    rows += matched
            return values, rows
        return None

    def _contributor(
        self, fold: ScopedLiteral, binding: Binding, at_fault: bool = False
    ) -> tuple[list[Value], list[Matched]]:
        """The first value of an aggregate, or with `at_fault` the first that is not a number, and its rows."""
        literal = fold.literal
        assert isinstance(literal, ir.Fold)
        body, known = fold.body, {var: binding[var] for var in fold.needs if var in binding}
        first: tuple[list[Value], list[Matched]] = [], []
        for inner, cause in self._search.of_body(body, known):
            term = literal.terms[0]
            value = term.value if isinstance(term, ir.Const) else inner.get(term)
            is_number = kind_of(value) == Kind.NUMBER
            if cause is None and value is not None and not (is_number and first[0]):
                first = [value], list(self._rows(body, inner))
                if not (is_number and at_fault):
                    break
        return first

    def _rows(self, body: Sequence[ScopedLiteral], binding: Binding) -> Iterator[Matched]:
        for scoped in body:
            match = scoped.literal
            if isinstance(match, ir.Match) and all(
                isinstance(term, ir.Const) or term in binding for _, term in match.column_terms
            ):
                for fact in self._matched(match, binding, {}, 0):
                    yield match, fact

    def _find_first(self, relation: RelationRef, row: Row) -> Derivation | None:
        stratum = next((stratum for stratum in self.program.strata if relation in stratum.relations), None)
        if stratum is None:
            return None
        if stratum.recursive and stratum.relations not in self._rounds:
            self._rounds[stratum.relations] = rounds(stratum, self.model, self._search.errors)
        reached = self._rounds.get(stratum.relations, {})
        latest = reached.get(relation, {}).get(row, 0)
        own = [rule for rule in stratum.rules if rule.relation == relation]
        for rule in sorted(own, key=lambda rule: rule.span):
            for binding in self._bindings(rule, row):
                matches = [literal for literal in rule.body if isinstance(literal, ir.Match)]
                matched = [fact for match in matches for fact in self._matched(match, binding, reached, latest)]
                if len(matched) == len(matches):
                    return Derivation(rule, binding, tuple(matched))
        return None

    def _bindings(self, rule: ir.CheckedRule, row: Row) -> Iterator[Binding]:
        """The bindings that derive the row, in order."""
        pairs = list(zip(rule.arguments, row, strict=True))
        if any(isinstance(term, ir.Const) and term.value != value for term, value in pairs):
            return
        matched = {var for literal in rule.body if isinstance(literal, ir.Match) for var in variables(literal)}
        known: Binding = {var: value for var, value in pairs if isinstance(var, ir.Var) and var in matched}
        known = {var: value for var, value in known.items() if value is not None}
        for binding, cause in self._search.of_body(scope(rule), known):
            if not cause and row == head_row(rule, binding):
                yield binding

    def _matched(self, match: ir.Match, binding: Binding, reached: Rounds, latest: int) -> Iterator[Fact]:
        """The first row that matches and was derived before round `latest`, if any."""
        key = tuple([value_of(term, binding) for _, term in match.column_terms])
        rows = self._search.rows(match.relation, match.columns, key)
        if match.relation in reached:
            rounds_of = reached[match.relation]
            rows = [row for row in rows if rounds_of.get(row, 0) < latest]  # another engine may have other rows
        if rows:
            yield match.relation, next(iter(rows)) if len(rows) == 1 else in_order(rows)[0]


def _fails(literal: ir.CheckedLiteral, cause: Cause) -> bool:
    return literal.span == cause.span and not isinstance(literal, ir.Match | ir.Without)


def _holds(body: Sequence[ir.CheckedLiteral], cause: Cause) -> bool:
    """Whether the failed literal is in the body, or in an inner one."""
    return any(_fails(literal, cause) for literal in ir.all_literals(body))
