"""Runs the server: its configuration, its token, its log, and gunicorn.

The master process loads everything and forks the workers, so that errors are reported once, and memory is shared. TERM
and INT let requests finish, HUP replaces the workers, and a worker that dies is replaced. TLS is left to a proxy.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import sys
import time
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

from gunicorn import glogging
from gunicorn.app.base import BaseApplication
from gunicorn.http.errors import LimitRequestHeaders, LimitRequestLine, ParseException
from gunicorn.workers.gthread import ThreadWorker
from oslo_config import cfg
from oslo_log import log

from datalog_gate.base.errors import InputError
from datalog_gate.doors.server.access import WSGI
from datalog_gate.doors.server.application import create_app, format_error, trust_keystone, trust_token
from datalog_gate.doors.server.endpoint import ApiError
from datalog_gate.doors.server.policy_server import create_server
from datalog_gate.doors.server.server_options import GROUP, find_folder, register
from datalog_gate.files.templates import unreadable
from datalog_gate.store.transaction import StoreError

LOG = logging.getLogger(__name__)
LOOPBACK = ("127.0.0.1", "::1", "localhost")
QUIET = ("keystonemiddleware=WARNING", "keystoneauth=WARNING", "urllib3=WARNING", "oslo_policy=WARNING")
"""The log levels of libraries: the first two would log headers."""


def serve(config: Path | None, host: str, port: int) -> int:
    """Serve until a signal ends it. Errors: InputError, RulesError."""
    conf = read_config(config)
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:  # gunicorn would retry for five seconds, and exit with the code of a denial
        raise InputError.of(f"the server can't listen at {host}, port {port}: {error.strerror}") from None
    start_log(conf)
    options = conf[GROUP]
    try:
        token = read_token(find_folder(options)) if options.auth == "token" else ""
        server = create_server(conf)
        server.records.store.create()
        application = create_app(conf, server, trust_token(token) if token else trust_keystone(conf))
    except (StoreError, ValueError) as error:
        raise InputError.of(f"{config or 'the server'}: {error}") from None
    if token and host not in LOOPBACK:
        LOG.warning("%s is not a loopback address, and the token goes over it in the clear: set auth = keystone", host)
    LOG.info("the policy server answers on http://%s:%s", f"[{host}]" if ":" in host else host, port)
    _Server(application, _configure(options, host, port)).run()
    return 0


def read_config(path: Path | None) -> Any:
    """Read the configuration. Errors: InputError."""
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    log.set_defaults(default_log_levels=[*log.get_default_log_levels(), *QUIET])
    register(conf)
    try:
        conf([], project="datalog_gate", default_config_files=[str(path)] if path else [], default_config_dirs=[])
        dict(conf[GROUP])  # reads all options, so that errors are reported now
    except cfg.ConfigFileParseError as error:
        problem: Any = error.__context__  # its own text quotes the line, which may hold a password
        raise InputError.of(f"{path} can't be read: {problem.msg} in line {problem.lineno}") from None
    except cfg.Error as error:
        raise InputError.of(f"{path} can't be read: {' '.join(str(error).split())}") from None
    except (OSError, ValueError) as error:
        raise unreadable(path or Path("."), error) from None
    return conf


def start_log(conf: Any) -> None:
    """Log to stderr, or as [DEFAULT] says. With a configuration, records are JSON by default."""
    conf.set_default("use_json", bool(conf.config_file))
    conf.set_default("use_stderr", not (conf.log_file or conf.log_dir or conf.use_syslog or conf.use_journal))
    log.setup(conf, "datalog_gate")


def read_token(folder: Path) -> str:
    """Read the token, or create and print one. Errors: InputError."""
    path = folder / "token"
    try:
        if path.exists():
            if path.stat().st_mode & 0o077:
                raise InputError.of(f"others can read {path}", suggestion="remove it: a new token is made")
            if token := path.read_text("ascii").strip():
                return token
        token = secrets.token_urlsafe(32)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(f"{token}\n")
    except (OSError, UnicodeError) as error:
        raise unreadable(path, error) from None
    print(f"token: {token}", flush=True)
    return token


def _configure(options: Any, host: str, port: int) -> dict[str, object]:
    """The settings of gunicorn."""
    _HttpWorker.patience = options.body_seconds
    return {
        "bind": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        "workers": options.workers,
        "threads": options.threads,
        "worker_class": _HttpWorker,
        "graceful_timeout": options.stop_seconds,
        "timeout": 120,
        "keepalive": 5,
        "limit_request_line": 8190,
        "limit_request_fields": 100,
        "proc_name": "datalog-gate",
        "logger_class": _Logger,
        "control_socket_disable": True,
    }


class _HttpWorker(ThreadWorker):  # type: ignore[misc, unused-ignore]
    """Refuses requests that are not HTTP, and slow ones, in the server's format. It does not log their text, which may
    contain a token."""

    patience = 10.0
    """Seconds in which the head of a request must arrive."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._heads: dict[Any, float] = {}

    def handle(self, conn: Any) -> Any:
        self._heads[conn] = time.monotonic() + self.patience
        try:
            return super().handle(conn)
        finally:
            self._heads.pop(conn, None)

    def handle_request(self, request: Any, conn: Any) -> Any:
        self._heads.pop(conn, None)
        return super().handle_request(request, conn)

    def notify(self) -> None:
        """Called by the main thread every second: close connections whose head does not arrive, since each holds a
        thread."""
        super().notify()
        for conn, end in tuple(self._heads.items()):
            if conn.initialized and end < time.monotonic() and self._heads.pop(conn, None):
                message = f"the head of the request did not arrive in {self.patience:g} seconds"
                _refuse(conn.sock, conn.client, ApiError(408, "slow_request", message), "no end")
                with suppress(OSError):
                    conn.sock.shutdown(socket.SHUT_RD)

    def handle_error(self, _request: Any, client: Any, address: Any, error: BaseException) -> None:
        status = 400 if isinstance(error, ParseException) else 500
        for kind, other in ((LimitRequestLine, 414), (LimitRequestHeaders, 431)):
            status = other if isinstance(error, kind) else status
        refusal = ApiError(status, "malformed_request", "this can't be read as HTTP")
        if status == 500:
            refusal = ApiError(status, "failure", f"the server failed ({type(error).__name__})")
        _refuse(client, address, refusal, type(error).__name__)


def _refuse(client: Any, address: Any, refusal: ApiError, problem: str) -> None:
    """Answer and log a refusal before there is a request. Never waits for the client."""
    where, status, identity = address[0] if address else "a socket", refusal.status, f"req-{uuid4()}"
    record = ("%s: a request of %s is refused: %s (%s)", identity, where, status, problem)
    thread = Thread(target=LOG.warning, args=record)  # oslo.log would add the text of the error to the record
    thread.start()
    thread.join()
    body = json.dumps(format_error("", refusal, identity)).encode()
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nConnection: close\r\nContent-Type: application/json\r\n"
    head += f"X-Openstack-Request-Id: {identity}\r\nContent-Length: {len(body)}\r\n\r\n"
    with suppress(OSError):
        client.send(head.encode() + body, socket.MSG_DONTWAIT)


class _Logger(glogging.Logger):  # type: ignore[misc]
    """Passes gunicorn's messages to the service's log."""

    def setup(self, _settings: Any) -> None:
        self.error_log.propagate, self.access_log.disabled = True, True


class _Server(BaseApplication):  # type: ignore[misc]
    def __init__(self, application: WSGI, settings: dict[str, object]) -> None:
        self._wsgi, self._settings = application, settings
        super().__init__(prog=f"{Path(sys.argv[0]).name} serve")

    def load_config(self) -> None:
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> WSGI:
        return self._wsgi
