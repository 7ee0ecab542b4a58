"""Access to the stored results of scans."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import printable
from datalog_gate.doors.server.endpoint import ApiError
from datalog_gate.engine.sql.database import explain, list_driver_errors, open_database
from datalog_gate.scan.scan_store import ScanStore

LOG = logging.getLogger(__name__)
_KEPT: ContextVar[tuple[ExitStack, dict[str, ScanStore]] | None] = ContextVar("kept", default=None)


@contextmanager
def keep_scan_store() -> Iterator[None]:
    """Open the store at most once within this context."""
    with ExitStack() as stack:
        token = _KEPT.set((stack, {}))
        stack.callback(_KEPT.reset, token)
        yield


@contextmanager
def open_scan_store(options: Any) -> Iterator[ScanStore]:
    """Open the store of scans for reading. Errors: ApiError."""
    url = options.scan_store
    if not url:
        raise ApiError(404, "no_scans", "this server has no store of scans", "set scan_store in [datalog_gate_server]")
    if "://" not in url and not Path(url).exists():
        raise ApiError(404, "no_scans", "there was no scan yet", "run `datalog-gate scan run`")
    try:
        with ExitStack() as own:
            stack, stores = _KEPT.get() or (own, {})
            if url not in stores:
                database = stack.enter_context(open_database(url, memory="500MB", read_only=True))
                stores[url] = ScanStore(database, read_only=True)
            yield stores[url]
    except list_driver_errors() as error:
        LOG.error("the store of scans: %s", printable(explain(error, url)))
        message = "the store of scans can't be read now"
        raise ApiError(503, "scan_store", message, headers={"Retry-After": "30"}) from None
