"""Pages of lists. Markers are opaque to clients."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Any

from datalog_gate.doors.server.endpoint import ApiCall, ApiError


def write_page(
    name: str,
    rows: Sequence[Any],
    limit: int,
    key: Callable[[Any], Sequence[str]],
    show: Callable[[Any], object] = lambda row: row,
) -> dict[str, Any]:
    """The answer with a page of the rows. If there are more, `key` of the last row is the marker of the next."""
    page = rows[:limit]
    answer: dict[str, Any] = {name: [show(row) for row in page]}
    if len(rows) > limit:
        answer["next"] = urlsafe_b64encode(json.dumps(key(page[-1])).encode()).decode()
    return answer


def read_text_marker(call: ApiCall) -> str:
    """Read a marker of one value; empty without one. Errors: ApiError."""
    [text] = read_marker(call.query.get("marker"), 1) or ("",)
    return text


def read_number(call: ApiCall) -> int:
    """Read a marker that is a number; 0 without one. Errors: ApiError."""
    text = read_text_marker(call)
    if text and not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise ApiError(400, "invalid", "the marker is not from an earlier answer")
    return int(text or 0)


def read_marker(text: str | None, length: int) -> tuple[str, ...]:
    """Read the values of a marker; none without one. Errors: ApiError."""
    if text is None:
        return ()
    try:
        values = json.loads(urlsafe_b64decode(text))
    except (ValueError, RecursionError):
        values = None
    is_list = isinstance(values, list) and len(values) == length
    if not is_list or not all(isinstance(value, str) and value.isprintable() for value in values):
        raise ApiError(400, "invalid", "the marker is not from an earlier answer")
    return tuple(values)
