"""Checks of the port and the folder of the metrics."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from errno import EADDRINUSE
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.doctor import CheckResult, Locate, is_closed

LOST = "Prometheus gets no metrics of this host"
PATIENCE = 5.0
"""Seconds in which the port must answer."""


def check_metrics(settings: Settings, locate: Locate) -> Iterator[CheckResult]:
    """Check that metrics can be added up and served. Nothing is written."""
    folder = Path(settings.metrics_folder)
    if settings.metrics_folder and not _is_usable(folder):
        message = f"the user of the doctor can't use the folder {folder} of the metrics: {LOST}"
        fix = f"install -d -m 770 -o USER -g GROUP {folder}, with the user and the group of Heat's services"
        yield CheckResult("finding", "metrics", message, locate("metrics_folder"), fix)
    if settings.metrics_port:
        yield _check_port(settings.metrics_host, settings.metrics_port, locate)


def _is_usable(folder: Path) -> bool:
    """Whether a service can write to the folder, or create it."""
    while not os.path.lexists(folder):
        folder = folder.parent
    return folder.is_dir() and not is_closed(folder) and os.access(folder, os.W_OK, effective_ids=True)


def _check_port(host: str, port: int, locate: Locate) -> CheckResult:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        if error.errno != EADDRINUSE:
            message = f"no service can listen on {host} port {port}: {os.strerror(error.errno or 0)}: {LOST}"
            fix = "set metrics_host to an address of this host, and metrics_port to a port that its user may take"
            return CheckResult("finding", "metrics", message, locate("metrics_host"), fix)
        if not _tells_metrics(host, port):
            message = f"the port {port} is used by another program: {LOST}"
            return CheckResult("finding", "metrics", message, locate("metrics_port"), "set metrics_port to a free port")
        return CheckResult("ok", "metrics", f"the port {port} serves metrics of the gate", locate("metrics_port"))
    message = f"nobody listens on the port {port}: a running service of this host would"
    return CheckResult("note", "metrics", message, locate("metrics_port"))


def _tells_metrics(host: str, port: int) -> bool:
    connection = HTTPConnection(host, port, timeout=PATIENCE)
    try:
        connection.request("GET", "/metrics")
        return b"\ndatalog_gate_" in connection.getresponse().read()
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
