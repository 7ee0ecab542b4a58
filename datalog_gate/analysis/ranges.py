"""The values that the conditions of a body allow."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import name_of, quoted
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import FALSE, NOT_NULL, TRUE, Kind, Value, kind_of, show
from datalog_gate.schema.declaration import Column, Relation, RelationRef
from datalog_gate.schema.signatures import CALLS

Lists = dict[RelationRef, list[ir.Const]]
"""The constants of the relations generated for lists of constants."""


@dataclass(slots=True)
class Ranges:
    """What remains of the values of a body, literal by literal."""

    relations: Mapping[RelationRef, Relation]
    lists: Lists
    same: BodyFacts
    _known: dict[ir.Operand, _Range] = field(default_factory=dict)

    def contradiction(self, body: Sequence[ir.CheckedLiteral]) -> str | None:
        """Why no value remains for an operand, or None."""
        others = []
        for literal in body:
            if not isinstance(literal, ir.Match):
                others.append(literal)
            elif reason := self._add_row(literal):
                return reason
        computed = [literal for literal in others if isinstance(literal, ir.Computing)]
        for literal in (*others, *computed):  # a default's bounds depend on values that are narrowed later
            if reason := self._add(literal):
                return reason
        return None

    def _of(self, operand: ir.Operand) -> _Range:
        operand = self.same.leader(operand)
        known = self._known.get(operand)
        if known is None:
            known = self._known[operand] = _Range()
        return known

    def _add(self, literal: ir.CheckedLiteral) -> str | None:
        match literal:
            case ir.Compare():
                return self._add_comparison(literal, False)
            case ir.Without((ir.Compare() as compare,)):
                return self._add_comparison(compare, True)
            case ir.Without((ir.Match(relation, (ir.Var() as subject,)),)) if relation in self.lists:
                return self._exclude(subject, self.lists[relation])
            case ir.Call("??", (value, default), (ir.Var() as result,)):
                self._of(result).take_default(self._of(value), default)
            case ir.Call(name, _, (ir.Var() as result,)) if (bounds := CALLS[name].outputs[0].range) != (None, None):
                self._of(result).compute(*bounds)
            case ir.Fold("count", _, _, result):
                self._of(result).compute(0, None)
        return None

    def _add_row(self, row: ir.Match) -> str | None:
        if row.relation in self.lists and isinstance(subject := row.arguments[0], ir.Var):
            return self._add_list(subject, self.lists[row.relation])
        for at, term in row.column_terms:
            column = self.relations[row.relation].columns[at]
            if isinstance(term, ir.Var):
                self._of(term).take(column)
            else:
                known = _Range()
                if not (known.take(column) and known.choose([term.value]) and known.narrow("=", term.value)):
                    return f"{column.name} is never {quoted(term.value)}"
        return None

    def _add_list(self, subject: ir.Var, listed: Sequence[ir.Const]) -> str | None:
        is_possible = self._of(subject).choose([constant.value for constant in listed])
        return None if is_possible else f"{name_of(subject)} can't be in both lists"

    def _exclude(self, subject: ir.Var, listed: Sequence[ir.Const]) -> str | None:
        known = self._of(subject)
        known.apart += [constant.value for constant in listed]
        return None if known.is_possible() else f"its `not` excludes every value that {name_of(subject)} can have"

    def _add_comparison(self, compare: ir.Compare, negated: bool) -> str | None:
        comparator = ir.NEGATED[compare.comparator] if negated else compare.comparator
        left, right = self.same.leader(compare.left), self.same.leader(compare.right)
        if isinstance(left, ir.Const):
            left, right, comparator = right, left, ir.FLIPPED[comparator]
        if not isinstance(right, ir.Const):
            values = (self._of(left).equal, self._of(right).equal)
            is_same = left == right or (values[0] is not None and values[0] == values[1])
            return f"both sides of {comparator} are the same" if is_same and comparator in ("!=", "<", ">") else None
        if isinstance(left, ir.Const):
            holds = _Range()
            holds.narrow("=", left.value)
            written = compare.left, compare.right
            wrong = f" {compare.comparator} ".join(quoted(side.value) for side in written if isinstance(side, ir.Const))
            wrong += f" is {'true' if negated else 'false'}"
            return None if holds.narrow(comparator, right.value) else wrong
        known = self._of(left)
        before, column = known.text(), known.column
        if known.narrow(comparator, right.value):
            known.column = column if known.text() == before else ""
            return None
        name = name_of(compare.left if isinstance(compare.left, ir.Var) else compare.right)
        shown = f"{comparator} {quoted(right.value)}"
        if column:
            return f"{column} is always {before}, never {shown}"
        return f"{name} can't be both {before} and {shown}" if before else f"{name} is never {shown}"


def _choices(column: Column) -> tuple[Value, ...]:
    """All values of a column, if they are few."""
    booleans = (TRUE, FALSE) if column.kinds & NOT_NULL == Kind.BOOLEAN else ()
    few = (*(column.allowed if column.closed else ()), *column.numbers, *booleans)
    return (*few, None) if few and Kind.NULL in column.kinds else few


@dataclass(slots=True)
class _Range:
    """What the comparisons so far leave of a value. Values of different kinds are never compared."""

    column: str = ""
    """The column whose range this is, until a comparison narrows it."""
    low: Value = None
    low_open: bool = False
    high: Value = None
    high_open: bool = False
    equal: ir.Const | None = None
    apart: list[Value] = field(default_factory=list)
    choices: Collection[Value] | None = None
    """All possible values, if they are known."""

    def narrow(self, comparator: str, value: Value) -> bool:
        """Add a comparison; return whether something is left."""
        if comparator == "=":
            if self.equal and self.equal.value != value:
                return False
            self.equal = ir.Const(value)
        elif comparator == "!=":
            self.apart.append(value)
        elif comparator in (">", ">="):
            if self.low is None or _compare(self.low, value) in (-1, 0):
                is_open = comparator == ">" or (self.low == value and self.low_open)
                self.low, self.low_open = value, is_open
        elif self.high is None or _compare(self.high, value) in (0, 1):
            is_open = comparator == "<" or (self.high == value and self.high_open)
            self.high, self.high_open = value, is_open
        return self.is_possible()

    def choose(self, values: Collection[Value]) -> bool:
        """Keep only some values; return whether something is left."""
        self.choices = values if self.choices is None else [value for value in values if value in self.choices]
        return self.is_possible()

    def take(self, column: Column) -> bool:
        """Become a value of a column; return whether something is left."""
        if choices := _choices(column):
            self.choose(choices)
        if column.range != (None, None):
            self.column = self.column or column.name
        return self.limit(*column.range)

    def limit(self, low: Value, high: Value) -> bool:
        """Add bounds, None where there is none; return whether something is left."""
        possible = low is None or self.narrow(">=", low)
        return (high is None or self.narrow("<=", high)) and possible

    def compute(self, low: Value, high: Value) -> None:
        """Become the result of a computation, which is never null."""
        self.apart.append(None)
        self.limit(low, high)

    def take_default(self, value: _Range, default: ir.Operand) -> None:
        """Become another value with a default where it is null."""
        if not isinstance(default, ir.Const):
            return
        if value.choices is not None:
            self.choices = [*(choice for choice in value.choices if choice is not None), default.value]
        if isinstance(default.value, int | Decimal):
            low = value.low if _compare(value.low, default.value) in (None, -1) else default.value
            high = value.high if _compare(value.high, default.value) in (None, 1) else default.value
            fresh = not self.text()
            if self.limit(low, high) and fresh and value.column:
                self.column = f"{value.column} ?? {show(default.value)}"

    def is_possible(self) -> bool:
        is_open = self.low_open or self.high_open
        if self.choices is not None and not any(map(self._admits, self.choices)):
            return False
        if self.equal is None:
            return _compare(self.low, self.high) in (None, -1) or (self.low == self.high and not is_open)
        return self._admits(self.equal.value)

    def _admits(self, value: Value) -> bool:
        if any(kind_of(other) == kind_of(value) and other == value for other in self.apart):
            return False
        below, above = _compare(value, self.low), _compare(value, self.high)
        return not (below == -1 or above == 1 or (below == 0 and self.low_open) or (above == 0 and self.high_open))

    def text(self) -> str:
        if self.equal:
            return f"= {quoted(self.equal.value)}"
        if self.low is None and self.high is None and not self.apart:
            return ""
        parts = [f"{'>' if self.low_open else '>='} {quoted(self.low)}"] if self.low is not None else []
        parts += [f"{'<' if self.high_open else '<='} {quoted(self.high)}"] if self.high is not None else []
        return " and ".join(parts or [f"!= {quoted(value)}" for value in self.apart if value is not None])


def _compare(value: Value, other: Value) -> int | None:
    """-1, 0 or 1 for two numbers or two texts; None for values without an order."""
    if isinstance(value, str) and isinstance(other, str):
        return (value > other) - (value < other)
    if isinstance(value, int | Decimal) and isinstance(other, int | Decimal):
        return (value > other) - (value < other)
    return None
