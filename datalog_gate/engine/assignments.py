"""The assignments of a body one by one, true or in error (layer 3): what an error means is defined here.

In: a body, tables, the errors of relations known so far. Out: each assignment that no literal makes false, with the
error that stands in its way, if any. For one assignment: the matches choose rows, or rows in error; what follows from
their values by equations and builtins is computed; a false literal beats an error, an error beats true. A row in error
fits wherever its known values do. No order of literals changes the result. Slower than what `code` makes of a body,
hence used where an error was met, where a body is too deep for it, and for explanations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from datalog_gate.analysis.program import Call, CheckedRule, Compare, Const, Fold, Match, Operand, Var, Without
from datalog_gate.analysis.safety import Scoped, inner, scoped
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import Row, Unknown, Value, in_order
from datalog_gate.engine.budget import Watch
from datalog_gate.engine.builtins import EvaluationError, aggregate, compare, compute, fits, holds
from datalog_gate.engine.model import IndexedTable

FEW = 16
"""As many rows are gone through sooner than an index is made."""


@dataclass(frozen=True, slots=True, order=True)
class Cause:
    """An error: where it happened, and what it says."""

    span: Span
    message: str


Binding = dict[Var, Value]
Errors = dict[str, dict[Row, set[Cause]]]
"""By relation: rows in error (None where a value is not known) with their causes."""
Place = tuple[str, tuple[int, ...], Row]
"""A relation, columns of it, and what they hold."""
Verdict = bool | Cause | None
"""Of a literal: true, false, in error, or None while it waits for a value."""


@dataclass(slots=True)
class Assignments:
    """Finds assignments over `tables` and `errors`; in the order of rows if `ordered`, for which the tables must be
    finished: what was found in them is remembered. A match of new rows reads the table `news`."""

    tables: Mapping[str, IndexedTable]
    errors: Errors = field(default_factory=dict)
    watch: Watch = field(default_factory=lambda: Watch())
    ordered: bool = False
    news: IndexedTable | None = None
    _sorted: dict[Place, list[Row]] = field(default_factory=dict, init=False)
    _bodies: dict[int, tuple[CheckedRule | Scoped, Sequence[Scoped]]] = field(default_factory=dict, init=False)
    _settled: dict[tuple[int, Row], tuple[Scoped, Cause | bool | Value]] = field(default_factory=dict, init=False)
    """By the identity of what they are about, which each of them holds: equality would compare all that it is made of.
    The body of each rule, negation and aggregate; and with the values that it needs what one of the latter comes to."""

    def of_rule(self, rule: CheckedRule, known: Binding | None = None) -> Iterator[tuple[Binding, Cause | None]]:
        """The assignments of a rule's body that hold the `known` values."""
        return self.of_body(self.body(rule), known or {})

    def body(self, of: CheckedRule | Scoped) -> Sequence[Scoped]:
        """The body of a rule, or within a negation or an aggregate, with what each literal needs."""
        if id(of) not in self._bodies:
            if isinstance(of, CheckedRule):
                body = scoped(of.body, [argument for argument in of.arguments if isinstance(argument, Var)])
            else:
                assert isinstance(of.literal, Without | Fold)
                body = inner(of.literal, of.needs)
            self._bodies[id(of)] = of, body
        return self._bodies[id(of)][1]

    def rows(self, relation: str, columns: tuple[int, ...], key: Row) -> Collection[Row]:
        """The rows that hold `key` in `columns`. Where the first of them, most often an id, leaves few rows no index of
        all of them is made; nor where it is the whole row, unless it holds an unknown, which equals one of another
        place."""
        table = self.tables[relation]
        if len(columns) == len(next(iter(table.rows), ())) and not any(isinstance(value, Unknown) for value in key):
            return (key,) if key in table.rows else ()
        few = table.lookup(columns[:1], key[:1])
        if len(columns) < 2:
            return few
        if len(few) > FEW:
            return table.lookup(columns, key)
        return [row for row in few if all(row[at] == value for at, value in zip(columns, key, strict=True))]

    def of_body(self, body: Sequence[Scoped], known: Binding) -> Iterator[tuple[Binding, Cause | None]]:
        """The assignments of any body that hold the `known` values."""
        matches = [one.literal for one in body if isinstance(one.literal, Match)]
        if self.ordered:  # so that the order of the body chooses nothing
            matches.sort(key=lambda match: match.span)
        computed = [one for one in body if not isinstance(one.literal, Match)]
        if len(matches) == 1 and not computed:  # what most aggregates are over
            yield from self._fitting(matches[0], known, None)
            return
        levels: list[_Level] = [(matches, computed, iter([(dict(known), None)]))]
        while levels:
            pending, others, found = levels[-1]
            for binding, cause in found:
                self.watch.count_rows(1 + len(pending))
                judged = self._judged(others, binding, cause)
                if judged is None:
                    continue
                waiting, cause = judged
                if pending:
                    best = self._best(pending, binding) if len(pending) > 1 else pending[0]
                    rest = [match for match in pending if match is not best]
                    levels.append((rest, waiting, self._fitting(best, binding, cause)))
                    break
                assert cause or not waiting, "a safe body leaves nothing unbound but after an error"
                yield binding, cause
            else:
                levels.pop()

    def _judged(
        self, computed: Sequence[Scoped], binding: Binding, cause: Cause | None
    ) -> tuple[list[Scoped], Cause | None] | None:
        """What still waits for values once all that can be told is told, and the least cause; None if one is false."""
        waiting = list(computed)
        settled = False
        while not settled:  # each round may give the next one values
            settled = True
            for one in list(waiting):
                verdict = self._judge(one, binding)
                if verdict is False:
                    return None
                if verdict is not None:
                    waiting.remove(one)
                    settled = False
                if isinstance(verdict, Cause):
                    cause = _least(cause, verdict)
        return waiting, cause

    def _best(self, matches: Sequence[Match], binding: Binding) -> Match:
        """The match that is known best; of those, where rows are put in order, the first one with the fewest rows."""
        known = [sum([isinstance(term, Const) or term in binding for _, term in match.said]) for match in matches]
        most = max(known)
        best = [match for match, count in zip(matches, known, strict=True) if count == most]
        if len(best) == 1 or not self.ordered:
            return best[0]
        places = [self._place(match, binding) for match in best]
        counts = [len(self.rows(*place)) if place else 0 for place in places]
        return best[counts.index(min(counts))]

    def _fitting(self, match: Match, binding: Binding, before: Cause | None) -> Iterator[tuple[Binding, Cause | None]]:
        """The binding with the values of each row that fits, and the least of the cause `before` and the row's own if
        it is one in error."""
        for row in self._rows(match, binding):
            extended = _bound(match, row, binding)
            if extended is not None:
                yield extended, before
        if match.new:
            return
        for row, causes in self.errors.get(match.relation, {}).items():
            extended = _bound(match, row, binding, in_error=True)
            if extended is not None:
                for cause in causes:
                    yield extended, _least(before, cause)

    def _rows(self, match: Match, binding: Binding) -> Collection[Row]:
        """The rows that hold the constants and the bound variables of the match."""
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
        """What the match is to find; None if that is a null, which never joins."""
        fixed = [(at, term) for at, term in match.said if isinstance(term, Const) or term in binding]
        columns, key = tuple([at for at, _ in fixed]), tuple([_value(term, binding) for _, term in fixed])
        if any(value is None and isinstance(term, Var) for value, (_, term) in zip(key, fixed, strict=True)):
            return None
        return match.relation, columns, key

    def _judge(self, one: Scoped, binding: Binding) -> Verdict:
        """The verdict on a literal; what it binds is added to the binding."""
        if not one.ready(binding):
            return None
        try:
            match one.literal:
                case Compare(comparator, left, right, _, when_unknown):
                    for side, other in ((left, right), (right, left)):
                        if isinstance(side, Var) and side not in binding:
                            binding[side] = _value(other, binding)
                            return True
                    operands = _value(left, binding), _value(right, binding)
                    return compare(comparator, *operands, when_unknown, one.literal.null_test)
                case Call(builtin, inputs, outputs, _, when_unknown):
                    values = [_value(operand, binding) for operand in inputs]
                    if not outputs:
                        return holds(builtin, values, when_unknown)
                    return _given(outputs[0], compute(builtin, values), binding)
                case Without():
                    verdict = self._settle(one, binding)
                    assert isinstance(verdict, Cause | bool)
                    return verdict
                case Fold(target=target):
                    value = self._settle(one, binding)
                    return value if isinstance(value, Cause) else value is not None and _given(target, value, binding)
                case Match():
                    raise AssertionError("a match is no computed literal")
        except EvaluationError as error:
            return Cause(one.literal.span, str(error))

    def _settle(self, one: Scoped, binding: Binding) -> Cause | bool | Value:
        """Whether a negation holds, or the value of an aggregate, null if it has none; or the error in it."""
        known = {var: binding[var] for var in one.needs}
        key = id(one), tuple(known.values())
        if key in self._settled:
            return self._settled[key][1]
        inside = Assignments(self.tables, self.errors, self.watch) if self.ordered else self  # no order is asked for
        found = inside.of_body(self.body(one), known)
        result = _aggregated(one.literal, found) if isinstance(one.literal, Fold) else _none(found)
        if self.ordered:
            self._settled[key] = one, result
        return result


_Level = tuple[Sequence[Match], Sequence[Scoped], Iterator[tuple[Binding, Cause | None]]]
"""The matches and other literals that are still to come, and the assignments of those before."""


def _none(found: Iterable[tuple[Binding, Cause | None]]) -> Cause | bool:
    """Whether there is no assignment."""
    worst: Cause | None = None
    for _, cause in found:
        if cause is None:
            return False
        worst = _least(worst, cause)
    return worst or True


def _aggregated(literal: Fold, found: Iterable[tuple[Binding, Cause | None]]) -> Cause | Value:
    worst: Cause | None = None
    rows: set[Row] = set()
    for each, cause in found:
        worst = _least(worst, cause)
        if worst is None:
            rows.add(tuple(_value(term, each) for term in literal.terms))
    return worst or aggregate(literal.function, rows)


def head_row(rule: CheckedRule, binding: Binding) -> Row:
    """The head's row, None for what the binding does not know."""
    return tuple(
        argument.value if isinstance(argument, Const) else binding.get(argument) for argument in rule.arguments
    )


def _bound(match: Match, row: Row, binding: Binding, in_error: bool = False) -> Binding | None:
    """The binding with the row's values, or None if they do not fit. In error a null is a value not known: it fits."""
    extended = dict(binding)
    for at, argument in match.said:
        value = row[at]
        if in_error and value is None:
            continue
        if isinstance(argument, Var) and argument not in extended:
            extended[argument] = value
        elif not fits(value, _value(argument, extended), isinstance(argument, Const)):
            return None
    return extended


def _given(output: Operand | None, value: Value, binding: Binding) -> bool:
    """Whether a computed value fits its output, which it binds if nothing else did."""
    if isinstance(output, Var):
        known = output in binding
        return fits(value, binding.setdefault(output, value), constant=not known)
    return output is None or fits(value, output.value, constant=True)


def _value(operand: Operand, binding: Binding) -> Value:
    return operand.value if isinstance(operand, Const) else binding[operand]


def _least(cause: Cause | None, other: Cause | None) -> Cause | None:
    return min(cause, other) if cause and other else cause or other
