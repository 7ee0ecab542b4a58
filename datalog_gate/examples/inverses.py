"""Inputs of builtins that may give a result.

The builtins themselves decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from datalog_gate.base.values import Value
from datalog_gate.examples.sample_texts import sample_pattern

NETWORKS = (
    "0.0.0.0/0",
    "10.0.0.0/24",
    "10.0.0.0/16",
    "10.0.0.0/15",
    "10.0.0.0/8",
    "8.0.0.0/7",
    "192.168.0.0/16",
    "10.0.0.5/32",
    "::/0",
    "2001:db8::/48",
    "2001:db8::/47",
)
SIZES = ("1 GiB", "512 MiB", "1 TiB")
GROUP = re.compile(r"\((?!\?)(?:[^()\\]|\\.)*\)")
"""A group of a pattern, without others in it."""
MORE_TEXTS = ("other", "a-b")
OTHER_TEXTS = ("1", "A", "_", "")


def invert(builtin: str, at: int, others: Sequence[Value], result: Value, holds: bool) -> Iterator[Value]:
    """Values for the input at a position: `others` are those of all inputs, null where they are not known, and
    `result` is the wanted output."""
    name = builtin.partition(".")[0]
    if isinstance(result, int | Decimal) and not isinstance(result, bool):
        yield from _of_number(name, at, others, result)
    elif isinstance(result, str):
        yield from _of_text(name, at, others, result)
    yield from _of_test(name, at, others, holds)


def neighbours(value: Value) -> Iterator[Value]:
    """The value, and those just beside it; beside all of IPv4 is all of IPv6."""
    yield value
    if isinstance(value, int | Decimal):
        yield value + 1
        yield value - 1
    elif value == "0.0.0.0/0":
        yield "::/0"
    elif isinstance(value, str) and value.isdecimal():
        yield from (f"{int(value) + step:0{len(value)}}" for step in (1, -1) if int(value) + step >= 0)


def write_pattern(builtin: str, text: str) -> str | None:
    """The pattern of a test of texts; None for other builtins."""
    match builtin.partition(".")[0]:
        case "matches" | "capture":
            return text
        case "starts_with":
            return f"^{re.escape(text)}"
        case "ends_with":
            return f"{re.escape(text)}$"
        case "contains":
            return re.escape(text)
    return None


def _of_number(name: str, at: int, others: Sequence[Value], result: int | Decimal) -> Iterator[Value]:
    other = others[1 - at] if len(others) == 2 else None
    if name in ("int", "float"):
        yield str(result)
    elif name == "len" and 0 < result < 300:
        yield "a" * int(result)
    elif name == "cidr_host_count" and result > 0:
        yield from (f"10.0.0.0/{length}" for length in (33 - int(result).bit_length(), 32 - int(result).bit_length()))
    elif isinstance(other, int | Decimal):
        match name:
            case "+":
                yield result - other
            case "-":
                yield result + other if at == 0 else other - result
            case "*" if other:
                yield int(result // other)
                yield int(result // other) + 1
            case "/" if at == 0:
                yield result * other
    yield result


def _of_text(name: str, at: int, others: Sequence[Value], result: str) -> Iterator[Value]:
    other = others[1 - at] if len(others) > 1 and at < 2 else None
    match name, other:
        case "concat" | "&", str() if at == 0:
            yield result.removesuffix(other)
        case "concat" | "&", str():
            yield result.removeprefix(other)
        case "split", str() if at == 0 and isinstance(others[2], int):
            yield other.join([*("a" for _ in range(others[2])), result])
            yield other.join([*("a" for _ in range(others[2])), result, "b"])
        case "replace", str() if at == 0:
            yield result.replace(str(others[2]), other) if others[2] else other + result
        case "capture", str() if at == 0:
            yield from sample_pattern(GROUP.sub(lambda _: re.escape(result), other, count=1))[:2]
        case "upper", _:
            yield result.lower()
    yield result
    if name == "lower":
        yield result.upper()


def _of_test(name: str, at: int, others: Sequence[Value], holds: bool) -> Iterator[Value]:
    other = others[1] if at == 0 and len(others) > 1 else None
    match name:
        case "starts_with" | "ends_with" | "contains" | "matches" if at == 1 and isinstance(others[0], str):
            yield from (others[0], others[0][:-1], others[0][1:])
        case "starts_with" | "ends_with" | "contains" if isinstance(other, str):
            longer = {"starts_with": f"{other}1", "ends_with": f"1{other}"}.get(name, f"1{other}1")
            yield from (longer, other, longer.swapcase(), f"{other}1", f"1{other}", *MORE_TEXTS)
            yield from (f"{other}0.0.0.0/8", f"{other}0.0.0/8", f"{other}0.0/16")
        case "matches" | "capture" if isinstance(other, str):
            samples = sample_pattern(other)
            before, after = ("" if other.startswith("^") else "1"), ("" if other.endswith("$") else "1")
            yield from (f"{before}{text}{after}" for text in samples[:1])
            yield from samples
            if not holds:
                yield from (*(f"{text}-" for text in samples[:2]), *(f"x-{text}" for text in samples[:2]), *MORE_TEXTS)
                yield from OTHER_TEXTS
        case "split" if isinstance(other, str):
            yield from (f"a{other}b", f"a{other}b{other}c")
        case "cidr_host_count" | "cidr_contains" | "cidr_overlaps":
            network = others[1 - at] if len(others) == 2 else None
            yield from (network.partition("/")[0], network) if isinstance(network, str) else ()
            yield from NETWORKS
        case "days_until":
            yield from ("2027-03-02", "2027-02-01", "2026-03-01", "2028-03-01")
        case "parse_size":
            yield from SIZES
        case "int" | "float":
            yield from ("22", "0", "-1", "65535")
        case "is_string":
            yield "text"
        case "is_number":
            yield 1
