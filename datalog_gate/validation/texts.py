"""Heat's custom constraints that need no service.

Source: heat/engine/constraint/common_constraints.py. A text in a form that is rarely used, such as ``2#3`` for a day in
cron, counts as right.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Address, IPv6Address

LONGEST_NAME = 255
_LABEL = r"(?!-)[a-z0-9-]{1,63}(?<!-)"
"""A pattern, as a text: few templates need one, and compiling all of them takes 2 ms."""
_MAC = (
    r"(?i)[0-9a-f]{1,2}(?P<pairs>[:-])([0-9a-f]{1,2}(?P=pairs)){4}[0-9a-f]{1,2}"
    r"|[0-9a-f]{1,4}(?P<thirds>[:.-])[0-9a-f]{1,4}(?P=thirds)[0-9a-f]{1,4}"
    r"|[0-9a-f]{5,6}[:-][0-9a-f]{5,6}|[0-9a-f]{11,12}"
)
_CRON = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7), (0, 59), (1970, 2099))
"""The least and the greatest number of each field."""
_CRON_FIELD = r"(?a)(\*|\d+(-\d+)?)(/0*[1-9]\d*)?(,(\*|\d+(-\d+)?)(/0*[1-9]\d*)?)*"
_CRON_RARE = r"(?i)[-\d*,/()#?lwhr]|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat"
"""What a field may have besides; its form is not checked."""
_YEAR = r"(?a)\s*\d{4}"


def find_reason(constraint: str, value: object) -> str | None:
    """Why a value does not meet a constraint of that name, in words that follow "it"; None if it does, or if a service
    decides."""
    check = _CHECKS.get(constraint)
    if isinstance(value, str):
        return check(value) if check else None
    return "is not a text" if constraint in _OF_TEXTS else None


def _address(text: str) -> str | None:
    return None if _is_address(text) else "is not an IP address"


def _is_address(text: str) -> bool:
    try:
        IPv6Address(text) if ":" in text else IPv4Address(text)
    except AddressValueError:
        return False
    return "%" not in text


def _network(text: str) -> str | None:
    address, slash, prefix = text.partition("/")
    if not slash:
        return "has no prefix length, such as 10.0.0.0/24" if _is_address(address) else "is not a network"
    if not _is_address(address):
        return f"is not a network: {address} is not an IP address"
    if ":" in address:
        return None if ":" in prefix or _is_length(prefix, 128) else "is not a network: its prefix is 0 to 128"
    return None if _is_length(prefix, 32) and prefix == str(int(prefix)) else "is not a network: its prefix is 0 to 32"


def _is_length(prefix: str, most: int) -> bool:
    return prefix.isascii() and prefix.isdigit() and int(prefix) <= most


def _address_or_network(text: str) -> str | None:
    return _network(text) if "/" in text else _address(text)


def _mac(text: str) -> str | None:
    return None if re.fullmatch(_MAC, text) else "is not a MAC address, such as fa:16:3e:00:00:01"


def _dns_name(text: str) -> str | None:
    if not text:
        return None
    trimmed = text.removesuffix(".")
    if len(trimmed) > LONGEST_NAME:
        return f"is longer than {LONGEST_NAME} characters"
    labels = trimmed.split(".")
    if wrong := [label for label in labels if not re.fullmatch(_LABEL, label)]:
        return f"has the part `{wrong[0]}`: each has small letters, digits and inner hyphens"
    if text.endswith(".") and len(labels) > 1 and re.fullmatch("[0-9]+", labels[-1]):
        return "ends with a part of digits alone"
    return None


def _relative_name(text: str) -> str | None:
    if text.endswith("."):
        return "ends with a dot: it must be relative to its domain"
    if len(text) > LONGEST_NAME - 3:
        return "leaves no room for the name of its domain"
    return _dns_name(text)


def _domain(text: str) -> str | None:
    return _dns_name(text) or (None if text.endswith(".") or not text else "must end with a dot")


def _cron(text: str) -> str | None:
    fields = text.split()
    if not fields or text.startswith("@"):
        return None
    if not 5 <= len(fields) <= len(_CRON):
        return f"has {len(fields)} fields, and cron takes 5 to 7"
    for field, (least, most) in zip(fields, _CRON, strict=False):
        if not re.fullmatch(_CRON_FIELD, field):
            if re.search("[a-z#?]", field, re.IGNORECASE) and not re.sub(_CRON_RARE, "", field):
                continue
            return f"has the field `{field}`"
        numbers = [int(number) for part in field.split(",") for number in re.findall(r"\d+", part.partition("/")[0])]
        if any(not least <= number <= most for number in numbers):
            return f"has the field `{field}`, which takes {least} to {most}"
    return None


def _timezone(text: str) -> str | None:
    from zoneinfo import ZoneInfo  # needed by few templates

    if not text:
        return None
    try:
        ZoneInfo("Europe/London")
    except (ValueError, OSError, LookupError):
        return None  # this machine has no time zones
    try:
        ZoneInfo(text)
    except (ValueError, OSError, LookupError):
        return "is not the name of a time zone"
    return None


def _expiration(text: str) -> str | None:
    return None if not text or re.match(_YEAR, text) else "is not a time, such as 2030-01-31T12:00:00"


def _json(text: str) -> str | None:
    try:
        json.loads(text or "0")
    except ValueError as error:
        return f"is not JSON: {error}"
    return None


_CHECKS: dict[str, Callable[[str], str | None]] = {
    "cron_expression": _cron,
    "dns_domain": _domain,
    "dns_name": _dns_name,
    "expiration": _expiration,
    "ip_addr": _address,
    "ip_or_cidr": _address_or_network,
    "json_string": _json,
    "mac_addr": _mac,
    "net_cidr": _network,
    "rel_dns_name": _relative_name,
    "timezone": _timezone,
}
_OF_TEXTS = ("ip_addr", "ip_or_cidr", "mac_addr", "net_cidr")
"""Those that refuse whatever is not a text."""
