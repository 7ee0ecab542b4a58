"""The body of a request (layer 6): bounded, and read as Heat reads it, or refused.

In: the WSGI environ. Out: the bytes, which are those that Heat gets afterwards, and their JSON object. What can't be
read in one way only is an InputError. Heat knows no Content-Encoding: what is packed is no JSON, to both.
"""

from __future__ import annotations

import io
import json
import re
from typing import Any

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import InputError
from datalog_gate.doors.wsgi.routes import Environ


def wrong(message: str, code: str = "unreadable", suggestion: str | None = None) -> InputError:
    """The error that says that of a request."""
    return InputError([Diagnostic(code, message, None, suggestion)])


def read_body(environ: Environ, limit: int) -> bytes:
    """The whole body, which the environ holds again afterwards. A missing length is that of a chunked body, which the
    server ends. Errors: InputError, after which the request must not go on."""
    length = environ.get("CONTENT_LENGTH") or ""
    if length and not re.fullmatch("[0-9]{1,15}", length):
        raise wrong("the Content-Length is no number")
    if not length and not environ.get("wsgi.input_terminated"):
        raise wrong("the request has no Content-Length")
    wanted = min(int(length), limit + 1) if length else limit + 1
    body = b""
    while len(body) < wanted:
        part = environ["wsgi.input"].read(wanted - len(body))
        if not part:
            break
        body += part
    if len(body) > limit:
        raise wrong(f"the body is larger than the {limit} bytes that can be judged", "too-large")
    if length and len(body) != int(length):
        raise wrong("the body is shorter than its Content-Length")
    put_body(environ, body)
    return body


def put_body(environ: Environ, body: bytes) -> None:
    """Makes the body that of the request."""
    environ["wsgi.input"] = io.BytesIO(body)
    environ["CONTENT_LENGTH"] = str(len(body))
    environ.pop("HTTP_TRANSFER_ENCODING", None)


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object. Errors: InputError."""
    try:
        data = json.loads(body.decode(), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise wrong(f"the body is not JSON that can be judged: {error}") from None
    if not isinstance(data, dict):
        raise wrong("the body is no JSON object")
    return data


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a key is there twice")
    return data
