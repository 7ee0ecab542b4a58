"""Bounds of values that are not all known: aggregates, arithmetic and comparisons.

A possible tuple stands for one tuple at most, unless it holds an unknown of `several` values. Values of an unknown that
make a computation fail are ignored: the least of 5 and an unknown is at most 5, though it may turn out to be a string.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, DecimalException
from functools import reduce
from operator import or_

from datalog_gate.base.values import EXACT, OPEN, Bounds, Kind, Row, Unknown, Value, kind_of, number
from datalog_gate.language.ast import Comparator

Number = int | Decimal


@dataclass(frozen=True, slots=True)
class Tuples(Unknown):
    """The set of tuples that the aggregate `tuples` collects; their first value is not null."""

    rows: frozenset[Row] = frozenset()


def bound_aggregate(function: str, unknown: Unknown, certain: Collection[Row], possible: Collection[Row]) -> Value:
    """The aggregate over tuples that exist and that may exist: the unknown with its kinds and bounds, or a value."""
    several = unknown.several or any(map(_several, possible))
    if function == "count":
        bounds = Bounds(_distinct(certain), None if any(map(_several, possible)) else len(possible))
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
    lows, highs = zip(*(_ends(row[0]) for row in possible), strict=True) if possible else ((), ())
    low, high = _extreme(min, lows), _extreme(max, highs)
    if function == "min":
        high = _extreme(min, [number for row in sure if (number := _ends(row[0]).high) is not None] or [high])
    elif function == "max":
        low = _extreme(max, [number for row in sure if (number := _ends(row[0]).low) is not None] or [low])
    return _within(unknown, Bounds(low, high))


def bound_result(name: str, unknown: Unknown, inputs: Sequence[Value]) -> Value:
    """The result of a builtin of inputs that are not all known: the unknown with its bounds, or a value."""
    if len(inputs) != 2 or name not in _ARITHMETIC or not all(Kind.NUMBER & kinds_of(value) for value in inputs):
        return unknown
    try:
        return _within(unknown, _ARITHMETIC[name](*map(_ends, inputs)))
    except (ValueError, DecimalException):  # more digits than a number has
        return unknown


def decide_comparison(comparator: Comparator, left: Value, right: Value, null_test: bool) -> bool | None:
    """How a comparison with an unknown turns out for all its values; None if they decide it, or if it fails."""
    if left == right and isinstance(left, Unknown) and not left.several:
        return comparator in ("=", "<=", ">=")
    equal = comparator == "="
    if comparator in ("=", "!="):
        both = isinstance(left, Unknown) and isinstance(right, Unknown)
        apart = any(isinstance(value, Unknown) and value.apart for value in (left, right))
        common = kinds_of(left) & kinds_of(right)
        if (apart and not both) or not (common if null_test else common & ~Kind.NULL):
            return not equal
    if not (Kind.NUMBER & kinds_of(left) and Kind.NUMBER & kinds_of(right)):
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
            return not equal if _less(bounds.high, other.low) or _less(other.high, bounds.low) else None


def _decide_less(left: Bounds, right: Bounds) -> bool | None:
    if _less(left.high, right.low):
        return True
    return False if _less(right.high, left.low, or_equal=True) else None


def kinds_of(value: Value) -> Kind:
    return value.kinds if isinstance(value, Unknown) else kind_of(value)


def _within(unknown: Unknown, bounds: Bounds) -> Value:
    return bounds.low if bounds.low is not None and bounds.low == bounds.high else replace(unknown, bounds=bounds)


def _ends(value: Value) -> Bounds:
    if isinstance(value, Unknown):
        return value.bounds
    return Bounds(value, value) if isinstance(value, int | Decimal) else OPEN


def _less(number: Number | None, other: Number | None, or_equal: bool = False) -> bool:
    return number is not None and other is not None and (number < other or (or_equal and number == other))


def _known(row: Row) -> bool:
    return not any(isinstance(value, Unknown) for value in row)


def _several(row: Row) -> bool:
    return any(isinstance(value, Unknown) and value.several for value in row)


def _kinds(values: Iterable[Value]) -> Kind:
    return reduce(or_, map(kinds_of, values), Kind(0)) & ~Kind.NULL


def _distinct(certain: Collection[Row]) -> int:
    """The least number of tuples: those that differ in known values."""
    sure = [row for row in certain if not Kind.NULL & kinds_of(row[0])]
    columns = [column for column in zip(*sure, strict=True) if _known(column)]
    apart = len(set(zip(*columns, strict=True))) if columns else min(len(sure), 1)
    return max(apart, sum(map(_known, sure)))


def _sum(certain: Collection[Row], possible: Collection[Row]) -> Bounds:
    """The bounds of a sum: a possible tuple adds its number or nothing, a certain and known one always."""
    low: Number | None = 0
    high: Number | None = 0
    try:
        for row in possible:
            least, most = _ends(row[0])
            many = _several(row)
            low = None if least is None or (many and least < 0) else _exact(EXACT.add, low, min(least, 0))
            high = None if most is None or (many and most > 0) else _exact(EXACT.add, high, max(most, 0))
        for row in certain:
            value = row[0]
            assert isinstance(value, int | Decimal)
            low, high = _exact(EXACT.add, low, max(value, 0)), _exact(EXACT.add, high, min(value, 0))
    except (ValueError, DecimalException):  # more digits than a number has
        return OPEN
    return Bounds(low, high)


def _extreme(choose: Callable[[list[Number]], Number], values: Collection[Number | None]) -> Number | None:
    """The least or the greatest end; None if one is open."""
    known = [value for value in values if value is not None]
    return choose(known) if known and len(known) == len(values) else None


def _exact(
    operation: Callable[[Decimal, Decimal], Decimal], left: Number | None, right: Number | None
) -> Number | None:
    return None if left is None or right is None else number(operation(Decimal(left), Decimal(right)))


def _multiply_bounds(bounds: Bounds, other: Bounds) -> Bounds:
    if other.low is None or other.low != other.high:
        bounds, other = other, bounds
    factor = other.low
    if factor is None or factor != other.high:
        return OPEN
    low, high = bounds if factor > 0 else (bounds.high, bounds.low)
    if factor == 0:
        return Bounds(0, 0)
    return Bounds(_exact(EXACT.multiply, low, factor), _exact(EXACT.multiply, high, factor))


def _add_bounds(bounds: Bounds, other: Bounds) -> Bounds:
    return Bounds(_exact(EXACT.add, bounds.low, other.low), _exact(EXACT.add, bounds.high, other.high))


def _subtract_bounds(bounds: Bounds, other: Bounds) -> Bounds:
    return Bounds(_exact(EXACT.subtract, bounds.low, other.high), _exact(EXACT.subtract, bounds.high, other.low))


_ARITHMETIC = {
    "+": _add_bounds,
    "plus": _add_bounds,
    "-": _subtract_bounds,
    "minus": _subtract_bounds,
    "*": _multiply_bounds,
    "mul": _multiply_bounds,
}
