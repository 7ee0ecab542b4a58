"""Bounds of partly known values: aggregates, arithmetic and comparisons.

A possible tuple stands for at most one tuple, unless it holds an unknown for `several` values. Values of an unknown for
which a computation fails are ignored: the minimum of 5 and an unknown is at most 5, though the unknown may be a string.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from decimal import Decimal, DecimalException
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.text_parts import differ
from datalog_gate.base.values import EXACT, NO_KIND, NOT_NULL, OPEN, Bounds, Kind, Row, Unknown, Value, kind_of, number

if TYPE_CHECKING:
    from datalog_gate.language.ast import Comparator

Number = int | Decimal


@dataclass(frozen=True, slots=True)
class Tuples(Unknown):
    """The tuples that the aggregate `tuples` collects; their first value is not null."""

    rows: frozenset[Row] = frozenset()


def bound_aggregate(function: str, unknown: Unknown, certain: Collection[Row], possible: Collection[Row]) -> Value:
    """The aggregate over certain and possible tuples: an unknown with its kinds and bounds, or a value."""
    several = unknown.several or any(map(_several, possible))
    if function == "count":
        bounds = Bounds(_distinct(certain), OPEN.high if any(map(_several, possible)) else len(possible))
        return _within(replace(unknown, kinds=Kind.NUMBER, several=several), bounds)
    if function == "list":
        return replace(unknown, kinds=Kind.STRING, several=several)
    sure = [row for row in certain if kinds_of(row[0]) == Kind.NUMBER]
    kinds = Kind.NUMBER if sure or function in ("sum", "avg") else _kinds(row[0] for row in possible)
    unknown = replace(unknown, kinds=kinds, several=several)
    if not all(Kind.NUMBER & kinds_of(row[0]) for row in possible):
        return unknown
    if function == "sum":
        return _within(unknown, _sum([row for row in sure if _known(row)], possible))
    low = min((_ends(row[0]).low for row in possible), default=OPEN.low)
    high = max((_ends(row[0]).high for row in possible), default=OPEN.high)
    if function == "min":
        high = min([high, *(_ends(row[0]).high for row in sure)])
    elif function == "max":
        low = max([low, *(_ends(row[0]).low for row in sure)])
    return _within(unknown, Bounds(low, high))


def bound_result(name: str, unknown: Unknown, inputs: Sequence[Value]) -> Value:
    """The result of a builtin with partly known inputs: an unknown with its bounds, or a value."""
    if len(inputs) != 2 or name not in _ARITHMETIC or not all(Kind.NUMBER & kinds_of(value) for value in inputs):
        return unknown
    try:
        return _within(unknown, _ARITHMETIC[name](*map(_ends, inputs)))
    except (ValueError, DecimalException):  # too many digits for a number
        return unknown


def decide_comparison(comparator: Comparator, left: Value, right: Value, null_test: bool) -> bool | None:
    """The result of a comparison with an unknown for all its values; None if it depends on them, or fails."""
    if left == right and isinstance(left, Unknown) and not left.several:
        return comparator in ("=", "<=", ">=")
    equal = comparator == "="
    kinds, others = kinds_of(left), kinds_of(right)
    if comparator in ("=", "!="):
        common = kinds & others & (Kind.ANY if null_test else NOT_NULL)
        if not common or _is_apart(left, right) or _is_apart(right, left) or differ(left, right):
            return not equal
    if not (Kind.NUMBER & kinds and Kind.NUMBER & others):
        return None
    bounds, other = _ends(left), _ends(right)
    match comparator:
        case "<":
            return _decide_less(bounds, other)
        case ">":
            return _decide_less(other, bounds)
        case ">=" | "<=":
            less = _decide_less(bounds, other) if comparator == ">=" else _decide_less(other, bounds)
            return None if less is None else not less
        case _:
            return not equal if bounds.high < other.low or other.high < bounds.low else None


def _decide_less(left: Bounds, right: Bounds) -> bool | None:
    if left.high < right.low:
        return True
    return False if right.high <= left.low else None


def _is_apart(value: Value, other: Value) -> bool:
    """Whether the value is different from the other one, which is known."""
    return isinstance(value, Unknown) and value.apart and not isinstance(other, Unknown)


def kinds_of(value: Value) -> Kind:
    return value.kinds if isinstance(value, Unknown) else kind_of(value)


def _within(unknown: Unknown, bounds: Bounds) -> Value:
    return bounds.low if bounds.low == bounds.high else replace(unknown, bounds=bounds)


def _ends(value: Value) -> Bounds:
    if isinstance(value, Unknown):
        return value.bounds
    return Bounds(value, value) if isinstance(value, int | Decimal) else OPEN


def _known(row: Row) -> bool:
    return not any(isinstance(value, Unknown) for value in row)


def _several(row: Row) -> bool:
    return any(isinstance(value, Unknown) and value.several for value in row)


def _kinds(values: Iterable[Value]) -> Kind:
    return reduce(or_, map(kinds_of, values), NO_KIND) & ~Kind.NULL


def _distinct(certain: Collection[Row]) -> int:
    """The minimum number of tuples: those that differ in known values."""
    sure = [row for row in certain if not Kind.NULL & kinds_of(row[0])]
    columns = [column for column in zip(*sure, strict=True) if _known(column)]
    apart = len(set(zip(*columns, strict=True))) if columns else min(len(sure), 1)
    return max(apart, sum(map(_known, sure)))


def _sum(certain: Collection[Row], possible: Collection[Row]) -> Bounds:
    """The bounds of a sum. A possible tuple may add its number; a certain and known one always does."""
    bounds = Bounds(0, 0)
    try:
        for row in possible:
            low, high = _ends(row[0])
            is_many = _several(row)
            least = OPEN.low if is_many and low < 0 else min(low, 0)
            most = OPEN.high if is_many and high > 0 else max(high, 0)
            bounds = _add(bounds, Bounds(least, most))
        for row in certain:
            value = row[0]
            assert isinstance(value, int | Decimal)
            bounds = _add(bounds, Bounds(max(value, 0), min(value, 0)))
    except (ValueError, DecimalException):  # too many digits for a number
        return OPEN
    return bounds


def _exact(operation: Callable[[Decimal, Decimal], Decimal], left: Number, right: Number) -> Number:
    result = operation(Decimal(left), Decimal(right))
    return result if result.is_infinite() else number(result)


def _multiply(bounds: Bounds, other: Bounds) -> Bounds:
    if other.low != other.high:
        bounds, other = other, bounds
    factor = other.low
    if factor != other.high:
        return OPEN
    if factor == 0:
        return Bounds(0, 0)
    low, high = bounds if factor > 0 else (bounds.high, bounds.low)
    return Bounds(_exact(EXACT.multiply, low, factor), _exact(EXACT.multiply, high, factor))


def _add(bounds: Bounds, other: Bounds) -> Bounds:
    return Bounds(_exact(EXACT.add, bounds.low, other.low), _exact(EXACT.add, bounds.high, other.high))


def _subtract(bounds: Bounds, other: Bounds) -> Bounds:
    return Bounds(_exact(EXACT.subtract, bounds.low, other.high), _exact(EXACT.subtract, bounds.high, other.low))


_ARITHMETIC = {
    **dict.fromkeys(("+", "plus"), _add),
    **dict.fromkeys(("-", "minus"), _subtract),
    **dict.fromkeys(("*", "mul"), _multiply),
}
