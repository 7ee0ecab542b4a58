"""Markers of pages, which clients pass on as they are."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence

from datalog_gate.doors.server.endpoint import ApiError, Schema

LIMIT: Schema = {
    "type": "integer",
    "minimum": 1,
    "maximum": 1000,
    "default": 100,
    "description": "how many at most",
}
MARKER: Schema = {"type": "string", "maxLength": 4000, "description": "`next` of the answer before"}
PAGES = {"limit": LIMIT, "marker": MARKER}


def write_marker(values: Sequence[str]) -> str:
    return urlsafe_b64encode(json.dumps(values).encode()).decode()


def read_marker(text: str | None, length: int) -> tuple[str, ...]:
    """Read the values of a marker; none without one. Errors: ApiError."""
    if text is None:
        return ()
    try:
        values = json.loads(urlsafe_b64decode(text))
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list) or len(values) != length or not all(isinstance(value, str) for value in values):
        raise ApiError(400, "invalid", "the marker is none of an answer")
    if not all(value.isprintable() for value in values):
        raise ApiError(400, "invalid", "the marker is none of an answer")
    return tuple(values)
