"""What the builtins compute (layer 3); `catalogue.builtins` holds their signatures, `dates` and `networks` those parts.

In: values. Out: a value, or a truth for a test, or an `EvaluationError` that says what does not compute. All is exact:
integers are unbounded up to `DIGITS`, decimals never round but in ``/``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException, Inexact, InvalidOperation, Overflow, Subnormal
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from datalog_gate.analysis.patterns import searcher
from datalog_gate.analysis.program import FoldFunction
from datalog_gate.base.errors import GateError
from datalog_gate.base.values import FALSE, Kind, ResourceId, Row, Unknown, Value, kind_of, row_key, show, types_of
from datalog_gate.engine.intervals import Tuples, aggregated, computed, decided, kinds_of
from datalog_gate.language.ast import AggregateFunction, Comparator
from datalog_gate.schema.signatures import CALLS

if TYPE_CHECKING:
    import ipaddress

    Network = ipaddress.IPv4Network | ipaddress.IPv6Network

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


# dates and times

_MONTHS = "january february march april may june july august september october november december"
# compiled when they are used first: most rules read no date
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d{1,6}))?)?"
_MOMENT = (
    r"(?:(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})|(?P<name>[A-Za-z]{3,9})\.? (?P<of>\d{1,2}), (?P<in>\d{4}))"
    rf"(?:[T ]{_TIME} ?(?P<offset>Z|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>[0-5]\d))?)?"
)
_SPAN = r"\d{1,12}(?::\d{1,12}){0,4}"
_UNITS = (1, 60, 3600, 86400, 7 * 86400)
_START = datetime(1900, 1, 1)
_SECOND = timedelta(seconds=1)
_LONGEST = 10**12


@lru_cache(maxsize=4096)
def _moment(text: str) -> datetime:
    """The moment that the text writes, in UTC but without saying so; a date alone is its midnight."""
    found = re.fullmatch(_MOMENT, text.strip(), re.ASCII)
    if not found:
        raise ValueError("the text is no date such as 2027-03-01 or 2027-03-01T12:00:00Z")
    try:
        if found["name"]:
            day = date(int(found["in"]), _month(found["name"]), int(found["of"]))
        else:
            day = date(int(found["year"]), int(found["month"]), int(found["day"]))
        moment = datetime.combine(day, _time_of(found) if found["hour"] else time())
        if not found["sign"]:
            return moment
        offset = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"]))
        zone = timezone(-offset if found["sign"] == "-" else offset)
        return moment.replace(tzinfo=zone).astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise ValueError("there is no such date or time") from None


def _month(name: str) -> int:
    """The number of an English month, 0 if there is none of this name."""
    return next((at for at, month in enumerate(_MONTHS.split(), 1) if name.lower() in (month, month[:3])), 0)


def _time_of(found: re.Match[str]) -> time:
    second, fraction = int(found["second"] or 0), (found["fraction"] or "").ljust(6, "0")
    return time(int(found["hour"]), int(found["minute"]), second, int(fraction))


def _time(text: str) -> time:
    """The time of day of a moment, or one that stands alone."""
    found = re.fullmatch(_TIME, text.strip(), re.ASCII)
    if not found:
        return _moment(text).time()
    try:
        return _time_of(found)
    except ValueError:
        raise ValueError("there is no such date or time") from None


def _span(value: int | Decimal | str) -> timedelta:
    """A length of time: seconds, or a text of seconds, minutes, hours, days and weeks, from its end: ``1:00:00``."""
    if isinstance(value, str):
        if not re.fullmatch(_SPAN, value, re.ASCII):
            raise ValueError("the text is no length of time such as 3600 or 1:00:00")
        parts = reversed(value.split(":"))
        value = sum(int(part) * unit for part, unit in zip(parts, _UNITS, strict=False))
    if not -_LONGEST < value < _LONGEST:
        raise ValueError("the result is no date between the years 1 and 9999")
    micros = Decimal(value) * 10**6
    if micros != int(micros):
        raise ValueError("the length of time is finer than a microsecond")
    return timedelta(microseconds=int(micros))


def _moved(text: str, span: timedelta) -> str:
    try:
        return str(_moment(text) + span)
    except OverflowError:
        raise ValueError("the result is no date between the years 1 and 9999") from None


def _packed(form: str, read: Callable[[str], object]) -> Callable[..., str]:
    """A function that writes numbers in the form, without zeros before as Congress does; they must make sense."""

    def pack(*numbers: int | Decimal) -> str:
        if not all(isinstance(number, int) and 0 <= number <= 9999 for number in numbers):
            raise ValueError("a part of a date or time is a whole number")
        written = form.format(*numbers)
        read(written)
        return written

    return pack


def _moments(comparison: Callable[..., bool]) -> Callable[[str, str], bool]:
    return lambda one, other: comparison(_moment(one), _moment(other))


def _part(name: str, read: Callable[[str], object]) -> Callable[[str], int]:
    return lambda text: int(getattr(read(text), name))


# networks and addresses


@lru_cache(maxsize=4096)
def _network(text: str) -> Network:
    import ipaddress  # only rules about networks pay for it

    if "%" not in text:  # the zone of an address says nothing about which one it is
        try:
            return ipaddress.ip_network(text, strict=False)
        except ValueError:
            pass
    raise ValueError("the text is no network")


def _address(text: str) -> tuple[int, int]:
    network = _network(text) if "/" not in text else None
    if network is None:
        raise ValueError("the text is no address")
    return network.version, int(network.network_address)


def _contains(network: str, inner: str) -> bool:
    one, other = _network(network), _network(inner)
    if one.version != other.version:
        return False
    first, last = int(one.network_address), int(one.broadcast_address)
    return first <= int(other.network_address) and int(other.broadcast_address) <= last


def _overlap(one: str, other: str) -> bool:
    return _network(one).overlaps(_network(other))


def _addresses(comparison: Callable[..., bool]) -> Callable[[str, str], bool]:
    return lambda one, other: comparison(_address(one), _address(other))


_DAY, _HOUR = ("year", "month", "day"), ("hour", "minute", "second")
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
    "cidr_contains": _contains,
    "cidr_overlaps": _overlap,
    "cidr_host_count": lambda text: _network(text).num_addresses,
    "ips_equal": _addresses(operator.eq),
    "ips_lt": _addresses(operator.lt),
    "ips_lteq": _addresses(operator.le),
    "ips_gt": _addresses(operator.gt),
    "ips_gteq": _addresses(operator.ge),
    "networks_equal": lambda one, other: _network(one) == _network(other),
    "networks_overlap": _overlap,
    "ip_in_network": lambda address, network: bool(_address(address)) and _contains(network, address),
    "now": lambda now: str(_moment(now).replace(microsecond=0)),
    **{f"unpack_date.{one}": _part(one, _moment) for one in _DAY},
    **{f"unpack_time.{one}": _part(one, _time) for one in _HOUR},
    **{f"unpack_datetime.{one}": _part(one, _moment) for one in _DAY + _HOUR},
    "pack_date": _packed("{}-{}-{}", _moment),
    "pack_time": _packed("{}:{}:{}", _time),
    "pack_datetime": _packed("{}-{}-{} {}:{}:{}", _moment),
    "extract_date": lambda text: str(_moment(text).date()),
    "extract_time": lambda text: str(_time(text)),
    "datetime_to_seconds": lambda text: (_moment(text) - _START) // _SECOND,
    "datetime_plus": lambda text, span: _moved(text, _span(span)),
    "datetime_minus": lambda text, span: _moved(text, -_span(span)),
    "datetime_lt": _moments(operator.lt),
    "datetime_lteq": _moments(operator.le),
    "datetime_gt": _moments(operator.gt),
    "datetime_gteq": _moments(operator.ge),
    "datetime_equal": _moments(operator.eq),
    "days_until": lambda day, now: (_moment(day).date() - _moment(now).date()).days,
}
"""By name in `CALLS`; the inputs are known and of the kinds that the signature names."""
