"""Runs the server: its configuration, its token, its log, and its processes.

The master process of gunicorn loads everything and forks the workers, so that errors are reported once, and memory is
shared. TERM lets requests finish, HUP replaces the workers, and a worker that dies is replaced. TLS is left to a proxy.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import Any

from gunicorn import glogging
from gunicorn.app.base import BaseApplication
from oslo_config import cfg
from oslo_log import log

from datalog_gate.base.errors import InputError
from datalog_gate.doors.server.access import WSGI
from datalog_gate.doors.server.application import create_app, trust_keystone, trust_token
from datalog_gate.doors.server.http_worker import HttpWorker, RequestLimits
from datalog_gate.doors.server.policy_server import create_server
from datalog_gate.doors.server.server_options import GROUP, find_folder, register
from datalog_gate.files.templates import unreadable
from datalog_gate.plugins.plugin_settings import LOOPBACK
from datalog_gate.store.transaction import StoreError

LOG = logging.getLogger(__name__)
QUIET = (
    "keystonemiddleware=WARNING",
    "keystoneauth=WARNING",
    "urllib3=WARNING",
    "oslo_policy=WARNING",
    "waitress.queue=ERROR",
)
"""The log levels of libraries: the first two would log headers, the last one each request that waits."""


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
    HttpWorker.limits = RequestLimits(options.threads, options.body_limit, options.body_seconds)
    return {
        "bind": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        "workers": options.workers,
        "worker_class": HttpWorker,
        "graceful_timeout": options.stop_seconds,
        "timeout": 120,
        "proc_name": "datalog-gate",
        "logger_class": _Logger,
        "control_socket_disable": True,
    }


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
