"""The meanings of constants, and their names in messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date
from ipaddress import IPv4Network, IPv6Network, ip_network

from datalog_gate.analysis import program as ir
from datalog_gate.base.patterns import compile_search
from datalog_gate.base.values import FALSE, TRUE, Boolean, Value, show
from datalog_gate.schema.declaration import given_version

Network = IPv4Network | IPv6Network
TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": str.__contains__,
    "matches": lambda text, pattern: compile_search(pattern).find(text) is not None,
}
"""Builtins that test a text against a part of it, or a pattern."""
OF_NETWORKS = (
    "cidr_contains", "cidr_overlaps", "cidr_host_count", "ip_in_network", "networks_equal", "networks_overlap",
)  # fmt: skip
ADDRESSES = ("net_cidr", "ip_or_cidr", "ip_addr")
"""The custom constraints of properties that hold an address or a network."""
LONGEST = 160
"""Literals of longer bodies are not compared with each other, since that takes quadratic time."""
SPELT = {"true": TRUE, "yes": TRUE, "on": TRUE, "false": FALSE, "no": FALSE, "off": FALSE}
"""The values that YAML reads from unquoted words."""
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
MOMENT = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d(:\d\d.*)?)?)?)?")


def takes_given(rule: ir.CheckedRule) -> bool:
    """Whether the rule only copies the rows that facts give its relation at run time."""
    literal = rule.body[0] if len(rule.body) == 1 else None
    return isinstance(literal, ir.Match) and literal.relation == given_version(rule.relation)


def name_of(operand: ir.Operand) -> str:
    if isinstance(operand, ir.Const):
        return repr(operand.value) if isinstance(operand.value, str) else show(operand.value)
    return operand.name or "the result"


def twins(value: Value, text: bool = True) -> list[Value]:
    """The other values by which a template may mean this one. `text` says that Heat converts it to a text anyway."""
    if isinstance(value, Boolean):
        return ["true" if value == TRUE else "false"] if text else []
    if isinstance(value, int):
        return [str(value)] if text else []
    if not isinstance(value, str):
        return []
    if value.lower() in SPELT:
        return [SPELT[value.lower()]]
    return [int(value)] if NUMBER.fullmatch(value) and "." not in value and str(int(value)) == value else []


def read_day(text: str) -> date | None:
    """The day of a time, or the first day of a month or year. None if the text names no existing day."""
    if not MOMENT.fullmatch(text):
        return None
    with suppress(ValueError):
        return date.fromisoformat(f"{text[:10]}-01-01"[:10])
    return None


def read_network(text: str) -> Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None
