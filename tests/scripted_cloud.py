"""A Heat and a Keystone on loopback with scripted answers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.servers import serving

Answer = tuple[int, object, dict[str, str]]


@dataclass
class Cloud:
    """The scripted answers, by method and path. Any other request gets 404. `requests` have their tokens beside
    them."""

    url: str
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def give(self, request: str, body: object, status: int = 200, **headers: str) -> None:
        """Set the answer to a request."""
        self.answers[request] = status, body, {name.replace("_", "-"): value for name, value in headers.items()}

    def keystone(self) -> None:
        """Script a token for a password and a catalog with Heat."""
        version = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": f"{self.url}/v3/"}]}
        self.give("GET /v3", {"version": version})
        endpoint = {"interface": "public", "region_id": "r", "region": "r", "id": "e", "url": f"{self.url}/v1/p"}
        catalog = [{"type": "orchestration", "name": "heat", "id": "s", "endpoints": [endpoint]}]
        dates = {"expires_at": "2999-01-01T00:00:00.000000Z", "issued_at": "2027-01-01T00:00:00.000000Z"}
        token = {"methods": ["password"], "user": {"id": "u", "name": "u"}, "catalog": catalog, **dates}
        self.give("POST /v3/auth/tokens", {"token": token}, 201, X_Subject_Token="t-1")


@contextmanager
def running() -> Iterator[Cloud]:
    """Run a cloud for the time of the context."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if sent := self.rfile.read(int(self.headers.get("Content-Length") or 0)):
                cloud.bodies.append(sent)
            request = f"{self.command} {self.path}"
            cloud.requests.append((request, self.headers.get("X-Auth-Token")))
            status, body, headers = cloud.answers.get(request, (404, {"error": {"message": "not here"}}, {}))
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in ({"Content-Type": "application/json"} | headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    cloud = Cloud(f"http://127.0.0.1:{server.server_port}")
    with serving(server):
        yield cloud


@contextmanager
def with_keystone(monkeypatch: pytest.MonkeyPatch, password: str = "s") -> Iterator[Cloud]:
    """Run a cloud, with a user's credentials for it in the environment."""
    clear_credentials(monkeypatch)
    with running() as cloud:
        cloud.keystone()
        credentials = {"USERNAME": "u", "PASSWORD": password, "PROJECT_NAME": "p"}
        domains = {"USER_DOMAIN_NAME": "d", "PROJECT_DOMAIN_NAME": "d"}
        for name, value in ({"AUTH_URL": f"{cloud.url}/v3"} | credentials | domains).items():
            monkeypatch.setenv(f"OS_{name}", value)
        yield cloud


@contextmanager
def without_keystone(monkeypatch: pytest.MonkeyPatch, project: str) -> Iterator[Cloud]:
    """Run a cloud without Keystone, with its address and project in the environment."""
    clear_credentials(monkeypatch)
    with running() as cloud:
        monkeypatch.setenv("OS_AUTH_TYPE", "none")
        monkeypatch.setenv("OS_ENDPOINT", f"{cloud.url}/v1/{project}")
        yield cloud


def clear_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the credentials for OpenStack from the environment."""
    for name in [variable for variable in os.environ if variable.startswith("OS_")]:
        monkeypatch.delenv(name)
