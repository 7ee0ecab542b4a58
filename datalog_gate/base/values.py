"""The values of facts and rules, and their one total order.

There are six kinds, in this order: null, boolean, number, string, resource, unknown. A value is hashable and immutable.
It is equal only to a value of its own kind: Python's ``True == 1`` and ``"web/db" == ResourceId("web/db")`` do not hold
here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from decimal import Context, Decimal
from enum import IntFlag
from typing import NamedTuple, final

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.expression import Expression, phrase
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.secrecy import MASK


class Kind(IntFlag):
    """A set of kinds: what a column or a variable can hold. The bits ascend in the order of the kinds."""

    NULL = 1
    BOOLEAN = 2
    NUMBER = 4
    STRING = 8
    RESOURCE = 16
    UNKNOWN = 32
    MIXED = 64
    """A mark on several kinds that rules must distinguish before they compute: a template may use any of them."""
    ANY = NULL | BOOLEAN | NUMBER | STRING | RESOURCE

    def __and__(self, other: int) -> Kind:
        return _KINDS[int.__and__(self, other)]

    def __or__(self, other: int) -> Kind:
        return _KINDS[int.__or__(self, other)]

    def __contains__(self, other: int) -> bool:
        return int.__and__(self, other) == other

    def describe(self) -> str:
        """The kinds in words, ``string or null``."""
        if self & Kind.ANY == Kind.ANY:
            return "anything"
        order = (Kind.BOOLEAN, Kind.NUMBER, Kind.STRING, Kind.RESOURCE, Kind.UNKNOWN, Kind.NULL)
        return " or ".join(str(kind.name).lower() for kind in order if kind & self) or "nothing"


_KINDS = tuple(map(Kind, range(128)))
"""Every set of kinds, since `enum` takes ten times as long to combine two."""
NO_KIND = Kind(0)
NOT_NULL = Kind.ANY & ~Kind.NULL


@final
class Boolean:
    """One of the two truth values `TRUE` and `FALSE`: a separate kind, since Python's ``True`` equals ``1``."""

    __slots__ = ("truth",)
    truth: bool

    def __init__(self, truth: bool) -> None:
        self.truth = truth

    def __reduce__(self) -> str:
        return "TRUE" if self.truth else "FALSE"

    def __repr__(self) -> str:
        return "true" if self.truth else "false"


TRUE = Boolean(True)
FALSE = Boolean(False)


class ResourceId(NamedTuple):
    """A resource of the stack under judgement, by its path ``web/db``. Only the reader of templates makes one.

    The path can be split: Heat refuses a slash in the name of a resource or a stack (heat/engine/resource.py:205,
    heat/engine/stack.py:174).
    """

    path: str

    @property
    def name(self) -> str:
        """The resource's name within its own stack."""
        return self.path.rpartition("/")[2]

    @property
    def stack(self) -> str:
        """The id of the resource's stack."""
        return self.path.rpartition("/")[0]

    @property
    def local_path(self) -> str:
        """The path without the root's id."""
        return self.path.partition("/")[2]


class Bounds(NamedTuple):
    """The lower and upper bounds of a number."""

    low: int | Decimal = Decimal("-Infinity")
    high: int | Decimal = Decimal("Infinity")


OPEN = Bounds()
"""Any number."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that is not known yet. Two are equal if they have the same source and the same `apart`."""

    source: Expression
    """The expression that the value results from."""
    apart: bool = field(default=False, kw_only=True)
    """It stands for resources that could not be read, such as members of a group, and differ from known values."""
    hidden: bool = field(default=False, kw_only=True, compare=False)
    """It stands for the value of a hidden parameter."""
    unread: bool = field(default=False, kw_only=True, compare=False)
    """Heat knows it before it builds anything, but this reader does not: a user can choose it."""
    scalar: bool = field(default=False, kw_only=True, compare=False)
    """It is neither a list nor a map."""
    several: bool = field(default=False, kw_only=True, compare=False)
    """It stands for several values that need not be equal: one for each row that could not be read."""
    kinds: Kind = field(default=Kind.ANY, kw_only=True, compare=False)
    """The kinds that the value can have."""
    bounds: Bounds = field(default=OPEN, kw_only=True, compare=False)
    """Its bounds, if it is a number."""
    of: tuple[Unknown, ...] = field(default=(), kw_only=True, compare=False, repr=False)
    """The `bases` of the unknowns that it was computed from."""
    prefix: str = field(default="", kw_only=True, compare=False, repr=False)
    """What its text begins with, if it is a text."""
    domain: tuple[Value, ...] = field(default=(), kw_only=True, compare=False, repr=False)
    """All values that it can have, if these are few and known."""
    place: Span | None = field(default=None, compare=False)
    """Where the user wrote the expression."""

    def __hash__(self) -> int:  # fast, since rows with unknowns are hashed often, and few differ only in other fields
        return hash(self.source.identity)

    @property
    def expression(self) -> str:
        """The source as users read it."""
        return self.source.text


def hidden_value(of: str) -> Unknown:
    """The unknown for the value of a hidden parameter, described in words such as ``password in web``."""
    return Unknown(phrase(f"hidden value of {of}"), hidden=True)


SECRET = hidden_value("a parameter")
"""Printed instead of hidden values, and of results computed from them."""
NO_VALUE = Unknown(phrase("what an error leaves open"), apart=True)
"""Stands in rows in error for what has no value. A null there is a null."""
MAX_DIGITS = 4000
MAX_BITS = 13287
"""The bits of a number with `MAX_DIGITS` digits. Python refuses to print integers of more than 4300 digits."""
EXACT = Context(prec=3 * MAX_DIGITS)

Value = None | Boolean | int | Decimal | str | ResourceId | Unknown
Row = tuple[Value, ...]


class TooLongError(ValueError):
    """A number of more than `MAX_DIGITS` digits."""


def bases(unknowns: Iterable[Unknown]) -> tuple[Unknown, ...]:
    """The unknowns that these depend on in the end: those that no function computed. A condition with a domain (true or
    false) is its own base if some unknown below it has no domain."""
    resting: dict[Unknown, None] = {}
    for unknown in unknowns:
        deeper = unknown.of and (not unknown.domain or all(part.domain for part in unknown.of))
        resting.update(dict.fromkeys(unknown.of if deeper else (unknown,)))
    return tuple(resting)


def boolean(truth: bool) -> Boolean:
    """`TRUE` or `FALSE`."""
    return TRUE if truth else FALSE


def number(value: int | Decimal) -> int | Decimal:
    """The number in its normal form: whole numbers are ints, so ``1.0`` is ``1``; others have no trailing zeros.
    Errors: ValueError if it is not finite, or has more than `MAX_DIGITS` digits before or after the point."""
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise TooLongError(f"a number of more than {MAX_DIGITS} digits")
        return value
    if not value.is_finite() or value.adjusted() > MAX_DIGITS or -value.adjusted() > MAX_DIGITS:
        raise ValueError(f"a number must be finite and of at most {MAX_DIGITS} digits")
    whole = value.to_integral_value()
    return int(whole) if whole == value else EXACT.normalize(value)


def from_python(data: object) -> Value:
    """The value of a scalar of plain Python data (None, bool, int, float, Decimal, str) or of a value itself.

    A float becomes its shortest decimal notation, or its text if it is not finite. Errors: ValueError for a number that
    `number` refuses, TypeError for anything else.
    """
    match data:
        case bool():
            return boolean(data)
        case None | str() | Boolean() | ResourceId() | Unknown():
            return data
        case int():
            return number(data)
        case float():
            exact = Decimal(repr(data))
            return number(exact) if exact.is_finite() else repr(data)
        case Decimal():
            return number(data)
    raise TypeError(f"{type(data).__name__} is not a value")


def kind_of(value: Value) -> Kind:
    """The one kind of a value."""
    return _KIND_OF.get(type(value)) or next(kind for of, kind in _KIND_OF.items() if isinstance(value, of))


_KIND_OF: dict[type, Kind] = {
    type(None): Kind.NULL,
    Boolean: Kind.BOOLEAN,
    int: Kind.NUMBER,
    Decimal: Kind.NUMBER,
    str: Kind.STRING,
    ResourceId: Kind.RESOURCE,
    Unknown: Kind.UNKNOWN,
}


def types_of(kinds: Kind) -> frozenset[type]:
    """The types of the values of these kinds."""
    return frozenset(of for of, kind in _KIND_OF.items() if kind & kinds)


def sort_key(value: Value) -> tuple[int, object]:
    """A key under which all values sort: first by kind, then in the kind's own order (strings by code point)."""
    kind = int(kind_of(value))
    match value:
        case None:
            return kind, 0
        case Boolean():
            return kind, value.truth
        case ResourceId():
            return kind, value.path
        case Unknown():
            return kind, value.expression
        case _:
            return kind, value


def row_key(row: Row) -> tuple[tuple[int, object], ...]:
    """The key under which rows sort."""
    return tuple(sort_key(value) for value in row)


def in_order(rows: Collection[Row]) -> list[Row]:
    """The rows sorted by `row_key`, which is used only if Python refuses to compare the values directly."""
    try:
        return sorted(rows)
    except TypeError:
        return sorted(rows, key=row_key)


def show(value: Value) -> str:
    """The value as a message shows it: a string without quotes, a resource by its path, an unknown as `?(...)` or by
    its bounds, `98..105` or `98..`, a hidden value as the mask."""
    match value:
        case None:
            return "null"
        case str():
            return value
        case ResourceId():
            return value.path
        case Unknown():
            if value.hidden:
                return MASK
            low, high = ("" if bound in OPEN else show(bound) for bound in value.bounds)
            return f"?({value.expression})" if value.bounds == OPEN else f"{low}..{high}"
        case Decimal():
            return format(value, "f")
        case _:
            return repr(value)


def print_value(value: Value) -> str:
    """The value as a rule writes it: null, a boolean, a number, or a string in double quotes."""
    if not isinstance(value, str):
        return str(value) if isinstance(value, Decimal) else show(value)
    plain = value.isprintable() and '"' not in value and "\\" not in value
    return f'"{value if plain else "".join(map(_escape, value))}"'


def _escape(char: str) -> str:
    if char in _ESCAPES or char.isprintable():
        return _ESCAPES.get(char, char)
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}


def to_json(value: Value, tagged: bool = False) -> object:
    """The value as JSON data. A resource is its path, or ``{"$resource": path}`` if `tagged`; an unknown is always an
    object ``{"$unknown": {"expression", "place"}}``, or if hidden ``{"$hidden": true}``. A decimal that is not exact as
    a double becomes its text."""
    match value:
        case None | str() | int():
            return value
        case Boolean():
            return value.truth
        case Decimal():
            near = float(value)
            return near if Decimal(repr(near)) == value else format(value, "f")
        case ResourceId():
            return {"$resource": value.path} if tagged else value.path
        case Unknown(hidden=True):
            return {"$hidden": True}
        case Unknown():
            place = value.place.to_json() if value.place else None
            return {"$unknown": {"expression": value.expression, "place": place}}
