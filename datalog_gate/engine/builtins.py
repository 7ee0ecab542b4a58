"""The values of builtins, comparisons and aggregates.

Arithmetic is exact up to `DIGITS` digits; only ``/`` rounds. Failures raise `EvaluationError`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException, Inexact, InvalidOperation, Overflow, Subnormal
from functools import lru_cache, partial
from typing import TYPE_CHECKING, cast

from datalog_gate.analysis.program import FoldFunction
from datalog_gate.base.diagnostics import format_count, shorten
from datalog_gate.base.errors import GateError
from datalog_gate.base.expression import Expression, phrase
from datalog_gate.base.patterns import compile_search
from datalog_gate.base.unknown import freeze
from datalog_gate.base.values import FALSE, Kind, ResourceId, Row, Unknown, Value, kind_of, row_key, show, types_of
from datalog_gate.engine.intervals import Number, Tuples, bound_aggregate, bound_result, decide_comparison, kinds_of
from datalog_gate.schema.signatures import CALLS, INTERPOLATE, KIND_TESTS

if TYPE_CHECKING:
    import ipaddress

    from datalog_gate.language.ast import AggregateFunction, Comparator

    Network = ipaddress.IPv4Network | ipaddress.IPv6Network

DIGITS = 4000
"""The maximum number of digits. Python itself refuses to print integers of more than 4300 digits."""
SMALL = 10**18
"""Arithmetic on numbers between -SMALL and SMALL can't exceed `DIGITS`."""
CHARACTERS = 1_000_000
PER_CALL, LETTERS = 30, 8
"""The steps of a call, and the number of characters in its inputs that take one more."""
OF_TEXTS = frozenset(
    [
        "matches",
        "contains",
        "lower",
        "upper",
        "split",
        "replace",
        "trim",
        "concat",
        INTERPOLATE,
        "capture",
        "capture.found",
    ]
)
"""The builtins that read all of a text, which may be long."""
_UNKNOWN = frozenset((Unknown, Tuples))
_INPUT_TYPES = {name: [types_of(column.kinds) for column in call.inputs] for name, call in CALLS.items()}

# these contexts raise an error instead of rounding a result to fit
_TRAPS = [InvalidOperation, Overflow, Subnormal]
_EXACT = Context(prec=DIGITS, Emin=-DIGITS, Emax=DIGITS, traps=[*_TRAPS, Inexact])
_QUOTIENT = Context(prec=28, Emin=-DIGITS, Emax=DIGITS, rounding=ROUND_HALF_EVEN, traps=_TRAPS)
_ORDERS: dict[str, Callable[..., bool]] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_SIZE = re.compile(r"(\d{1,30}(?:\.\d{1,30})?) ?(?:([kmgtpe]?)(i?)b?)", re.ASCII | re.IGNORECASE)
_NUMERAL = re.compile(r"[+-]?\d{1,1000}(?:\.\d{1,1000})?", re.ASCII)


class EvaluationError(GateError):
    """A value that cannot be computed, or a comparison of kinds without an order."""


def cost(inputs: Sequence[Value]) -> int:
    """The steps of a call that reads all of its inputs."""
    return PER_CALL + sum([len(value) for value in inputs if type(value) is str]) // LETTERS


def compute(name: str, inputs: Sequence[Value]) -> Value:
    """Compute the output of a builtin.

    With an unknown input it is the unknown ``name(inputs)``. The right side of ``??`` may be unknown if the left one is
    known or certainly not null. The last two inputs of an aggregate are its certain and its possible tuples.
    """
    if isinstance(inputs[-1], Tuples):
        return _aggregate_partly_known(cast("AggregateFunction", name), inputs)
    needed = inputs[:1] if name == "??" else inputs
    if _UNKNOWN.isdisjoint(map(type, needed)):
        value = _apply(name, inputs)
        assert not isinstance(value, bool), name
        return value
    if name == "??" and not Kind.NULL & kinds_of(inputs[0]):
        return inputs[0]
    return bound_result(name, _unknown(name, inputs, CALLS[name].outputs[0].kinds), inputs)


def holds(name: str, inputs: Sequence[Value], when_unknown: bool) -> bool:
    """Whether a test holds; `when_unknown` if an input is unknown."""
    if not _UNKNOWN.isdisjoint(map(type, inputs)):
        return _decide_kind(KIND_TESTS[name], inputs[0], when_unknown) if name in KIND_TESTS else when_unknown
    value = _apply(name, inputs)
    assert isinstance(value, bool), name
    return value


def _decide_kind(wanted: Kind, value: Value, when_unknown: bool) -> bool:
    kinds = kinds_of(value)
    return when_unknown if kinds & wanted and kinds & ~wanted else bool(kinds & wanted)


def compare(comparator: Comparator, left: Value, right: Value, when_unknown: bool, null_test: bool) -> bool:
    """Whether ``left comparator right``; `when_unknown` if unknown values decide it.

    `null_test` says that a side is a constant of the rule: only then does null equal null. ``!=`` is the exact
    complement of ``=``, so two null variables are unequal.
    """
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        answer = decide_comparison(comparator, left, right, null_test)
        return when_unknown if answer is None else answer
    if comparator == "=":
        return left == right and (left is not None or null_test)
    if comparator == "!=":
        return left != right or (left is None and not null_test)
    try:
        return _compare_order(comparator, left, right)
    except EvaluationError as error:
        raise EvaluationError(f"{_brief(left)} {comparator} {_brief(right)}: {error}") from None


def fits(value: Value, wanted: Value, constant: bool) -> bool:
    """Whether a computed value equals the wanted one; null fits only a null that is a constant of the rule."""
    return value == wanted and (constant or value is not None)


_OF_INTEGERS: dict[str, Callable[[list[int]], int]] = {"min": min, "max": max, "sum": sum}


def aggregate(function: FoldFunction, terms: Iterable[Row]) -> Value:
    """Compute the aggregate over distinct tuples of terms; tuples that begin with null are skipped.

    The function `tuples` returns the tuples themselves. min, max and avg of nothing are null. With an unknown value
    every function but count returns the unknown ``function(values)``.
    """
    rows = terms if isinstance(terms, set) else set(terms)
    if function == "tuples":
        return Tuples(phrase("tuples"), rows=frozenset(row for row in rows if row[0] is not None))
    values = [row[0] for row in rows if row[0] is not None]
    if function == "count":
        return len(values)
    if function in _OF_INTEGERS and values:  # a fast path that needs no sorting
        integers = [value for value in values if type(value) is int]
        if len(integers) == len(values) and max(integers) < SMALL and min(integers) > -SMALL:
            return _OF_INTEGERS[function](integers)
    values = [row[0] for row in sorted(rows, key=row_key) if row[0] is not None]
    if any(isinstance(value, Unknown) for value in values):
        return _unknown(function, values, Kind.ANY)
    if function == "list":
        return _check_length(",".join(map(show, values)), "list: the result is too long")
    if not values and function != "sum":
        return None
    try:
        match function:
            case "min" | "max":
                # values are sorted by kind first: if the first and the last are comparable, all are
                _compare_order("<=", values[0], values[-1])
                return values[0] if function == "min" else values[-1]
            case "sum":
                return _sum(values)
            case "avg":
                return _divide(_sum(values), len(values))
    except EvaluationError as error:
        raise EvaluationError(f"{function}: {error}") from None
    except DecimalException:
        raise EvaluationError(f"the result of {function} has more than {DIGITS} digits") from None


def _aggregate_partly_known(function: AggregateFunction, inputs: Sequence[Value]) -> Value:
    """The aggregate of a set whose certain and possible tuples are the last two inputs; the others name it."""
    *named, certain, possible = inputs
    assert isinstance(certain, Tuples)
    assert isinstance(possible, Tuples)
    if function != "count":
        known = [row for row in certain.rows if not any(isinstance(value, Unknown) for value in row)]
        value = aggregate(function, known)  # fails if it fails for the whole set
        if value is not None and len(known) == len(possible.rows):
            return value
        texts = {kind_of(row[0]) for row in possible.rows} == {Kind.STRING}
        if function in ("min", "max") and texts and value == aggregate(function, possible.rows):
            return value
    return bound_aggregate(function, _unknown(function, named, Kind.ANY), certain.rows, possible.rows)


def _unknown(name: str, inputs: Sequence[Value], kinds: Kind) -> Unknown:
    text = _check_length(f"{name}({', '.join(map(_source, inputs))})", f"{name} of an unknown is too long to write")
    several = any(isinstance(value, Unknown) and value.several for value in inputs)
    return Unknown(Expression(name, freeze([*inputs], {}), "", text), several=several, kinds=kinds)


def _sum(values: Iterable[Value]) -> Number:
    total: Number = 0
    for value in values:
        if not isinstance(value, int | Decimal):
            raise EvaluationError(f"{_brief(value)} is {kind_of(value).describe()}, not number")
        total = _add(total, value)
    return total


def _apply(name: str, inputs: Sequence[Value]) -> Value | bool:
    builtin = CALLS[name]
    try:
        if not builtin.total:
            for column, types, value in zip(builtin.inputs, _INPUT_TYPES[name], inputs, strict=True):
                if type(value) not in types and not kind_of(value) & column.kinds:
                    kind = kind_of(value).describe()
                    raise EvaluationError(f"{column.name} is {kind}, not {column.kinds.describe()}")
        return IMPLEMENTATIONS[name](*inputs)
    except (EvaluationError, ValueError) as error:
        arguments = ", ".join(map(_brief, inputs[: len(inputs) - builtin.timed]))
        raise EvaluationError(f"{name.partition('.')[0]}({arguments}): {error}") from None
    except DecimalException:
        raise EvaluationError(f"the result of {name} has more than {DIGITS} digits") from None


def _source(value: Value) -> str:
    """A text that is equal for equal values only."""
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
    return shorten(_source(value), 60)


def _compare_order(comparator: str, left: Value, right: Value) -> bool:
    match left, right:
        case (str(), str()) | (int() | Decimal(), int() | Decimal()):
            return _ORDERS[comparator](left, right)
    raise EvaluationError(f"{kind_of(left).describe()} and {kind_of(right).describe()} can't be ordered")


def _exact(operation: Callable[[Decimal, Decimal], Decimal]) -> Callable[[Number, Number], Number]:
    return lambda left, right: _normalize(operation(Decimal(left), Decimal(right)))


_add, _subtract, _multiply = map(_exact, (_EXACT.add, _EXACT.subtract, _EXACT.multiply))


def _divide(left: Number, right: Number) -> Number:
    if right == 0:  # the decimal module raises another error for 0 / 0
        raise EvaluationError("division by zero")
    return _normalize(_QUOTIENT.divide(Decimal(left), Decimal(right)))


def _modulo(left: Number, right: Number) -> Number:
    if right == 0:
        raise EvaluationError("division by zero")
    remainder = _normalize(_EXACT.remainder(Decimal(left), Decimal(right)))
    return remainder if remainder == 0 or (remainder > 0) == (right > 0) else _add(remainder, right)


def _normalize(value: Decimal) -> Number:
    """The normal form of a number, as `values.number` returns it, but without a limit."""
    whole = value.to_integral_value()
    return int(whole) if whole == value else _EXACT.normalize(value)


def _split(text: str, separator: str, index: Number) -> str:
    if not separator:
        raise EvaluationError("the separator is empty")
    parts = text.split(separator)
    if not isinstance(index, int) or not 0 <= index < len(parts):
        raise EvaluationError(f"it has {format_count(len(parts), 'part')}, counted from 0")
    return parts[index]


def _replace(text: str, old: str, new: str) -> str:
    if not old:
        raise EvaluationError("the old part is empty")
    if len(text) + text.count(old) * len(new) > CHARACTERS:
        raise EvaluationError("the result is too long")
    return text.replace(old, new)


def _check_length(text: str, message: str = "the result is too long") -> str:
    if len(text) > CHARACTERS:
        raise EvaluationError(message)
    return text


def _parse_size(text: str) -> Number:
    size = _SIZE.fullmatch(text.strip())
    if not size or (size[3] and not size[2]):
        raise EvaluationError("the text is not a size: write a number and a unit such as MB or MiB")
    return _multiply(
        _normalize(Decimal(size[1])), (1024 if size[3] else 1000) ** " kmgtpe".index(size[2].lower() or " ")
    )


def _parse_number(value: Number | str) -> Number:
    if not isinstance(value, str):
        return value
    if not _NUMERAL.fullmatch(value.strip()):
        raise EvaluationError("the text is not a number")
    return _normalize(Decimal(value.strip()))


def _find_number_fault(least: Number, most: Number, value: Number | str, whole: bool) -> str:
    """Why the value is not a number from `least` to `most`; empty if it is one."""
    try:
        number = _parse_number(value)
    except EvaluationError:
        return f"{_brief(value)} is not a number"
    if whole and not isinstance(number, int):
        return f"{_brief(value)} is not a whole number"
    if number < least:
        return f"{_brief(value)} is less than {show(least)}"
    return f"{_brief(value)} is more than {show(most)}" if number > most else ""


def _find_string_fault(pattern: str, longest: Number, quotes: Value, ignore_case: Value, text: str) -> str:
    """Why an option does not accept the text; empty if it does. With `quotes` a pair of quotes around it is removed."""
    if quotes not in (0, FALSE) and text[:1] in ("'", '"'):
        if len(text) < 2 or text[-1] != text[0]:
            return f"{_brief(text)} has no closing quote"
        text = text[1:-1]
    if 0 < longest < len(text):
        return f"{_brief(text)} is longer than {show(longest)}"
    fits_pattern = _matches(pattern, text, ignore_case not in (0, FALSE))
    return "" if fits_pattern else f"{_brief(text)} does not match {_brief(pattern)}"


def _matches(pattern: str, text: str, ignore_case: bool = False) -> bool:
    try:
        return compile_search(pattern, ignore_case).find(text) is not None
    except ImportError:
        raise EvaluationError("regular expressions need RE2, which is not installed") from None


def _capture(text: str, pattern: str, group: Number) -> str | None:
    try:
        return compile_search(pattern).capture(text, group)
    except ImportError:
        raise EvaluationError("regular expressions need RE2, which is not installed") from None


# Dates and times: texts such as ``2027-03-01``, ``2027-03-01T12:00:00+02:00``, ``2027-3-1 9:05`` or
# ``Mar 1, 2027 9:05``. A text without an offset is UTC, and all results are. Patterns are compiled at first use, since
# most rules read no date.

_MONTHS = "january february march april may june july august september october november december".split()  # noqa: SIM905
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d{1,6}))?)?"
_DATETIME = (
    r"(?:(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})|(?P<name>[A-Za-z]{3,9})\.? (?P<of>\d{1,2}), (?P<in>\d{4}))"
    rf"(?:[T ]{_TIME} ?(?P<offset>Z|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>[0-5]\d))?)?"
)
_DURATION = r"\d{1,12}(?::\d{1,12}){0,4}"
_UNITS = (1, 60, 3600, 86400, 7 * 86400)
"""The seconds of a second, minute, hour, day and week."""
_EPOCH = datetime(1900, 1, 1)
_SECOND = timedelta(seconds=1)
_LONGEST = 10**12


@lru_cache(maxsize=4096)
def _parse_datetime(text: str) -> datetime:
    """The date and time in UTC, without a time zone. A date means its midnight."""
    match = re.fullmatch(_DATETIME, text.strip(), re.ASCII)
    if not match:
        raise ValueError("the text is not a date such as 2027-03-01 or 2027-03-01T12:00:00Z")
    try:
        if match["name"]:
            months = (at for at, name in enumerate(_MONTHS, 1) if match["name"].lower() in (name, name[:3]))
            day = date(int(match["in"]), next(months, 0), int(match["of"]))
        else:
            day = date(int(match["year"]), int(match["month"]), int(match["day"]))
        local = datetime.combine(day, _matched_time(match) if match["hour"] else time())
        if not match["sign"]:
            return local
        offset = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"]))
        zone = timezone(-offset if match["sign"] == "-" else offset)
        return local.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise ValueError("there is no such date or time") from None


def _matched_time(match: re.Match[str]) -> time:
    second, fraction = int(match["second"] or 0), (match["fraction"] or "").ljust(6, "0")
    return time(int(match["hour"]), int(match["minute"]), second, int(fraction))


def _parse_time(text: str) -> time:
    """The time of day in a date and time, or alone."""
    match = re.fullmatch(_TIME, text.strip(), re.ASCII)
    if not match:
        return _parse_datetime(text).time()
    try:
        return _matched_time(match)
    except ValueError:
        raise ValueError("there is no such date or time") from None


def _parse_duration(value: Number | str) -> timedelta:
    """A duration: seconds, or a text such as ``1:00:00``, from weeks down to seconds."""
    if isinstance(value, str):
        if not re.fullmatch(_DURATION, value, re.ASCII):
            raise ValueError("the text is not a length of time such as 3600 or 1:00:00")
        parts = reversed(value.split(":"))
        value = sum(int(part) * unit for part, unit in zip(parts, _UNITS, strict=False))
    if not -_LONGEST < value < _LONGEST:
        raise ValueError("the result is not between the years 1 and 9999")
    microseconds = Decimal(value) * 10**6
    if microseconds != int(microseconds):
        raise ValueError("the length of time is finer than a microsecond")
    return timedelta(microseconds=int(microseconds))


def _add_duration(text: str, duration: timedelta) -> str:
    try:
        return str(_parse_datetime(text) + duration)
    except OverflowError:
        raise ValueError("the result is not between the years 1 and 9999") from None


def _pack(form: str, parse: Callable[[str], object]) -> Callable[..., str]:
    """Create a function that formats numbers, without leading zeros as in Congress, and checks the result."""

    def pack(*numbers: Number) -> str:
        if not all(isinstance(number, int) and 0 <= number <= 9999 for number in numbers):
            raise ValueError("a part of a date or time is a whole number")
        text = form.format(*numbers)
        parse(text)
        return text

    return pack


def _compare_parsed(parse: Callable[[str], object], comparison: Callable[..., bool]) -> Callable[[str, str], bool]:
    return lambda left, right: comparison(parse(left), parse(right))


def _unpack(field: str, parse: Callable[[str], object]) -> Callable[[str], int]:
    return lambda text: int(getattr(parse(text), field))


# Networks and addresses: an address alone is a network of one address, and the host bits of a network are ignored.
# Networks of versions 4 and 6 have no address in common, and each address of version 4 is less than any of version 6.


@lru_cache(maxsize=4096)
def _parse_network(text: str) -> Network:
    import ipaddress  # imported here since few rules are about networks

    if "%" not in text:  # a scope id is not part of the address
        try:
            return ipaddress.ip_network(text, strict=False)
        except ValueError:
            pass
    raise ValueError("the text is not a network")


def _parse_address(text: str) -> tuple[int, int]:
    if "/" in text:
        raise ValueError("the text is not an address")
    network = _parse_network(text)
    return network.version, int(network.network_address)


def _contains(outer: str, inner: str) -> bool:
    network, part = _parse_network(outer), _parse_network(inner)
    if network.version != part.version:
        return False
    first, last = int(network.network_address), int(network.broadcast_address)
    return first <= int(part.network_address) and int(part.broadcast_address) <= last


def _overlap(left: str, right: str) -> bool:
    return _parse_network(left).overlaps(_parse_network(right))


_COMPARISONS = {"equal": operator.eq, "lt": operator.lt, "lteq": operator.le, "gt": operator.gt, "gteq": operator.ge}
_DATE_FIELDS, _TIME_FIELDS = ("year", "month", "day"), ("hour", "minute", "second")
IMPLEMENTATIONS: dict[str, Callable[..., Value | bool]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _modulo,
    "??": lambda value, default: default if value is None else value,
    **{name: lambda value, kind=kind: kind_of(value) == kind for name, kind in KIND_TESTS.items()},
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": lambda text, part: part in text,
    "lower": str.lower,
    "upper": str.upper,
    INTERPOLATE: lambda left, right: _check_length(show(left) + show(right)),
    "capture": _capture,
    "capture.found": lambda text, pattern, group: _capture(text, pattern, group) is not None,
    "split": _split,
    "replace": _replace,
    "trim": str.strip,
    "abs": lambda value: value if value >= 0 else _subtract(0, value),
    "min2": lambda left, right: left if _compare_order("<=", left, right) else right,
    "max2": lambda left, right: left if _compare_order(">=", left, right) else right,
    "round": lambda value: int(Decimal(value).to_integral_value(ROUND_HALF_EVEN)),
    "parse_size": _parse_size,
    **{
        name: partial(_compare_order, sign) for name, sign in (("lt", "<"), ("lteq", "<="), ("gt", ">"), ("gteq", ">="))
    },
    "equal": lambda left, right: left is not None and left == right,
    "max": lambda left, right: left if _compare_order(">=", left, right) else right,
    "plus": _add,
    "minus": _subtract,
    "mul": _multiply,
    "div": lambda left, right: left // right if type(left) is type(right) is int and right else _divide(left, right),
    "concat": lambda left, right: _check_length(left + right),
    "len": len,
    "int": lambda value: int(_parse_number(value)),
    "float": _parse_number,
    "matches": lambda text, pattern: _matches(pattern, text),
    "validate_int": partial(_find_number_fault, whole=True),
    "validate_float": partial(_find_number_fault, whole=False),
    "validate_string": _find_string_fault,
    "cidr_contains": _contains,
    "cidr_overlaps": _overlap,
    "cidr_host_count": lambda text: _parse_network(text).num_addresses,
    **{f"ips_{name}": _compare_parsed(_parse_address, comparison) for name, comparison in _COMPARISONS.items()},
    "networks_equal": lambda left, right: _parse_network(left) == _parse_network(right),
    "networks_overlap": _overlap,
    "ip_in_network": lambda address, network: bool(_parse_address(address)) and _contains(network, address),
    "now": lambda now: str(_parse_datetime(now).replace(microsecond=0)),
    **{f"unpack_date.{field}": _unpack(field, _parse_datetime) for field in _DATE_FIELDS},
    **{f"unpack_time.{field}": _unpack(field, _parse_time) for field in _TIME_FIELDS},
    **{f"unpack_datetime.{field}": _unpack(field, _parse_datetime) for field in _DATE_FIELDS + _TIME_FIELDS},
    "pack_date": _pack("{}-{}-{}", _parse_datetime),
    "pack_time": _pack("{}:{}:{}", _parse_time),
    "pack_datetime": _pack("{}-{}-{} {}:{}:{}", _parse_datetime),
    "extract_date": lambda text: str(_parse_datetime(text).date()),
    "extract_time": lambda text: str(_parse_time(text)),
    "datetime_to_seconds": lambda text: (_parse_datetime(text) - _EPOCH) // _SECOND,
    "datetime_plus": lambda text, length: _add_duration(text, _parse_duration(length)),
    "datetime_minus": lambda text, length: _add_duration(text, -_parse_duration(length)),
    **{f"datetime_{name}": _compare_parsed(_parse_datetime, comparison) for name, comparison in _COMPARISONS.items()},
    "days_until": lambda day, now: (_parse_datetime(day).date() - _parse_datetime(now).date()).days,
}
"""By name in `CALLS`. The inputs are known and have the kinds of the signature."""
