"""The values that the conditions of a body allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import chain
from operator import ge, gt, le, lt
from typing import NamedTuple

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import name_of
from datalog_gate.analysis.linting import Review
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import FALSE, NOT_NULL, TRUE, Kind, Value, print_value, show
from datalog_gate.language.ast import Comparator
from datalog_gate.schema.declaration import Column
from datalog_gate.schema.signatures import CALLS

ORDER = {"<": lt, "<=": le, ">": gt, ">=": ge}


class Restriction(NamedTuple):
    """A comparison of a value with a constant. `column` says of which column it always holds."""

    comparator: Comparator
    constant: Value
    column: str = ""

    def __str__(self) -> str:
        return f"{self.comparator} {print_value(self.constant)}"

    def admits(self, value: Value) -> bool:
        """Whether the value satisfies it. Values of different kinds have no order, and are not refused for it."""
        if self.comparator not in ORDER:
            return (value == self.constant) == (self.comparator == "=")
        for kind in (str, int | Decimal):
            if isinstance(value, kind) and isinstance(self.constant, kind):
                return bool(ORDER[self.comparator](value, self.constant))
        return True

    def allows(self, other: Restriction) -> bool:
        """Whether some value satisfies both."""
        if "=" in (self.comparator, other.comparator):
            return self.admits(other.constant) if other.comparator == "=" else other.admits(self.constant)
        if "!=" in (self.comparator, other.comparator) or self.comparator[0] == other.comparator[0]:
            return True
        return self.admits(other.constant) and other.admits(self.constant)


@dataclass(slots=True)
class _Values:
    """What the literals so far say of a value."""

    conditions: list[Restriction] = field(default_factory=list)
    choices: Sequence[Value] | None = None
    """All possible values, if they are known."""

    def choose(self, values: Sequence[Value]) -> bool:
        """Keep only some values; return whether something is left."""
        self.choices = values if self.choices is None else [value for value in values if value in self.choices]
        return self.is_possible()

    def is_possible(self) -> bool:
        constants = [condition.constant for condition in self.conditions if condition.comparator == "="]
        values = constants or self.choices
        return values is None or any(all(condition.admits(value) for condition in self.conditions) for value in values)

    def take(self, column: Column) -> None:
        """Become a value of a column."""
        if choices := _choices(column):
            self.choose(choices)
        self.conditions += _bounds(column.range, column.name)

    def take_default(self, value: _Values, default: Value) -> None:
        """Become another value, with a default where it is null."""
        if value.choices is not None:
            self.choices = [*(choice for choice in value.choices if choice is not None), default]
        for comparator, constant, column in value.conditions if isinstance(default, int | Decimal) else ():
            if comparator in ORDER:
                closed: Comparator = "<=" if comparator.startswith("<") else ">="
                bound = Restriction(closed, constant, column and f"{column} ?? {show(default)}")
                self.conditions.append(bound if bound.admits(default) else bound._replace(constant=default))


@dataclass(frozen=True, slots=True)
class Ranges:
    """What remains of the values of a body, literal by literal."""

    review: Review
    body: BodyFacts
    _known: dict[ir.Operand, _Values] = field(default_factory=dict)

    def contradiction(self) -> str | None:
        """Why no value remains for an operand, or None."""
        matches = [literal for literal in self.body.own if isinstance(literal, ir.Match)]
        others = (literal for literal in self.body.own if not isinstance(literal, ir.Match))
        return next(filter(None, chain(map(self._add_row, matches), map(self._add, others))), None)

    def _of(self, operand: ir.Operand) -> _Values:
        return self._known.setdefault(self.body.leader(operand), _Values())

    def _add_row(self, row: ir.Match) -> str | None:
        is_list = self.review.relations[row.relation].generated == "in"
        for at, term in row.column_terms:
            column = self.review.column((row, at))
            if is_list and isinstance(term, ir.Var):
                facts = self.review.facts[row.relation]
                listed = [own.value for fact in facts for own in fact.arguments if isinstance(own, ir.Const)]
                return None if self._of(term).choose(listed) else f"{name_of(term)} can't be in both lists"
            if isinstance(term, ir.Var):
                self._of(term).take(column)
            elif not _holds(column, term.value):
                return f"{column.name} is never {print_value(term.value)}"
        return None

    def _add(self, literal: ir.CheckedLiteral) -> str | None:
        match literal:
            case ir.Compare():
                return self._compare(literal)
            case ir.Without((ir.Compare(comparator, left, right, span),)):
                return self._compare(ir.Compare(ir.NEGATED[comparator], left, right, span))
            case ir.Call("??", (value, ir.Const(default)), (ir.Var() as result,)):
                self._of(result).take_default(self._of(value), default)
            case ir.Call(name, _, (ir.Var() as result,)):
                self._of(result).conditions += _bounds(CALLS[name].outputs[0].range)
            case ir.Fold("count", _, _, result):
                self._of(result).conditions.append(Restriction(">=", 0))
        return None

    def _compare(self, compare: ir.Compare) -> str | None:
        for left, comparator, right in compare.from_each_side:
            if isinstance(right, ir.Const) and isinstance(left, ir.Var):
                return self._narrow(left, Restriction(comparator, right.value))
        left, comparator, right = compare.left, compare.comparator, compare.right
        if isinstance(left, ir.Const) and isinstance(right, ir.Const):
            holds = Restriction(comparator, right.value).admits(left.value)
            return None if holds else f"{print_value(left.value)} {comparator} {print_value(right.value)} is false"
        is_same = self.body.leader(left) == self.body.leader(right)
        return f"both sides of {comparator} are the same" if is_same and comparator in ("!=", "<", ">") else None

    def _narrow(self, var: ir.Var, condition: Restriction) -> str | None:
        """Add a condition; return why no value remains, or None."""
        values = self._of(var)
        clashing = [known for known in values.conditions if not known.allows(condition)][:1]
        others = clashing or values.conditions[:]
        values.conditions.append(condition)
        if not clashing and values.is_possible():
            return None
        if clashing and (column := clashing[0].column):
            return f"{column} is always {clashing[0]}, never {condition}"
        before = " and ".join(str(known) for known in others if known[:2] != ("!=", None))
        name = name_of(var)
        return f"{name} can't be both {before} and {condition}" if before else f"{name} is never {condition}"


def _bounds(limits: tuple[Value, Value], column: str = "") -> Iterator[Restriction]:
    low, high = limits
    if low is not None:
        yield Restriction(">=", low, column)
    if high is not None:
        yield Restriction("<=", high, column)


def _choices(column: Column) -> tuple[Value, ...]:
    """All values of a column, if they are few."""
    booleans = (TRUE, FALSE) if column.kinds & NOT_NULL == Kind.BOOLEAN else ()
    few = (*(column.allowed if column.closed else ()), *column.numbers, *booleans)
    return (*few, None) if few and Kind.NULL in column.kinds else few


def _holds(column: Column, value: Value) -> bool:
    """Whether a column may hold the value."""
    choices = _choices(column)
    return (not choices or value in choices) and all(bound.admits(value) for bound in _bounds(column.range))
