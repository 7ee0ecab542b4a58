"""Browser sessions: the cookie, and the keys of forms."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import quote

from datalog_gate.doors.server.access import WSGI, Environ

COOKIE = "datalog_gate_session"
SIGN_IN = "/pages/sign-in"
OPEN = (SIGN_IN, "/pages/style.css")
"""The paths that need no session."""
MOST = 3800
"""The maximum length of a token, which must fit into the cookie."""


class PageSessions:
    """Takes the token of a request from the cookie, and redirects to the sign-in if there is none."""

    def __init__(self, application: WSGI, authenticated: WSGI) -> None:
        """Requests to open pages go directly to `application`, others through `authenticated`."""
        self._application, self._authenticated = application, authenticated

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "").rstrip("/")
        if path != "/pages" and not path.startswith("/pages/"):
            return self._authenticated(environ, start_response)
        environ["datalog_gate.sign_in"] = self.is_valid
        if path in OPEN:
            environ.pop("HTTP_X_IDENTITY_STATUS", None)
            return self._application(environ, start_response)
        token = read_cookie(environ)
        if token:
            environ["HTTP_X_AUTH_TOKEN"] = token
        environ["datalog_gate.form_key"] = form_key(environ.get("HTTP_X_AUTH_TOKEN", ""))
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
        statuses: list[str] = []
        request = {
            **{name: value for name, value in environ.items() if name.startswith(("wsgi.", "SERVER_"))},
            "REQUEST_METHOD": "GET",
            "PATH_INFO": "/v2/policies",
            "QUERY_STRING": "limit=1",
            "HTTP_X_AUTH_TOKEN": token,
        }
        self._authenticated(request, lambda status, *_: statuses.append(status))
        return not statuses[0].startswith(("401", "503"))


def read_cookie(environ: Environ) -> str:
    """The token of the cookie; empty without one."""
    try:
        cookies = SimpleCookie(environ.get("HTTP_COOKIE", ""))
    except CookieError:
        return ""
    return cookies[COOKIE].value if COOKIE in cookies else ""


def make_cookie(token: str, secure: bool) -> str:
    """The header that sets the cookie; an empty token ends the session."""
    parts = [f"{COOKIE}={token}", "Path=/pages", "HttpOnly", "SameSite=Lax", *(["Secure"] if secure else [])]
    return "; ".join([*parts, *([] if token else ["Max-Age=0"])])


def form_key(token: str) -> str:
    """The key in forms, which nobody can compute without the token."""
    return hmac.new(token.encode("latin-1", "replace"), b"datalog-gate form", "sha256").hexdigest()
