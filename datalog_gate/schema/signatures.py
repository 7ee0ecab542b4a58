"""Signatures of the builtins, which `engine.builtins` computes."""

from __future__ import annotations

from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import Kind, Value
from datalog_gate.schema.declaration import Column


@dataclass(frozen=True, slots=True)
class Builtin:
    """A builtin: inputs first, outputs last; one without outputs is a test.

    `total` ones never fail because of a kind and accept null (``??``); all others need inputs that are not null and
    have the kinds of their columns. `fixed` ones (of Congress) can't be redefined. `timed` ones also take the time,
    which a rule does not write: the analysis adds it as the last input. `defaults` are the values of the last inputs
    where a rule leaves them out. `partial` ones have no result for some inputs: the literal is false then.
    """

    name: str
    inputs: tuple[Column, ...]
    outputs: tuple[Column, ...]
    meaning: str
    total: bool = False
    fixed: bool = False
    timed: bool = False
    partial: bool = False
    defaults: tuple[Value, ...] = ()

    def accepts(self, inputs: int) -> bool:
        """Whether a rule may give that many inputs."""
        return len(self.inputs) - len(self.defaults) <= inputs <= len(self.inputs)

    def calls(self) -> dict[str, Builtin]:
        """The calls that an engine computes: ``name.output`` for each of several outputs, and the test ``name.found``
        before the output of a partial one."""
        if len(self.outputs) < 2 and not (self.timed or self.partial):
            return {self.name: self}
        inputs = (*self.inputs, *(Column("time", Kind.STRING),) * self.timed)
        parts: dict[str, tuple[Column, ...]] = {f"{self.name}.found": ()} if self.partial else {}
        parts[self.name] = self.outputs
        if len(self.outputs) > 1:
            parts = {f"{self.name}.{output.name}": (output,) for output in self.outputs}
        return {name: replace(self, name=name, inputs=inputs, outputs=outputs) for name, outputs in parts.items()}


def _signature(
    name: str, inputs: str, outputs: str, meaning: str, defaults: tuple[Value, ...] = (), **flags: bool
) -> Builtin:
    """A builtin whose columns are written as ``name:kinds``, or ``name:kinds:low..high`` for numbers in that range,
    separated by blanks. `_KINDS` has the meaning of the letters."""
    return Builtin(name, _columns(inputs), _columns(outputs), meaning, defaults=defaults, **flags)


def _tests(prefix: str, meaning: str) -> tuple[Builtin, ...]:
    """The five comparisons of Congress for one sort of values."""
    signs = {"equal": "=", "lt": "<", "lteq": "<=", "gt": ">", "gteq": ">="}
    return tuple(
        _signature(f"{prefix}_{name}", "left:s right:s", "", meaning.format(sign), fixed=True)
        for name, sign in signs.items()
    )


_KINDS = {
    "n": Kind.NUMBER,
    "s": Kind.STRING,
    "o": Kind.NUMBER | Kind.STRING,
    "f": Kind.NUMBER | Kind.BOOLEAN,
    "a": Kind.ANY,
}
INTERPOLATE = "&"
"""The operator that makes an f-text, ``f"{left}{right}"``."""
PATTERN = "pattern"
"""The input name for regular expressions."""


def _columns(text: str) -> tuple[Column, ...]:
    return tuple(_column(*spec.split(":")) for spec in text.split())


def _column(name: str, kinds: str, bounds: str = "..") -> Column:
    low, high = (int(bound) if bound else None for bound in bounds.split(".."))
    return Column(name, _KINDS[kinds], range=(low, high))


_DAY, _TIME = "year:n month:n:1..12 day:n:1..31", "hour:n:0..23 minute:n:0..59 second:n"
_DATE = f"{_DAY} {_TIME}"
_ALL = (
    # operators of the language
    _signature("+", "left:n right:n", "sum:n", "The sum."),
    _signature("-", "left:n right:n", "difference:n", "The difference."),
    _signature("*", "left:n right:n", "product:n", "The product."),
    _signature("/", "left:n right:n", "quotient:n", "The quotient, rounded half-even to 28 digits."),
    _signature("%", "left:n right:n", "rest:n", "What flooring division leaves; it has the sign of the right."),
    _signature("??", "value:a default:a", "result:a", "The value, or the default where it is null.", total=True),
    _signature(INTERPOLATE, "left:o right:o", "text:s", "The text of both, one after the other."),
    # kinds
    *(
        _signature(f"is_{name}", "value:a", "", f"The value is a {name}; not null.", total=True)
        for name in ("string", "number", "boolean", "resource")
    ),
    # texts
    _signature("starts_with", "text:s prefix:s", "", "The text starts with the prefix."),
    _signature("ends_with", "text:s suffix:s", "", "The text ends with the suffix."),
    _signature("contains", "text:s part:s", "", "The part occurs in the text."),
    _signature("lower", "text:s", "result:s", "The text in lower case."),
    _signature("upper", "text:s", "result:s", "The text in upper case."),
    _signature("split", "text:s separator:s index:n", "part:s", "The part at the index, from 0; error past the end."),
    _signature(
        "replace",
        "text:s old:s new:s",
        "result:s",
        "The text with each old part replaced by the new one; error if old is empty.",
    ),
    _signature("trim", "text:s", "result:s", "The text without blanks at its ends."),
    _signature("matches", "text:s pattern:s", "", "The pattern, in RE2's syntax, occurs in the text."),
    _signature(
        "capture",
        "text:s pattern:s group:n:1..",
        "part:s",
        "What the group of the pattern matches, from 1; none if the pattern does not occur.",
        defaults=(1,),
        partial=True,
    ),
    # networks
    _signature("cidr_contains", "network:s inner:s", "", "All addresses of the inner network or address are in it."),
    _signature("cidr_overlaps", "one:s other:s", "", "The networks share an address."),
    _signature("cidr_host_count", "network:s", "count:n:1..", "How many addresses the network has."),
    # numbers and dates
    _signature("abs", "value:n", "result:n:0..", "The number without its sign."),
    _signature("min2", "one:o other:o", "result:o", "The lesser of two numbers or two texts."),
    _signature("max2", "one:o other:o", "result:o", "The greater of two numbers or two texts."),
    _signature("round", "value:n", "result:n", "The nearest whole number, of two the even one."),
    _signature("parse_size", "text:s", "bytes:n", "The bytes that a size like 2 GiB or 500 MB means."),
    _signature("days_until", "date:s", "days:n", "The days from today to the date, in UTC.", timed=True),
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
    _signature("len", "text:s", "length:n:0..", "How many characters the text has.", fixed=True),
    _signature("int", "value:o", "result:n", "The number, or the one a text writes, without its fraction.", fixed=True),
    _signature("float", "value:o", "result:n", "The number, or the one that a text writes.", fixed=True),
    _signature("now", "", "time:s", "The time of the decision, 2027-03-01 12:00:00, in UTC.", fixed=True, timed=True),
    _signature("unpack_date", "date:s", _DAY, "The parts of a date.", fixed=True),
    _signature("unpack_time", "time:s", _TIME, "The parts of a time of day.", fixed=True),
    _signature("unpack_datetime", "date:s", _DATE, "The parts of a date with its time.", fixed=True),
    _signature("pack_date", _DAY, "date:s", "The date, without zeros before.", fixed=True),
    _signature("pack_time", _TIME, "time:s", "The time, without zeros before.", fixed=True),
    _signature("pack_datetime", _DATE, "date:s", "The date with its time, without zeros before.", fixed=True),
    _signature("extract_date", "date:s", "day:s", "The day of a date with a time.", fixed=True),
    _signature("extract_time", "date:s", "time:s", "The time of day of a date with a time.", fixed=True),
    _signature("datetime_to_seconds", "date:s", "seconds:n", "The whole seconds since 1900-01-01.", fixed=True),
    _signature("datetime_plus", "date:s length:o", "later:s", "The date later by seconds or h:m:s.", fixed=True),
    _signature("datetime_minus", "date:s length:o", "earlier:s", "The date earlier by seconds or h:m:s.", fixed=True),
    *_tests("datetime", "left {} right, as dates."),
    *_tests("ips", "left {} right, as addresses; those of version 4 come first."),
    _signature("networks_equal", "one:s other:s", "", "They are the same network.", fixed=True),
    _signature("networks_overlap", "one:s other:s", "", "The networks share an address.", fixed=True),
    _signature("ip_in_network", "address:s network:s", "", "The address is one of the network.", fixed=True),
    _signature(
        "validate_int", "least:n most:n value:o", "why:s", "Why it is no such whole number, or empty.", fixed=True
    ),
    _signature("validate_float", "least:n most:n value:o", "why:s", "Why it is no such number, or empty.", fixed=True),
    _signature(
        "validate_string",
        "pattern:s longest:n quotes:f ignore_case:f text:s",
        "why:s",
        "Why the text does not match, is too long (0: any length) or has unbalanced quotes, or empty.",
        fixed=True,
    ),
)
BUILTINS: dict[str, Builtin] = {builtin.name: builtin for builtin in _ALL}
KIND_TESTS = {f"is_{kind.describe()}": kind for kind in (Kind.STRING, Kind.NUMBER, Kind.BOOLEAN, Kind.RESOURCE)}
"""The kinds for which each kind test is true."""
CALLS: dict[str, Builtin] = {name: call for builtin in _ALL for name, call in builtin.calls().items()}
"""The calls of checked programs, by name."""
