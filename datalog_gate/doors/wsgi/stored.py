"""A reader of stored stacks, through the wrapped application.

It reads with the caller's credentials, so Heat's access rules apply. A refusal by Heat is a `HeatAnswerError`, which
becomes the answer to the caller. Other errors are InputError.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass
from datalog_gate.doors.wsgi.fault import Response
from datalog_gate.doors.wsgi.routes import Environ

StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

_NOT_INNER = ("wsgiorg.", "routes.", "HTTP_IF_", "HTTP_RANGE", "HTTP_TRANSFER_ENCODING")
"""Prefixes of environ names that are not copied to an inner request."""


class HeatAnswerError(Exception):
    """Heat answered with a response, or with an exception that an outer filter converts to a fault."""

    def __init__(self, answer: Response | Exception) -> None:
        super().__init__(str(answer))
        self.answer = answer


@dataclass(frozen=True, slots=True)
class StoredStack:
    """The stored template, environment by sections, files and tags of a stack."""

    template: Mapping[str, Any]
    environment: Mapping[str, Any]
    files: Mapping[str, str]
    tags: tuple[str, ...] = ()


def read_stored_stack(application: Application, environ: Environ, path: str) -> StoredStack:
    """Read the stack under that path."""
    parts = ("template", "environment", "files")
    template, environment, files = (_object(_get(application, environ, f"{path}/{part}")) for part in parts)
    stack = _object(_object(_get(application, environ, path, "resolve_outputs=False")).get("stack"))
    return StoredStack(template, environment, files, tuple(map(str, stack.get("tags") or ())))


def read_snapshot(application: Application, environ: Environ, path: str, snapshot_id: str) -> StoredStack:
    """Read a snapshot of the stack, in which no value is masked. Heat restores a stack without tags."""
    answer = _object(_get(application, environ, f"{path}/snapshots/{snapshot_id}"))
    data = _object(_object(answer.get("snapshot")).get("data"))
    template, environment, files = (_object(data.get(part)) for part in ("template", "environment", "files"))
    return StoredStack(template, environment, files)


def _get(application: Application, environ: Environ, path: str, query: str = "") -> object:
    inner = {name: value for name, value in environ.items() if not name.startswith(_NOT_INNER)}
    inner |= {"REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": query, "HTTP_ACCEPT": "application/json",
              "CONTENT_LENGTH": "0", "CONTENT_TYPE": "", "wsgi.input": io.BytesIO()}  # fmt: skip
    inner["webob.adhoc_attrs"] = dict(environ.get("webob.adhoc_attrs", {}))
    try:
        response = call_application(application, inner)
    except Exception as error:
        raise HeatAnswerError(error) from error
    if response.status[:3] != "200":
        raise HeatAnswerError(response)
    try:
        return json.loads(response.body)
    except ValueError:
        raise InputError.of(f"Heat's answer for {path} is not JSON") from None


def call_application(application: Application, environ: Environ) -> Response:
    """Call the application and return a complete response. An exception becomes Heat's answer too."""
    started: list[tuple[str, list[tuple[str, str]]]] = []
    parts: list[bytes] = []

    def start(status: str, headers: list[tuple[str, str]], *_: object) -> Callable[[bytes], None]:
        started[:] = [(status, headers)]
        return parts.append

    result = application(environ, start)
    try:
        parts += result
    finally:
        if close := getattr(result, "close", None):
            close()
    [(status, headers)] = started
    return Response(status, headers, b"".join(parts))


def _object(data: object) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise InputError.of("Heat has no complete definition of the stack")
    return data
