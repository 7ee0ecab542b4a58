"""Search for assignments of a body that are true or in error.

This module defines the semantics of errors: a false literal beats an error, an error beats true, and a row in error
matches if its known values do. It is slower than a compiled plan, so it is used only for errors, very deep bodies and
explanations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from datalog_gate.analysis.program import Call, CheckedRule, Compare, Const, Fold, Match, Operand, Var, Without
from datalog_gate.analysis.safety import ScopedLiteral, scope
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import NO_VALUE, Row, Unknown, Value, in_order
from datalog_gate.engine.budget import Watch
from datalog_gate.engine.builtins import EvaluationError, aggregate, compare, compute, cost, fits, holds
from datalog_gate.engine.least_model import IndexedTable
from datalog_gate.schema.declaration import RelationRef

FEW = 16
"""The number of rows that are read faster than an index is built."""


class Cause(NamedTuple):
    """An error: its place and message."""

    span: Span
    message: str


Binding = dict[Var, Value]
Errors = dict[RelationRef, dict[Row, set[Cause]]]
"""By relation the rows in error, with `NO_VALUE` for what has no value, and their causes."""
Place = tuple[RelationRef, tuple[int, ...], Row]
"""A relation, some of its columns, and the values there."""
Verdict = bool | Cause | None
"""The result of a literal: true, false, an error, or None while it waits for a value."""
Assignment = tuple[Binding, Cause | None]
"""The values of the variables, and the least error if there is one."""


@dataclass(slots=True)
class Assignments:
    """A search for assignments over tables and errors."""

    tables: Mapping[RelationRef, IndexedTable]
    errors: Errors = field(default_factory=dict)
    watch: Watch = field(default_factory=lambda: Watch())
    ordered: bool = False
    """Whether to search in the order of rows. Then the tables must be complete, since results are cached."""
    news: IndexedTable | None = None
    """The table that a match of new rows reads."""
    _sorted: dict[Place, list[Row]] = field(default_factory=dict, init=False)
    _results: dict[tuple[int, Row], tuple[ScopedLiteral, Cause | bool | Value]] = field(
        default_factory=dict, init=False
    )
    """The result of each negation and aggregate, by its id and the values that it needs. It is kept alive here."""

    def of_rule(self, rule: CheckedRule) -> Iterator[Assignment]:
        return self.of_body(scope(rule), {})

    def rows(self, relation: RelationRef, columns: tuple[int, ...], key: Row) -> Collection[Row]:
        """The rows with `key` in `columns`. No index is built if the first column, usually an id, leaves few rows, or
        for whole rows. A whole row with an unknown needs one, since the unknown equals one with another place."""
        table = self.tables[relation]
        if len(columns) == len(next(iter(table.rows), ())) and not any(isinstance(value, Unknown) for value in key):
            return (key,) if key in table.rows else ()
        few = table.lookup(columns[:1], key[:1])
        if len(columns) < 2:
            return few
        if len(few) > FEW:
            return table.lookup(columns, key)
        return [row for row in few if all(row[at] == value for at, value in zip(columns, key, strict=True))]

    def of_body(self, body: Sequence[ScopedLiteral], known: Binding) -> Iterator[Assignment]:
        matches = [scoped.literal for scoped in body if isinstance(scoped.literal, Match)]
        if self.ordered:  # the order of the literals must not matter
            matches.sort(key=lambda match: match.span)
        computed = [scoped for scoped in body if not isinstance(scoped.literal, Match)]
        if len(matches) == 1 and not computed:  # the body of most aggregates
            yield from self._fitting(matches[0], known, None)
            return
        levels: list[_Level] = [(matches, computed, iter([(dict(known), None)]))]
        while levels:
            pending, others, assignments = levels[-1]
            for binding, cause in assignments:
                self.watch.count_rows(1 + len(pending))
                evaluated = self._evaluate_all(others, binding, cause)
                if evaluated is None:
                    continue
                waiting, cause = evaluated
                if pending:
                    best = self._best(pending, binding) if len(pending) > 1 else pending[0]
                    rest = [match for match in pending if match is not best]
                    levels.append((rest, waiting, self._fitting(best, binding, cause)))
                    break
                assert cause or not waiting, "a safe body leaves nothing unbound but after an error"
                yield binding, cause
            else:
                levels.pop()

    def _evaluate_all(
        self, computed: Sequence[ScopedLiteral], binding: Binding, cause: Cause | None
    ) -> tuple[list[ScopedLiteral], Cause | None] | None:
        """Evaluate what is ready; return what waits for values, and the least cause, or None if a literal is false."""
        waiting = list(computed)
        progress = True
        while progress:  # each round may bind values for the next one
            progress = False
            for scoped in list(waiting):
                verdict = self._evaluate(scoped, binding)
                if verdict is False:
                    return None
                if verdict is not None:
                    waiting.remove(scoped)
                    progress = True
                if isinstance(verdict, Cause):
                    cause = _least(cause, verdict)
        return waiting, cause

    def _best(self, matches: Sequence[Match], binding: Binding) -> Match:
        """The match with the most known terms; if rows are ordered, among these the first one with the fewest rows."""
        counts = [
            sum([isinstance(term, Const) or term in binding for _, term in match.column_terms]) for match in matches
        ]
        best = [match for match, count in zip(matches, counts, strict=True) if count == max(counts)]
        if len(best) == 1 or not self.ordered:
            return best[0]
        places = [self._place(match, binding) for match in best]
        sizes = [len(self.rows(*place)) if place else 0 for place in places]
        return best[sizes.index(min(sizes))]

    def _fitting(self, match: Match, binding: Binding, before: Cause | None) -> Iterator[Assignment]:
        """Extend the binding by each matching row, with the least cause among `before` and the row's errors."""
        rows = self._rows(match, binding)
        self.watch.count(len(rows))
        for row in rows:
            extended = _extend(match, row, binding)
            if extended is not None:
                yield extended, before
        if match.new:
            return
        for row, causes in self.errors.get(match.relation, {}).items():
            extended = _extend(match, row, binding, in_error=True)
            if extended is not None:
                for cause in causes:
                    yield extended, _least(before, cause)

    def _rows(self, match: Match, binding: Binding) -> Collection[Row]:
        place = self._place(match, binding)
        if place is None:
            return ()
        if not self.ordered:
            table = self.news if match.new else self.tables[match.relation]
            assert table is not None
            return table.lookup(*place[1:])
        if place not in self._sorted:
            self._sorted[place] = in_order(self.rows(*place))
        return self._sorted[place]

    def _place(self, match: Match, binding: Binding) -> Place | None:
        """The place to look up the rows of a match; None if a variable is null, which never joins."""
        fixed = [(at, term) for at, term in match.column_terms if isinstance(term, Const) or term in binding]
        columns, key = tuple([at for at, _ in fixed]), tuple([value_of(term, binding) for _, term in fixed])
        if any(value is None and isinstance(term, Var) for value, (_, term) in zip(key, fixed, strict=True)):
            return None
        return match.relation, columns, key

    def _evaluate(self, scoped: ScopedLiteral, binding: Binding) -> Verdict:
        if not scoped.ready(binding):
            return None
        try:
            match scoped.literal:
                case Compare(comparator, left, right, _, when_unknown):
                    for side, other in ((left, right), (right, left)):
                        if isinstance(side, Var) and side not in binding:
                            binding[side] = value_of(other, binding)
                            return True
                    operands = value_of(left, binding), value_of(right, binding)
                    return compare(comparator, *operands, when_unknown, scoped.literal.null_test)
                case Call(builtin, inputs, outputs, _, when_unknown):
                    values = [value_of(operand, binding) for operand in inputs]
                    self.watch.count(cost(values))
                    if not outputs:
                        return holds(builtin, values, when_unknown)
                    return _bind_output(outputs[0], compute(builtin, values), binding)
                case Without() | Fold():
                    value = self._evaluate_body(scoped, binding)
                    if isinstance(value, Cause | bool):
                        return value
                    assert isinstance(scoped.literal, Fold)
                    return value is not None and _bind_output(scoped.literal.target, value, binding)
                case Match():
                    raise AssertionError("a match is not a computed literal")
        except EvaluationError as error:
            return Cause(scoped.literal.span, str(error))

    def _evaluate_body(self, scoped: ScopedLiteral, binding: Binding) -> Cause | bool | Value:
        """Whether a negation holds, or the value of an aggregate (null if it has none), or the error."""
        known = {var: binding[var] for var in scoped.needs}
        key = id(scoped), tuple(known.values())
        if key in self._results:
            return self._results[key][1]
        search = Assignments(self.tables, self.errors, self.watch) if self.ordered else self  # order does not matter
        assignments = search.of_body(scoped.body, known)
        assert isinstance(scoped.literal, Without | Fold)
        result = _summarize(scoped.literal, assignments)
        if self.ordered:
            self._results[key] = scoped, result
        return result


_Level = tuple[Sequence[Match], Sequence[ScopedLiteral], Iterator[Assignment]]
"""The remaining matches and other literals, and the assignments of earlier matches."""


def _summarize(literal: Without | Fold, assignments: Iterable[Assignment]) -> Cause | bool | Value:
    """Whether a negation holds, or the value of an aggregate, or the least error if that decides. An error of a tuple
    that also exists without error does not count, as with the rows of a rule."""
    terms = literal.terms if isinstance(literal, Fold) else ()
    rows: set[Row] = set()
    failures: list[tuple[Row, Cause]] = []
    for binding, cause in assignments:
        row = _values(terms, binding)
        if cause:
            failures.append((row, cause))
        elif isinstance(literal, Without):
            return False
        else:
            rows.add(row)
    causes = [cause for row, cause in failures if row not in rows]
    if causes:
        return min(causes)
    return True if isinstance(literal, Without) else aggregate(literal.function, rows)


def head_row(rule: CheckedRule, binding: Binding) -> Row:
    """The row of the head, with `NO_VALUE` for unbound variables."""
    return _values(rule.arguments, binding)


def _values(terms: Iterable[Operand], binding: Binding) -> Row:
    return tuple(term.value if isinstance(term, Const) else binding.get(term, NO_VALUE) for term in terms)


def _extend(match: Match, row: Row, binding: Binding, in_error: bool = False) -> Binding | None:
    """The binding with the row's values, or None if they do not match. `NO_VALUE` in a row in error matches all."""
    extended = dict(binding)
    for at, argument in match.column_terms:
        value = row[at]
        if in_error and value == NO_VALUE:
            continue
        if isinstance(argument, Var) and argument not in extended:
            extended[argument] = value
        elif not fits(value, value_of(argument, extended), isinstance(argument, Const)):
            return None
    return extended


def _bind_output(output: Operand | None, value: Value, binding: Binding) -> bool:
    if isinstance(output, Var):
        is_known = output in binding
        return fits(value, binding.setdefault(output, value), constant=not is_known)
    return output is None or fits(value, output.value, constant=True)


def value_of(operand: Operand, binding: Binding) -> Value:
    return operand.value if isinstance(operand, Const) else binding[operand]


def _least(cause: Cause | None, other: Cause | None) -> Cause | None:
    return min(cause, other) if cause and other else cause or other
