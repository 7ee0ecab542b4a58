"""What the builtins compute (layer 3); `catalogue.builtins` holds their signatures, `dates` and `networks` those parts.

In: values. Out: a value, or a truth for a test, or an `EvaluationError` that says what does not compute. All is exact:
integers are unbounded up to `DIGITS`, decimals never round but in ``/``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException, Inexact, InvalidOperation, Overflow, Subnormal
from typing import cast

from datalog_gate.analysis.patterns import searcher
from datalog_gate.analysis.program import FoldFunction
from datalog_gate.base.errors import GateError
from datalog_gate.base.values import FALSE, Kind, ResourceId, Row, Unknown, Value, kind_of, row_key, show, types_of
from datalog_gate.engine.dates import DATES
from datalog_gate.engine.intervals import Tuples, aggregated, computed, decided, kinds_of
from datalog_gate.engine.networks import NETWORKS
from datalog_gate.language.ast import AggregateFunction, Comparator
from datalog_gate.schema.signatures import CALLS

Number = int | Decimal
DIGITS = 4000
"""No number grows longer. Python itself refuses to print integers of more than 4300 digits."""
SMALL = 10**18
"""What is done with numbers below this, and above its opposite, can't reach `DIGITS`."""
CHARACTERS = 1_000_000
"""No text grows longer."""
_UNKNOWN = frozenset((Unknown, Tuples))
_TYPES = {name: [types_of(column.kinds) for column in call.inputs] for name, call in CALLS.items()}

# the decimal module rounds to its context: a result that the first can't hold is an error, not a rounded one
_TRAPS = [InvalidOperation, Overflow, Subnormal]
_EXACT = Context(prec=DIGITS, Emin=-DIGITS, Emax=DIGITS, traps=[*_TRAPS, Inexact])
_QUOTIENT = Context(prec=28, Emin=-DIGITS, Emax=DIGITS, rounding=ROUND_HALF_EVEN, traps=_TRAPS)
_ORDER: dict[str, Callable[..., bool]] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_SIZE = re.compile(r"(\d{1,30}(?:\.\d{1,30})?) ?(?:([kmgtpe]?)(i?)b?)", re.ASCII | re.IGNORECASE)
_NUMERAL = re.compile(r"[+-]?\d{1,1000}(?:\.\d{1,1000})?", re.ASCII)


class EvaluationError(GateError):
    """A value that does not compute, or a comparison of kinds that have no order."""


def compute(name: str, inputs: Sequence[Value]) -> Value:
    """The output of a builtin that has one; with an unknown among the inputs the unknown ``name(inputs)``.

    ``??`` decides by its left side alone where that is known, or surely not null. An aggregate is known by all but the
    last two inputs: the tuples that are there for certain, and those that may be.
    """
    if isinstance(inputs[0], Unknown) if name == "??" else not _UNKNOWN.isdisjoint(map(type, inputs)):
        if isinstance(inputs[-1], Tuples):
            return _aggregated(cast(AggregateFunction, name), inputs)
        if name == "??" and not Kind.NULL & kinds_of(inputs[0]):
            return inputs[0]
        return computed(name, _unknown(name, inputs, CALLS[name].outputs[0].kinds), inputs)
    value = _applied(name, inputs)
    assert not isinstance(value, bool), name
    return value


def holds(name: str, inputs: Sequence[Value], when_unknown: bool) -> bool:
    """Whether a test holds; `when_unknown` with an unknown among the inputs."""
    if not _UNKNOWN.isdisjoint(map(type, inputs)):
        return when_unknown
    value = _applied(name, inputs)
    assert isinstance(value, bool), name
    return value


def compare(comparator: Comparator, left: Value, right: Value, when_unknown: bool, null_test: bool) -> bool:
    """Whether ``left comparator right``. `null_test` says that a side is written as a constant: only then does null
    equal null. `!=` is the exact complement of `=`, so two variables that are null are unequal."""
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        answer = decided(comparator, left, right, null_test)
        return when_unknown if answer is None else answer
    if comparator == "=":
        return left == right and (left is not None or null_test)
    if comparator == "!=":
        return left != right or (left is None and not null_test)
    try:
        return _ordered(comparator, left, right)
    except EvaluationError as error:
        raise EvaluationError(f"{_brief(left)} {comparator} {_brief(right)}: {error}") from None


def fits(value: Value, wanted: Value, constant: bool) -> bool:
    """Whether a computed value is the wanted one; null fits only a null that is a constant of the rule."""
    return value == wanted and (constant or value is not None)


def aggregate(function: FoldFunction, terms: Iterable[Row]) -> Value:
    """The aggregate over distinct tuples of terms, or these `tuples` themselves; those whose first is null are skipped.

    None if there is none: min, max and avg of nothing. With an unknown among the values all but count are the unknown
    ``function(values)``.
    """
    found = terms if isinstance(terms, set) else set(terms)
    if function == "tuples":
        return Tuples("tuples", rows=frozenset(row for row in found if row[0] is not None))
    values = [row[0] for row in found if row[0] is not None]
    if function == "count":
        return len(values)
    whole = [value for value in values if type(value) is int] if function in ("min", "max", "sum") else []
    if whole and len(whole) == len(values) and max(whole) < SMALL and min(whole) > -SMALL:
        return min(whole) if function == "min" else max(whole) if function == "max" else sum(whole)
    values = [row[0] for row in sorted(found, key=row_key) if row[0] is not None]
    if any(isinstance(value, Unknown) for value in values):
        return _unknown(function, values, Kind.ANY)
    if function == "list":
        return _short(",".join(map(show, values)), "list: the result is too long")
    if not values and function != "sum":
        return None
    try:
        match function:
            case "min" | "max":
                _ordered("<=", values[0], values[-1])  # sorted by kind first: if the ends have an order, all have
                return values[0] if function == "min" else values[-1]
            case "sum":
                return _sum(values)
            case "avg":
                return _divide(_sum(values), len(values))
    except EvaluationError as error:
        raise EvaluationError(f"{function}: {error}") from None
    except DecimalException:
        raise EvaluationError(f"{function} gives a number of more than {DIGITS} digits") from None


def _aggregated(function: AggregateFunction, inputs: Sequence[Value]) -> Value:
    """The aggregate of a set that is known by all but the last two inputs: what it surely holds, and may hold."""
    *named, certain, possible = inputs
    assert isinstance(certain, Tuples)
    assert isinstance(possible, Tuples)
    if function != "count":
        known = [row for row in certain.rows if not any(isinstance(value, Unknown) for value in row)]
        value = aggregate(function, known)  # fails if the whole set does
        if value is not None and len(known) == len(possible.rows):
            return value
        texts = {kind_of(row[0]) for row in possible.rows} == {Kind.STRING}
        if function in ("min", "max") and texts and value == aggregate(function, possible.rows):
            return value
    return aggregated(function, _unknown(function, named, Kind.ANY), certain.rows, possible.rows)


def _unknown(name: str, inputs: Sequence[Value], kinds: Kind) -> Unknown:
    """What is made of inputs that are not all known."""
    expression = _short(f"{name}({', '.join(map(_written, inputs))})", f"{name} of an unknown is too long to write")
    several = any(isinstance(value, Unknown) and value.several for value in inputs)
    return Unknown(expression, several=several, kinds=kinds)


def _sum(values: Iterable[Value]) -> Number:
    total: Number = 0
    for value in values:
        if not isinstance(value, int | Decimal):
            raise EvaluationError(f"{_brief(value)} is {kind_of(value).describe()}, not number")
        total = _plus(total, value)
    return total


def _applied(name: str, inputs: Sequence[Value]) -> Value | bool:
    builtin = CALLS[name]
    try:
        if not builtin.total:
            for column, types, value in zip(builtin.inputs, _TYPES[name], inputs, strict=True):
                if type(value) not in types and not kind_of(value) & column.kinds:
                    given = kind_of(value).describe()
                    raise EvaluationError(f"{column.name} is {given}, not {column.kinds.describe()}")
        return IMPLEMENTATIONS[name](*inputs)
    except (EvaluationError, ValueError) as error:
        written = ", ".join(map(_brief, inputs[: len(inputs) - builtin.timed]))
        raise EvaluationError(f"{name.partition('.')[0]}({written}): {error}") from None
    except DecimalException:
        raise EvaluationError(f"{name} gives a number of more than {DIGITS} digits") from None


def _written(value: Value) -> str:
    """The value so that equal text is equal value."""
    match value:
        case str():
            return repr(value)
        case ResourceId():
            return f"resource({value.path!r})"
        case Unknown():
            return f"?{value.expression!r}"
        case _:
            return show(value)


def _brief(value: Value) -> str:
    text = _written(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _ordered(comparator: str, left: Value, right: Value) -> bool:
    match left, right:
        case (str(), str()) | (int() | Decimal(), int() | Decimal()):
            return _ORDER[comparator](left, right)
    raise EvaluationError(f"{kind_of(left).describe()} and {kind_of(right).describe()} have no order")


def _plus(left: Number, right: Number) -> Number:
    return _number(_EXACT.add(Decimal(left), Decimal(right)))


def _minus(left: Number, right: Number) -> Number:
    return _number(_EXACT.subtract(Decimal(left), Decimal(right)))


def _times(left: Number, right: Number) -> Number:
    return _number(_EXACT.multiply(Decimal(left), Decimal(right)))


def _divide(left: Number, right: Number) -> Number:
    if right == 0:  # the decimal module calls 0 / 0 undefined
        raise EvaluationError("division by zero")
    return _number(_QUOTIENT.divide(Decimal(left), Decimal(right)))


def _floor(left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int) and right != 0:
        return left // right
    return _divide(left, right)


def _rest(left: Number, right: Number) -> Number:
    if right == 0:
        raise EvaluationError("division by zero")
    rest = _number(_EXACT.remainder(Decimal(left), Decimal(right)))
    return rest if rest == 0 or (rest > 0) == (right > 0) else _plus(rest, right)


def _number(value: Decimal) -> Number:
    """The one form of a number, as `values.number` makes it, but of any length."""
    whole = value.to_integral_value()
    return int(whole) if whole == value else _EXACT.normalize(value)


def _split(text: str, separator: str, index: Number) -> str:
    if not separator:
        raise EvaluationError("the separator is empty")
    parts = text.split(separator)
    if not isinstance(index, int) or not 0 <= index < len(parts):
        raise EvaluationError(f"there are {len(parts)} parts, counted from 0")
    return parts[index]


def _replace(text: str, old: str, new: str) -> str:
    if not old:
        raise EvaluationError("the old part is empty")
    if len(text) + text.count(old) * len(new) > CHARACTERS:
        raise EvaluationError("the result is too long")
    return text.replace(old, new)


def _concat(left: str, right: str) -> str:
    return _short(left + right)


def _short(text: str, what: str = "the result is too long") -> str:
    if len(text) > CHARACTERS:
        raise EvaluationError(what)
    return text


def _parse_size(text: str) -> Number:
    size = _SIZE.fullmatch(text.strip())
    if not size or (size[3] and not size[2]):
        raise EvaluationError("a size is a number and a unit such as MB or MiB")
    return _times(_number(Decimal(size[1])), (1024 if size[3] else 1000) ** " kmgtpe".index(size[2].lower() or " "))


def _numeral(value: Number | str) -> Number:
    if not isinstance(value, str):
        return value
    if not _NUMERAL.fullmatch(value.strip()):
        raise EvaluationError("the text is no number")
    return _number(Decimal(value.strip()))


def _valid_number(least: Number, most: Number, value: Number | str, whole: bool) -> str:
    """Why the value is no such number; empty if it is one."""
    try:
        number = _numeral(value)
    except EvaluationError:
        return f"{_brief(value)} is no number"
    if whole and not isinstance(number, int):
        return f"{_brief(value)} is no whole number"
    if number < least:
        return f"{_brief(value)} is less than {show(least)}"
    return f"{_brief(value)} is more than {show(most)}" if number > most else ""


def _valid_string(pattern: str, longest: Number, quotes: Value, ignore_case: Value, text: str) -> str:
    """Why the text is none that an option takes; empty if it is one. With `quotes` one pair around it is left out."""
    if _true(quotes) and text[:1] in ("'", '"'):
        if len(text) < 2 or text[-1] != text[0]:
            return f"{_brief(text)} has no closing quote"
        text = text[1:-1]
    if 0 < longest < len(text):
        return f"{_brief(text)} is longer than {show(longest)}"
    return "" if _occurs(pattern, text, _true(ignore_case)) else f"{_brief(text)} does not match {_brief(pattern)}"


def _true(flag: Value) -> bool:
    return flag not in (0, FALSE)


def _occurs(pattern: str, text: str, ignore_case: bool = False) -> bool:
    try:
        return searcher(pattern, ignore_case)(text)
    except ImportError:
        raise EvaluationError("regular expressions need RE2, which is not installed") from None


IMPLEMENTATIONS: dict[str, Callable[..., Value | bool]] = {
    "+": _plus,
    "-": _minus,
    "*": _times,
    "/": _divide,
    "%": _rest,
    "??": lambda value, default: default if value is None else value,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": lambda text, part: part in text,
    "lower": str.lower,
    "upper": str.upper,
    "split": _split,
    "replace": _replace,
    "trim": str.strip,
    "abs": lambda value: value if value >= 0 else _minus(0, value),
    "min2": lambda one, other: one if _ordered("<=", one, other) else other,
    "max2": lambda one, other: one if _ordered(">=", one, other) else other,
    "round": lambda value: int(Decimal(value).to_integral_value(ROUND_HALF_EVEN)),
    "parse_size": _parse_size,
    "lt": lambda left, right: _ordered("<", left, right),
    "lteq": lambda left, right: _ordered("<=", left, right),
    "equal": lambda left, right: left is not None and left == right,
    "gt": lambda left, right: _ordered(">", left, right),
    "gteq": lambda left, right: _ordered(">=", left, right),
    "max": lambda one, other: one if _ordered(">=", one, other) else other,
    "plus": _plus,
    "minus": _minus,
    "mul": _times,
    "div": _floor,
    "concat": _concat,
    "len": len,
    "int": lambda value: int(_numeral(value)),
    "float": _numeral,
    "matches": lambda text, pattern: _occurs(pattern, text),
    "validate_int": lambda least, most, value: _valid_number(least, most, value, True),
    "validate_float": lambda least, most, value: _valid_number(least, most, value, False),
    "validate_string": _valid_string,
    **NETWORKS,
    **DATES,
}
"""By name in `CALLS`; the inputs are known and of the kinds that the signature names."""
