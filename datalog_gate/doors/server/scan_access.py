"""Access to what scans have stored."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from datalog_gate.base.diagnostics import printable
from datalog_gate.doors.server.endpoint import ApiError
from datalog_gate.engine.sql.database import open_database
from datalog_gate.scan.scan_store import ScanStore

LOG = logging.getLogger(__name__)


@contextmanager
def open_scan_store(options: Any) -> Iterator[ScanStore]:
    """Open the store of scans to read it. Errors: ApiError."""
    url = options.scan_store
    if not url:
        raise ApiError(404, "no_scans", "this server knows of no scans", "set scan_store in [datalog_gate_server]")
    if "://" not in url and not Path(url).exists():
        raise ApiError(503, "scan_store", "nothing was scanned yet", "run `datalog-gate scan run`")
    try:
        with open_database(url, memory="500MB", read_only=True) as database:
            yield ScanStore(database, read_only=True)
    except _driver_errors() as error:
        LOG.error("the store of scans: %s", printable(str(error).strip()))
        message = "the store of scans can't be read now"
        raise ApiError(503, "scan_store", message, headers={"Retry-After": "30"}) from None


def _driver_errors() -> tuple[type[Exception], ...]:
    try:
        import psycopg
    except ImportError:
        return (duckdb.Error,)
    return duckdb.Error, psycopg.Error
