"""What Heat holds of a stack (layer 6), read through the wrapped application as the user who asks.

In: the request that is judged, with its context. Out: the stored definition, a snapshot's, or the tags. So Heat's own
rules of access hold: what it refuses is its answer to the user, an `AnsweredError`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from datalog_gate.doors.wsgi.body import wrong
from datalog_gate.doors.wsgi.fault import Response
from datalog_gate.doors.wsgi.routes import Environ

StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

_NOT_INNER = ("wsgiorg.", "routes.", "HTTP_IF_", "HTTP_RANGE", "HTTP_TRANSFER_ENCODING")
"""What of a request is not that of another one in its context, by how the name begins."""


class AnsweredError(Exception):
    """Heat answered for itself: by a response, or by an exception that a filter around this one makes a fault of."""

    def __init__(self, answer: Response | Exception) -> None:
        super().__init__(str(answer))
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Stored:
    """A stack's template, environment by sections, and files."""

    template: Mapping[str, Any]
    environment: Mapping[str, Any]
    files: Mapping[str, str]

    def section(self, name: str) -> Mapping[str, Any]:
        """A section of the environment."""
        section = self.environment.get(name) or {}
        if not isinstance(section, dict):
            raise wrong(f"the section {name} of the stored environment is no map", "bad-environment")
        return section


def stored(application: Application, environ: Environ, path: str) -> Stored:
    """The definition of the stack under that path. Errors: AnsweredError, InputError."""
    template, environment, files = (
        _object(ask(application, environ, f"{path}/{part}")) for part in ("template", "environment", "files")
    )
    return Stored(template, environment, files)


def snapshot(application: Application, environ: Environ, path: str, snapshot_id: str) -> Stored:
    """The definition that a snapshot of the stack holds, nothing in it masked. Errors: AnsweredError, InputError."""
    answer = _object(ask(application, environ, f"{path}/snapshots/{snapshot_id}"))
    data = _object(_object(answer.get("snapshot")).get("data"))
    return Stored(*(_object(data.get(part)) for part in ("template", "environment", "files")))


def tags(application: Application, environ: Environ, path: str) -> list[str]:
    """The tags of the stack. Errors: AnsweredError, InputError."""
    stack = _object(_object(ask(application, environ, path, "resolve_outputs=False")).get("stack"))
    return [str(one) for one in stack.get("tags") or ()]


def ask(application: Application, environ: Environ, path: str, query: str = "") -> object:
    """The data that Heat gives for that path to whoever sent the request. Errors: AnsweredError."""
    inner = {name: value for name, value in environ.items() if not name.startswith(_NOT_INNER)}
    inner |= {"REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": query, "HTTP_ACCEPT": "application/json",
              "CONTENT_LENGTH": "0", "CONTENT_TYPE": "", "wsgi.input": io.BytesIO()}  # fmt: skip
    inner["webob.adhoc_attrs"] = dict(environ.get("webob.adhoc_attrs", {}))
    try:
        response = call(application, inner)
    except Exception as error:
        raise AnsweredError(error) from error
    if response.status[:3] != "200":
        raise AnsweredError(response)
    try:
        return json.loads(response.body)
    except ValueError:
        raise wrong(f"Heat gave no JSON for {path}") from None


def call(application: Application, environ: Environ) -> Response:
    """The application's whole answer. What it raises is Heat's answer, too."""
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
        raise wrong("Heat holds no whole definition to judge by")
    return data
