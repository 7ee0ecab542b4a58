"""Values of the oracle: arithmetic, order, aggregates and builtins.

Written from docs/language.md and docs/builtins.md, as tests/oracle.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from datalog_gate.base.values import FALSE, Boolean, ResourceId, Row, Value

DIGITS = 28
"""How many digits a quotient has."""


class NoValueError(Exception):
    """A builtin, comparison or aggregate has no value: an error of its literal."""


class Missing:
    """No value yet: a variable that nothing binds, or that an error leaves without one."""


MISSING = Missing()


def number(value: Fraction) -> int | Decimal:
    """The number as the package holds it. Every number here is a decimal."""
    if value.denominator == 1:
        return int(value)
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1
    return Decimal(f"{value * 10**digits}e-{digits}")


def _fraction(value: Any) -> Fraction:
    if not isinstance(value, int | Decimal):
        raise NoValueError
    return Fraction(value)


def ordered(left: Value, right: Value) -> tuple[Any, Any]:
    """Two numbers or two texts."""
    if isinstance(left, str) and isinstance(right, str):
        return [ord(character) for character in left], [ord(character) for character in right]
    return _fraction(left), _fraction(right)


def quotient(left: Fraction, right: Fraction) -> int | Decimal:
    """Rounded to `DIGITS` digits, of two as near the even one."""
    if not right:
        raise NoValueError
    exact = left / right
    scale = Fraction(1)
    while exact and abs(exact * scale) < 10 ** (DIGITS - 1):
        scale *= 10
    while abs(exact * scale) >= 10**DIGITS:
        scale /= 10
    return number(round(exact * scale) / scale)


def _modulo(left: Fraction, right: Fraction) -> int | Decimal:
    if not right:
        raise NoValueError
    return number(left - right * (left / right).__floor__())


def _div(left: Fraction, right: Fraction) -> int | Decimal:
    if left.denominator != 1 or right.denominator != 1:
        return quotient(left, right)
    if not right:
        raise NoValueError
    return int(left) // int(right)


def aggregate(function: str, tuples: set[Row]) -> Value | Missing:
    """The aggregate over the first values of tuples, none of them null."""
    firsts = [row[0] for row in tuples]
    if function == "count":
        return len(firsts)
    if function == "list":
        return ",".join(map(_written, sorted(firsts, key=_rank)))
    if function == "sum":
        return number(sum(map(_fraction, firsts), Fraction(0)))
    if not firsts:
        return MISSING
    if function == "avg":
        return quotient(sum(map(_fraction, firsts), Fraction(0)), Fraction(len(firsts)))
    best = firsts[0]
    ordered(best, best)
    for value in firsts:
        low, high = ordered(value, best)
        if low < high if function == "min" else low > high:
            best = value
    return best


def _rank(value: Value) -> tuple[int, Any]:
    """The order of all values: by kind, then within the kind."""
    match value:
        case Boolean():
            return 1, value is not FALSE
        case int() | Decimal():
            return 2, Fraction(value)
        case str():
            return 3, ordered(value, value)[0]
        case ResourceId():
            return 4, ordered(value.path, value.path)[0]
    raise AssertionError(value)


def _written(value: Value) -> str:
    match value:
        case str():
            return value
        case ResourceId():
            return value.path
        case Boolean():
            return "false" if value is FALSE else "true"
        case Decimal():
            return f"{value:f}"
    return str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise NoValueError
    return value


Network = tuple[int, int]
"""The first address of a network of version 4, and its last."""


def _network(value: Any) -> Network:
    parts = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)\.(\d+)(?:/(\d+))?", _text(value))
    if not parts:
        raise NoValueError
    address = 0
    for part in parts.groups()[:4]:
        if int(part) > 255 or (part != "0" and part.startswith("0")):
            raise NoValueError
        address = address * 256 + int(part)
    free = 32 - int(parts[5] or 32)
    if free < 0:
        raise NoValueError
    first = address >> free << free
    return first, first + 2**free - 1


def _contains(outer: Network, inner: Network) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _overlaps(left: Network, right: Network) -> bool:
    return left[0] <= right[1] and right[0] <= left[1]


def _part(text: str, separator: str, index: Fraction) -> str:
    parts = text.split(separator) if separator else []
    if index.denominator != 1 or not 0 <= index < len(parts):
        raise NoValueError
    return parts[int(index)]


def _replaced(text: str, old: str, new: str) -> str:
    if not old:
        raise NoValueError
    return new.join(text.split(old))


def _pick(least: bool) -> Callable[[Value, Value], tuple[Value]]:
    def pick(left: Value, right: Value) -> tuple[Value]:
        low, high = ordered(left, right)
        return (left if (low <= high) == least else right,)

    return pick


def _number_of(value: Any, whole: bool) -> int | Decimal:
    """The number, or the one that a text writes, perhaps without its fraction."""
    if isinstance(value, str):
        if not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", value):
            raise NoValueError
        value = Decimal(value)
    exact = _fraction(value)
    return exact.__trunc__() if whole else number(exact)


ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _arithmetic(operation: Callable[[Fraction, Fraction], int | Decimal]) -> Callable[[Value, Value], Value]:
    return lambda left, right: operation(_fraction(left), _fraction(right))


OPERATORS: Mapping[str, Callable[[Any, Any], Value]] = {
    "+": _arithmetic(lambda left, right: number(left + right)),
    "-": _arithmetic(lambda left, right: number(left - right)),
    "*": _arithmetic(lambda left, right: number(left * right)),
    "/": _arithmetic(quotient),
    "%": _arithmetic(_modulo),
    "??": lambda left, right: right if left is None else left,
}


def _order(comparator: str) -> Callable[[Value, Value], bool]:
    return lambda left, right: ORDERS[comparator](*ordered(left, right))


def _captured(text: Value, pattern: Value, group: Value = 1) -> tuple[Value, ...] | Missing:
    found = re.search(_text(pattern), _text(text))
    return MISSING if found is None or found[group] is None else (found[group],)  # type: ignore[index]


def interpolated(*parts: Value) -> tuple[Value, ...]:
    """The text of texts and numbers."""
    if any(not isinstance(part, str | int | Decimal) for part in parts):
        raise NoValueError
    return ("".join(map(_written, parts)),)


BUILTINS: Mapping[str, tuple[int, Callable[..., bool | tuple[Value, ...] | Missing]]] = {
    "capture": (2, _captured),
    "starts_with": (2, lambda text, start: _text(text)[: len(_text(start))] == start),
    "ends_with": (2, lambda text, end: _text(text)[max(0, len(text) - len(_text(end))) :] == end),
    "contains": (2, lambda text, part: _text(part) in _text(text)),
    "lower": (1, lambda text: (_text(text).lower(),)),
    "upper": (1, lambda text: (_text(text).upper(),)),
    "split": (3, lambda text, separator, at: (_part(_text(text), _text(separator), _fraction(at)),)),
    "replace": (3, lambda text, old, new: (_replaced(_text(text), _text(old), _text(new)),)),
    "trim": (1, lambda text: (_text(text).strip(),)),
    "concat": (2, lambda left, right: (_text(left) + _text(right),)),
    "len": (1, lambda text: (len(_text(text)),)),
    "cidr_contains": (2, lambda outer, inner: _contains(_network(outer), _network(inner))),
    "cidr_overlaps": (2, lambda left, right: _overlaps(_network(left), _network(right))),
    "cidr_host_count": (1, lambda network: (_network(network)[1] - _network(network)[0] + 1,)),
    "abs": (1, lambda value: (number(abs(_fraction(value))),)),
    "round": (1, lambda value: (round(_fraction(value)),)),
    "min2": (2, _pick(True)),
    "max2": (2, _pick(False)),
    "max": (2, _pick(False)),
    "int": (1, lambda value: (_number_of(value, True),)),
    "float": (1, lambda value: (_number_of(value, False),)),
    "plus": (2, lambda left, right: (number(_fraction(left) + _fraction(right)),)),
    "div": (2, lambda left, right: (_div(_fraction(left), _fraction(right)),)),
    "is_number": (1, lambda value: isinstance(value, int | Decimal)),
    "is_string": (1, lambda value: isinstance(value, str)),
    "equal": (2, lambda left, right: left == right and left is not None),
    "lt": (2, _order("<")),
    "gteq": (2, _order(">=")),
}
"""How many inputs a builtin has, and what it gives of them: a truth, or its outputs."""
