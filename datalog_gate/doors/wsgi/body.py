"""A reader of request bodies, as Heat reads them.

An ambiguous body is an InputError. Heat ignores Content-Encoding, so a compressed body is not JSON.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

from datalog_gate.base.errors import InputError
from datalog_gate.doors.wsgi.routes import Environ
from datalog_gate.template.document import read_integer

DRAINED = 16
"""How many times the limit is read from a body that is too large, and discarded, before the answer."""
PART = 1024 * 1024


def read_body(environ: Environ, limit: int) -> bytes:
    """Read the whole body, and put it back into the environ. Errors: InputError; then the request must not be
    forwarded."""
    length = environ.get("CONTENT_LENGTH") or ""
    if length and not re.fullmatch("[0-9]{1,15}", length):
        raise InputError.of("the Content-Length is not a number")
    if not length and not environ.get("wsgi.input_terminated"):
        raise InputError.of("the request has no Content-Length")
    size = min(int(length), limit + 1) if length else limit + 1
    body = b"".join(_read_parts(environ, size))
    if len(body) > limit:
        rest = int(length) - size if length else limit * DRAINED
        for _ in _read_parts(environ, min(rest, limit * DRAINED)):
            pass  # a client that is still sending would see a closed connection instead of the answer
        raise InputError.of(f"the body is larger than the {limit} bytes that can be judged", "too-large")
    if length and len(body) != int(length):
        raise InputError.of("the body is shorter than its Content-Length")
    put_body(environ, body)
    return body


def _read_parts(environ: Environ, size: int) -> Iterator[bytes]:
    """Read at most so many bytes."""
    while size > 0 and (part := environ["wsgi.input"].read(min(size, PART))):
        size -= len(part)
        yield part


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
        raise InputError.of("the body is not a JSON object")
    return data


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("it contains a key twice")
    return data
