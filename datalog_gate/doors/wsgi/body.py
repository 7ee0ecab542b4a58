"""A reader of request bodies, as Heat reads them.

A body that can be read in more than one way is an InputError. Heat ignores Content-Encoding, so a compressed body is
not JSON.
"""

from __future__ import annotations

import io
import json
import re
from typing import Any

from datalog_gate.base.errors import InputError
from datalog_gate.doors.wsgi.routes import Environ
from datalog_gate.template.document import read_integer


def read_body(environ: Environ, limit: int) -> bytes:
    """Read the whole body, and put it back into the environ. Errors: InputError; then the request must not go on."""
    length = environ.get("CONTENT_LENGTH") or ""
    if length and not re.fullmatch("[0-9]{1,15}", length):
        raise InputError.of("the Content-Length is no number")
    if not length and not environ.get("wsgi.input_terminated"):
        raise InputError.of("the request has no Content-Length")
    size = min(int(length), limit + 1) if length else limit + 1
    body = b""
    while len(body) < size:
        part = environ["wsgi.input"].read(size - len(body))
        if not part:
            break
        body += part
    if len(body) > limit:
        raise InputError.of(f"the body is larger than the {limit} bytes that can be judged", "too-large")
    if length and len(body) != int(length):
        raise InputError.of("the body is shorter than its Content-Length")
    put_body(environ, body)
    return body


def put_body(environ: Environ, body: bytes) -> None:
    """Replace the body of the request."""
    environ["wsgi.input"] = io.BytesIO(body)
    environ["CONTENT_LENGTH"] = str(len(body))
    environ.pop("HTTP_TRANSFER_ENCODING", None)


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object without duplicate keys. Errors: InputError."""
    try:
        data = json.loads(body.decode(), object_pairs_hook=_without_duplicates, parse_int=read_integer)
    except (ValueError, RecursionError) as error:
        raise InputError.of(f"the body is not JSON that can be judged: {error}") from None
    if not isinstance(data, dict):
        raise InputError.of("the body is no JSON object")
    return data


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a key is there twice")
    return data
