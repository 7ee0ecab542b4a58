"""A licence server on loopback with scripted answers."""

from __future__ import annotations

import gzip
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event

from tests.servers import serving

Answer = Callable[["Handler"], None]
PATIENCE = 3.0
"""Seconds after which a server that keeps its client waiting allows everything: who waits so long is found out."""


@dataclass(slots=True)
class Server:
    """Where it listens, what it will answer in turn, and then allow, and the requests so far: path, key, Authorization
    and Cookie where sent, and the data."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    requests: list[tuple[str, str, str | None, str | None, object]] = field(default_factory=list)
    stop: Event = field(default_factory=Event)

    @property
    def keys(self) -> list[str]:
        """The idempotency keys in order of arrival."""
        return [key for _, key, *_ in self.requests]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    at: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        of = self.headers
        self.at.requests.append((self.path, of["Idempotency-Key"], of["Authorization"], of["Cookie"], body))
        (self.at.answers.pop(0) if self.at.answers else allow)(self)

    do_GET = do_POST  # noqa: N815 - http.server names it

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def says(body: bytes, status: int = 200, **headers: str) -> Answer:
    def answer(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


allow = says(b'{"allowed": true}')


def refuse(reason: str) -> Answer:
    return says(json.dumps({"allowed": False, "reason": reason}).encode())


def allow_packed(handler: Handler) -> None:
    """Answer with a compressed body if the client accepts one."""
    if "gzip" in handler.headers.get("Accept-Encoding", ""):
        says(gzip.compress(b'{"allowed": true}'), Content_Encoding="gzip")(handler)
    else:
        allow(handler)


def hang(handler: Handler) -> None:
    handler.at.stop.wait(PATIENCE)
    allow(handler)


def drip(handler: Handler) -> None:
    """Send a header letter by letter; no single read takes long."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(int(PATIENCE / 0.05)):
        if handler.at.stop.wait(0.05):
            break
        handler.wfile.write(b"x")
    handler.wfile.write(b'\r\nContent-Length: 17\r\n\r\n{"allowed": true}')


def slam(handler: Handler) -> None:
    """Close the connection before an answer."""
    handler.close_connection = True


def break_off(handler: Handler) -> None:
    """Close the connection in the middle of an answer."""
    handler.close_connection = True
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{"allowed": tr')


@contextmanager
def licence_server(certificate: Path | None = None, clients: Path | None = None) -> Iterator[Server]:
    """Run a server. With a certificate and key it uses TLS and requires a client certificate."""
    server = Server()
    handler = type("OfThisServer", (Handler,), {"at": server})
    listening = Quiet(("127.0.0.1", 0), handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        if clients:
            context.load_verify_locations(clients)
            context.verify_mode = ssl.CERT_REQUIRED
        listening.socket = context.wrap_socket(listening.socket, server_side=True)
    server.url = f"http{'s' if certificate else ''}://127.0.0.1:{listening.server_port}/licences"
    with serving(listening):
        yield server
        server.stop.set()


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Ignore clients that disconnect: the tests do that on purpose."""

    def shutdown_request(self, request: object) -> None:
        with suppress(OSError):
            super().shutdown_request(request)  # type: ignore[arg-type]
