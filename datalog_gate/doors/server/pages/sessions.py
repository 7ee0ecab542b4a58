"""Browser sessions: their cookies, files and keys of forms.

The cookie is random. The server keeps a file with its hash as the name, and with the token, encrypted by the cookie as
a one-time pad: neither of both without the other gives the token. Signing out removes the file.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import falcon

from datalog_gate.doors.server.access import WSGI, Environ
from datalog_gate.doors.server.pages.api_client import ApiClient, RefusedRequestError

COOKIE = "datalog_gate_session"
SIGN_IN = "/pages/sign-in"
OPEN = (SIGN_IN, "/pages/style.css")
"""The paths that need no session."""
MOST = 2900
"""The maximum length of a token: the cookie is a third longer, and browsers keep 4,096 bytes."""
SECONDS = 8 * 3600
"""How long a session lasts, if its token does."""


class SessionFiles:
    """The sessions of a host, in a folder that only the server reads. Errors of all methods: OSError."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock

    def start(self, token: str) -> str:
        """Start a session, remove those that have ended, and return the value of the cookie."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for path in self._folder.iterdir():
            if self._has_ended(path):
                path.unlink(missing_ok=True)
        pad = secrets.token_bytes(max(32, len(token)))
        cookie = urlsafe_b64encode(pad).decode().rstrip("=")
        path = self._find_path(cookie)
        path.touch(mode=0o600)
        path.write_bytes(_combine(token.encode(), pad))
        os.utime(path, (self._clock(), self._clock()))
        return cookie

    def find_token(self, cookie: str) -> str:
        """The token of a session; empty if there is none, or it has ended."""
        path = self._find_path(cookie)
        if not cookie or self._has_ended(path):
            return ""
        return _combine(path.read_bytes(), urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))).decode()

    def end(self, cookie: str) -> None:
        """End a session."""
        self._find_path(cookie).unlink(missing_ok=True)

    def _find_path(self, cookie: str) -> Path:
        return self._folder / hashlib.sha256(cookie.encode("latin-1", "replace")).hexdigest()

    def _has_ended(self, path: Path) -> bool:
        try:
            return path.stat().st_mtime + SECONDS < self._clock()
        except FileNotFoundError:
            return True


def _combine(text: bytes, pad: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(text, pad, strict=False))


class PageSessions:
    """Takes the token of a request from the cookie, and redirects to the sign-in if there is none."""

    def __init__(self, application: WSGI, authenticated: WSGI, files: SessionFiles) -> None:
        """Requests to open pages go directly to `application`, others through `authenticated`."""
        self._application, self._authenticated, self._files = application, authenticated, files

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "").rstrip("/")
        if path != "/pages" and not path.startswith("/pages/"):
            return self._authenticated(environ, start_response)
        environ |= {"datalog_gate.sign_in": self.is_valid, "datalog_gate.sessions": self._files}
        if path in OPEN:
            environ.pop("HTTP_X_IDENTITY_STATUS", None)
            return self._application(environ, start_response)
        cookie = falcon.Request(environ).cookies.get(COOKIE, "")
        if token := self._files.find_token(cookie):
            environ["HTTP_X_AUTH_TOKEN"] = token
        environ["datalog_gate.form_key"] = form_key(cookie if token else environ.get("HTTP_X_AUTH_TOKEN", ""))
        refused: list[str] = []

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            if status.startswith("401"):
                refused.append(status)
                return lambda _: None
            return start_response(status, headers, *more)

        body = self._authenticated(environ, start)
        if not refused:
            return body
        requested = environ.get("PATH_INFO", "") + (f"?{query}" if (query := environ.get("QUERY_STRING")) else "")
        wanted = quote(requested, safe="") if environ["REQUEST_METHOD"] == "GET" else ""
        start_response(
            "303 See Other",
            [("Location", f"{SIGN_IN}?next={wanted}"), ("Content-Type", "text/plain"), ("Content-Length", "0")],
        )
        return [b""]

    def is_valid(self, environ: Environ, token: str) -> bool:
        """Whether the token identifies somebody, with any permissions."""
        request = {name: value for name, value in environ.items() if name.startswith(("wsgi.", "SERVER_"))}
        try:
            ApiClient(self._authenticated, {**request, "HTTP_X_AUTH_TOKEN": token}).get("/v2/policies", limit=1)
        except RefusedRequestError as error:
            return error.status not in (401, 503)
        return True


def form_key(secret: str) -> str:
    """The key in forms, which nobody can compute without the cookie, or the token of a request without one."""
    return hmac.new(secret.encode("latin-1", "replace"), b"datalog-gate form", "sha256").hexdigest()
