"""An event loop reads requests; only a whole one takes a thread.

waitress reads and answers, and gunicorn's master starts, replaces and ends the processes. Added here are the time in
which a request must arrive, further limits, refusals in the server's format, and the end of a process.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import socket
import time
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from gunicorn.workers.base import Worker
from waitress import create_server, wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.task import ErrorTask

from datalog_gate.base.records import dataclass
from datalog_gate.doors.server.application import format_error
from datalog_gate.doors.server.endpoint import ApiError

LOG = logging.getLogger(__name__)
KEEP = 5.0
"""Seconds for which a connection without a request stays open."""
MOST_CONNECTIONS = 4000
"""The maximum number of connections of a process. More wait in the queue of the system."""
MOST_LINE = 8190
"""The maximum length of the first line of a request, in bytes."""
MOST_HEAD = 16 * 1024
"""The maximum length of a head, in bytes."""
IN_MEMORY = 64 * 1024
"""The size from which an unfinished body is kept in a file."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How many requests a process answers at once, and the size in bytes and the seconds in which one must arrive."""

    threads: int
    body: int
    seconds: float


class HttpWorker(Worker):  # type: ignore[misc]
    """A process of the server. `limits` are set before the first one starts."""

    limits = RequestLimits(1, 0, 0.0)

    def run(self) -> None:
        """Answer until a signal, and then until all requests that have arrived are answered."""
        server = _create_server(self.wsgi, self.sockets[0].sock, self.limits)
        while self.alive and self.ppid == os.getppid():
            self._turn(server)
        _accept_waiting(server)
        server.accepting = False
        while _end_idle(server):
            self._turn(server)

    def _turn(self, server: Any) -> None:
        self.notify()
        wasyncore.loop(timeout=1.0, use_poll=True, map=server._map, count=1)
        now = time.monotonic()
        if now >= getattr(self, "_next_check", 0.0):  # once a second
            self._next_check = now + 1.0
            for channel in tuple(server.active_channels.values()):
                channel.end_if_slow(now, self.limits.seconds)


def _create_server(application: Any, line: Any, limits: RequestLimits) -> Any:
    """The server of waitress on a listening socket."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    server = create_server(
        application,
        sockets=[line],
        threads=limits.threads,
        connection_limit=min(MOST_CONNECTIONS, most // 3) if most > 0 else MOST_CONNECTIONS,
        max_request_header_size=MOST_HEAD,
        max_request_body_size=limits.body + 1,
        inbuf_overflow=IN_MEMORY,
        log_socket_errors=False,
        clear_untrusted_proxy_headers=False,
        ident=None,
    )
    server.channel_class = _Channel
    return server


def _accept_waiting(server: Any) -> None:
    """Accept what waits in the queue of the system, which may have no other process."""
    accepted = -1
    while accepted < len(server.active_channels):
        accepted = len(server.active_channels)
        server.handle_accept()


def _end_idle(server: Any) -> bool:
    """Close connections on which no request is arriving or unanswered. Return whether others are left."""
    for channel in server.active_channels.values():
        for request in tuple(channel.requests):
            request.headers["CONNECTION"] = "close"
        channel.will_close = channel.will_close or channel.is_idle()
    return bool(server.active_channels)


class _Parser(HTTPRequestParser):  # type: ignore[misc]
    """Refuses long first lines, and bodies whose length is given twice."""

    def parse_header(self, header_plus: bytes) -> None:
        super().parse_header(header_plus)
        if len(self.first_line) > MOST_LINE:
            self.refuse(ApiError(414, "malformed_request", f"the first line has more than {MOST_LINE} bytes"))
        elif "TRANSFER_ENCODING" in self.headers or (self.chunked and "CONTENT_LENGTH" in self.headers):
            self.refuse(ApiError(400, "malformed_request", "the length of the body is given in two ways"))

    def refuse(self, refusal: ApiError) -> None:
        self.error, self.completed = refusal, True


class _Refusal(ErrorTask):  # type: ignore[misc]
    """The answer to what is no request, in the server's format. Its text may hold a token, and is not logged."""

    def execute(self) -> None:
        refusal, identity = _explain(self.request), f"req-{uuid4()}"
        LOG.warning(
            "%s: a request of %s is refused: %s %s", identity, self.channel.addr[0], refusal.status, refusal.message
        )
        body = json.dumps(format_error(refusal, identity)).encode()
        self.status = f"{refusal.status} {HTTPStatus(refusal.status).phrase}"
        self.response_headers += [("Content-Type", "application/json"), ("X-Openstack-Request-Id", identity)]
        self.set_close_on_finish()
        self.content_length = len(body)
        self.write(body)


def _explain(request: Any) -> ApiError:
    """The refusal of a request that waitress, or this module, did not read."""
    error = request.error
    if isinstance(error, ApiError):
        return error
    match error.code:
        case 413:
            most = request.adj.max_request_body_size - 1
            return ApiError(413, "body_too_large", f"the body has more than {most} bytes")
        case 500:
            return ApiError(500, "failure", "the server failed")
        case 400 if request.headers_finished and request.body_rcv is not None:
            return ApiError(400, "malformed_body", "the chunks of the body can't be read")
        case status:
            return ApiError(status, "malformed_request", "this can't be read as HTTP")


class _Channel(HTTPChannel):  # type: ignore[misc]
    """A connection that knows since when it waits for a head or a body."""

    parser_class, error_task_class = _Parser, _Refusal
    request: Any
    will_close: bool

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._since, self._answered = time.monotonic(), False

    def received(self, data: bytes) -> bool:
        before = self._awaited()
        read: bool = super().received(data)
        if self._awaited() != before:
            self._since = time.monotonic()
        return read

    def service(self) -> None:
        super().service()
        self._since, self._answered = time.monotonic(), True

    def _awaited(self) -> tuple[int, bool]:
        """The request that is arriving, and whether its head has arrived."""
        return (id(self.request), self.request.headers_finished) if self.request else (0, False)

    def handle_close(self) -> None:
        """Read what has arrived: closing before that would take back the answer."""
        if self.socket is None:
            return  # writing closed it, and the same event tells that its other end is closed
        with suppress(OSError):
            for _ in range(16):
                if not self.socket.recv(IN_MEMORY, socket.MSG_DONTWAIT):
                    break
        super().handle_close()

    def is_idle(self) -> bool:
        """Whether nothing is arriving, at work or to be sent after the first answer."""
        return bool(self._answered and not (self.request or self.requests or self.total_outbufs_len))

    def end_if_slow(self, now: float, seconds: float) -> None:
        """Refuse a request that does not arrive in time, and close a connection without one."""
        request, waited = self.request, now - self._since
        if self.requests or self.total_outbufs_len:
            return
        if request is None:
            self.will_close = self.will_close or waited > KEEP
        elif waited > seconds:
            part, code = ("body", "slow_body") if request.headers_finished else ("head of the request", "slow_request")
            with self.requests_lock:
                request.refuse(ApiError(408, code, f"the {part} did not arrive in {seconds:g} seconds"))
                self.request = None
                self.requests.append(request)
                self.server.add_task(self)
