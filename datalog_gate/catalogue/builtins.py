"""The builtins' signatures (layer 1): what the analysis checks a call against; `engine.builtins` computes them."""

from __future__ import annotations

from dataclasses import dataclass

from datalog_gate.catalogue.schema import Column
from datalog_gate.values import Kind


@dataclass(frozen=True, slots=True)
class Builtin:
    """A builtin: inputs first, outputs last; one without outputs is a test.

    `total` ones never raise on a kind and take null (``??``); all others need their inputs non-null and of the kinds
    that the columns name. `fixed` ones (those of Congress) can't be redefined.
    """

    name: str
    inputs: tuple[Column, ...]
    outputs: tuple[Column, ...]
    meaning: str
    total: bool = False
    fixed: bool = False


def _signature(
    name: str, inputs: str, outputs: str, meaning: str, *, total: bool = False, fixed: bool = False
) -> Builtin:
    """A builtin whose columns are written ``name:kinds``, apart by blanks; `_KINDS` says what the letters mean."""
    return Builtin(name, _columns(inputs), _columns(outputs), meaning, total, fixed)


_KINDS = {"n": Kind.NUMBER, "s": Kind.STRING, "o": Kind.NUMBER | Kind.STRING, "a": Kind.ANY}


def _columns(text: str) -> tuple[Column, ...]:
    return tuple(Column(name, _KINDS[kinds]) for name, _, kinds in (one.partition(":") for one in text.split()))


_ALL = (
    # operators of the language
    _signature("+", "left:n right:n", "sum:n", "The sum."),
    _signature("-", "left:n right:n", "difference:n", "The difference."),
    _signature("*", "left:n right:n", "product:n", "The product."),
    _signature("/", "left:n right:n", "quotient:n", "The quotient, rounded half-even to 28 digits."),
    _signature("%", "left:n right:n", "rest:n", "What flooring division leaves; it has the sign of the right."),
    _signature("??", "value:a default:a", "result:a", "The value, or the default where it is null.", total=True),
    # texts
    _signature("starts_with", "text:s prefix:s", "", "The text starts with the prefix."),
    _signature("ends_with", "text:s suffix:s", "", "The text ends with the suffix."),
    _signature("contains", "text:s part:s", "", "The part occurs in the text."),
    _signature("lower", "text:s", "result:s", "The text in lower case."),
    _signature("upper", "text:s", "result:s", "The text in upper case."),
    _signature("split", "text:s separator:s index:n", "part:s", "The part at the index, from 0; error past the end."),
    _signature("replace", "text:s old:s new:s", "result:s", "The text with each old part replaced by the new one."),
    _signature("trim", "text:s", "result:s", "The text without blanks at its ends."),
    # networks
    _signature("cidr_contains", "network:s inner:s", "", "All addresses of the inner network or address are in it."),
    _signature("cidr_overlaps", "one:s other:s", "", "The networks share an address."),
    _signature("cidr_host_count", "network:s", "count:n", "How many addresses the network has."),
    # numbers and dates
    _signature("abs", "value:n", "result:n", "The number without its sign."),
    _signature("min2", "one:o other:o", "result:o", "The lesser of two numbers or two texts."),
    _signature("max2", "one:o other:o", "result:o", "The greater of two numbers or two texts."),
    _signature("round", "value:n", "result:n", "The nearest whole number, of two the even one."),
    _signature("parse_size", "text:s", "bytes:n", "The bytes that a size like 2 GiB or 500 MB means."),
    # of Congress
    _signature("lt", "left:o right:o", "", "left < right.", fixed=True),
    _signature("lteq", "left:o right:o", "", "left <= right.", fixed=True),
    _signature("equal", "left:a right:a", "", "Both are the same value, and not null.", total=True, fixed=True),
    _signature("gt", "left:o right:o", "", "left > right.", fixed=True),
    _signature("gteq", "left:o right:o", "", "left >= right.", fixed=True),
    _signature("max", "one:o other:o", "result:o", "The greater of two numbers or two texts.", fixed=True),
    _signature("plus", "left:n right:n", "sum:n", "The sum.", fixed=True),
    _signature("minus", "left:n right:n", "difference:n", "The difference.", fixed=True),
    _signature("mul", "left:n right:n", "product:n", "The product.", fixed=True),
    _signature("div", "left:n right:n", "quotient:n", "The quotient; of two whole numbers its floor.", fixed=True),
    _signature("concat", "left:s right:s", "result:s", "The two texts joined.", fixed=True),
    _signature("len", "text:s", "length:n", "How many characters the text has.", fixed=True),
    _signature("int", "value:o", "result:n", "The number, or the one a text writes, without its fraction.", fixed=True),
    _signature("float", "value:o", "result:n", "The number, or the one that a text writes.", fixed=True),
)
BUILTINS: dict[str, Builtin] = {one.name: one for one in _ALL}
