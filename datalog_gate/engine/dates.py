"""What the builtins about dates and times compute (layer 3).

In: numbers, and texts such as ``2027-03-01``, ``2027-03-01T12:00:00+02:00``, ``2027-3-1 9:05`` or ``Mar 1, 2027 9:05``.
Out: a text, a number or a truth. All is UTC: a text without an offset is. Errors: ValueError for what is no date.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from operator import eq, ge, gt, le, lt

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


_DAY, _HOUR = ("year", "month", "day"), ("hour", "minute", "second")
DATES: dict[str, Callable[..., str | int | bool]] = {
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
    "datetime_lt": _moments(lt),
    "datetime_lteq": _moments(le),
    "datetime_gt": _moments(gt),
    "datetime_gteq": _moments(ge),
    "datetime_equal": _moments(eq),
    "days_until": lambda day, now: (_moment(day).date() - _moment(now).date()).days,
}
