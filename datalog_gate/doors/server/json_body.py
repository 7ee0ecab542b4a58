"""Read JSON bodies within limits of depth and number."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from datalog_gate.base.diagnostics import printable, shorten
from datalog_gate.doors.server.endpoint import ApiError

DEPTH = 200
"""The maximum nesting of lists and objects."""
PARTS = 500_000
"""The maximum number of members and items of a body, which takes seconds to check."""
_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


def read_json(environ: dict[str, Any]) -> Any:
    """Read the body of a request as JSON; None if there is none. Errors: ApiError."""
    content = read_body(environ)
    if not content:
        return None
    if encoding := environ.get("HTTP_CONTENT_ENCODING"):
        raise ApiError(415, "media_type", f"the body is encoded as {encoding}", "send it plain")
    kind = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    if kind not in ("application/json", ""):
        raise ApiError(415, "media_type", f"the body is {kind}", "send application/json")
    try:
        text = content.decode("utf-8")
        data = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_read_float, object_pairs_hook=_build_object
        )
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise ApiError(400, "malformed_json", f"the body is not JSON: {error}") from None
    _check_size(data)
    if "\0" in text or _ESCAPE.search(text):
        _check_texts(data)
    return data


def read_body(environ: dict[str, Any]) -> bytes:
    """The bytes of a body, which has arrived."""
    content: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    return content


def _too_deep() -> ApiError:
    return ApiError(400, "json_too_deep", f"the body is nested deeper than {DEPTH} levels")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def _read_float(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text[:100]} is too large")
    return number


def _build_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(members)
    if len(data) < len(members):
        names = [name for name, _ in members]
        name = next(name for name in data if names.count(name) > 1)
        raise ValueError(f"an object contains {shorten(printable(name), 100)} twice")
    return data


def _check_size(data: Any) -> None:
    level, depth, parts = [data], 0, 0
    while level := [part for part in level if isinstance(part, dict | list)]:
        depth, parts = depth + 1, parts + sum(map(len, level))
        if depth > DEPTH:
            raise _too_deep()
        if parts > PARTS:
            raise ApiError(413, "too_many_parts", f"the body has more than {PARTS} members and items")
        level = [value for part in level for value in (part.values() if isinstance(part, dict) else part)]


def _check_texts(data: Any) -> None:
    """Refuse unpaired surrogates and NUL, which databases do not accept."""
    text = json.dumps(data, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ApiError(400, "malformed_text", "a string contains half of a surrogate pair") from None
    if "\\u0000" in text.replace("\\\\", ""):
        raise ApiError(400, "malformed_text", "a string contains the character NUL")
