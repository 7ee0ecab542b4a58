"""Requests of a page to the API of the same process."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlencode

from datalog_gate.doors.server.access import WSGI, Environ

OWN = ("PATH_INFO", "QUERY_STRING", "REQUEST_METHOD", "CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_IDEMPOTENCY_KEY")
"""The parts of a request to a page that are not passed on to the API."""


class RefusedRequestError(Exception):
    """The API refused a request: the status, and the first error."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(error.get("detail", ""))
        self.status, self.error = status, error


class ApiClient:
    """Calls an application behind its authentication, since the caller is already known."""

    def __init__(self, application: WSGI, environ: Environ) -> None:
        self._application = application
        self._environ = {name: value for name, value in environ.items() if name not in OWN}

    def get(self, path: str, **query: object) -> Any:
        """The answer of a path. Errors: RefusedRequestError."""
        given = {name: value for name, value in query.items() if value not in (None, "")}
        return self.ask("GET", path, urlencode(given))

    def ask(self, method: str, path: str, query: str = "", body: object = None) -> Any:
        """The answer to a request. Errors: RefusedRequestError."""
        content = b"" if body is None else json.dumps(body).encode()
        environ = self._environ | {
            "REQUEST_METHOD": method,
            "PATH_INFO": unquote(path),
            "QUERY_STRING": query,
            "CONTENT_LENGTH": str(len(content)),
            "CONTENT_TYPE": "application/json",
            "wsgi.input": io.BytesIO(content),
        }
        answered: list[str] = []
        text = b"".join(self._application(environ, lambda status, *_: answered.append(status)))
        status, data = int(answered[0][:3]), json.loads(text or b"null")
        if status >= 400:
            raise RefusedRequestError(status, data["errors"][0])
        return data
