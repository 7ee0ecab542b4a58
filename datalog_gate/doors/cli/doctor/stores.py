"""Checks of the store, and of files used instead."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator, Set
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datalog_gate import __version__
from datalog_gate.base.diagnostics import Span
from datalog_gate.decision_point.settings import Settings, parse_plugin_options
from datalog_gate.doors.cli.doctor import CheckResult, Locate, hide_secrets, is_closed
from datalog_gate.services.contract import GROUP

if TYPE_CHECKING:
    from datalog_gate.store.transaction import Store

WAIT = 5.0
"""Seconds to wait for a store's answer."""


def check_stores(settings: Settings, locate: Locate, heat_conf: str, secrets: Set[str]) -> Iterator[CheckResult]:
    """Check that each database with claims or approvals is reachable and has this version."""
    if settings.store:
        yield from _check_store(settings.store, locate("store"), heat_conf, secrets)
    try:
        service_options = parse_plugin_options("service_option", settings.service_option)
    except ValueError:  # reported by the check of services
        return
    for name, options in service_options.items():
        store = options.get("file") or options.get("store", "")
        services = entry_points(group=GROUP, name=name) if store and name in settings.services else ()
        if any(getattr(service.load(), "uses_store", False) for service in services):
            yield from _check_store(store, locate("service_option"), heat_conf, secrets)


def _check_store(url: str, place: Span, heat_conf: str, secrets: Set[str]) -> Iterator[CheckResult]:
    """Inspect a store without changing it. A missing SQLite file is created later by the first service."""
    from datalog_gate.store.tables import REVISION
    from datalog_gate.store.transaction import Store, StoreError

    logging.getLogger("datalog_gate.store").addHandler(logging.NullHandler())  # reported here instead
    stopped = "everything that needs it fails until then"
    try:
        store = Store(url, wait=WAIT)
    except ValueError as error:
        fix = "correct `store`, as postgresql+psycopg://USER:PASSWORD@HOST/DATABASE, or install its driver"
        yield CheckResult("finding", "store", hide_secrets(str(error), secrets), place, fix)
        return
    name, folder = hide_secrets(store.name, secrets), Path(store.file or "").parent
    if store.file is not None and not os.path.lexists(store.file):
        if not folder.is_dir():
            message = f"the store {name} is unreachable: its folder {folder} is missing"
            fix = f"install -d -m 750 -o USER {folder}, with the user of Heat's services: {stopped}"
            yield CheckResult("finding", "store", message, place, fix)
        return
    if store.file is not None and is_closed(store.file):
        message = f"the store {name} is unreachable: the user of the doctor can't read it"
        fix = f"let the user of Heat's services own it, as by `chown USER {store.file}`: {stopped}"
        yield CheckResult("finding", "store", message, place, fix)
        return

    try:
        revision, problem = _look_into(store)
    except StoreError as error:
        message = f"the store {name} is unreachable: {hide_secrets(str(error), secrets)}"
        fix = f"start the database, or correct the option: {stopped}"
        yield CheckResult("finding", "store", message, place, fix)
        return
    if problem != "ok":
        message = f"the store {name} is corrupt: {problem}"
        fix = (
            f"move {store.file} away, and fill a new store from an export: `datalog-gate store import EXPORT "
            f"--heat-conf {heat_conf}`; without an export, check by hand what services hold"
        )
        yield CheckResult("finding", "store", message, place, fix)
    elif revision != REVISION and (revision or store.file is None):
        message = (
            f"the store {name} has another version: its tables have the revision {revision or 'none'}, and "
            f"datalog_gate {__version__} needs {REVISION}"
        )
        fix = f"datalog-gate store upgrade --heat-conf {heat_conf}"
        if revision:
            fix = "install on this host the datalog_gate that the others have"
        yield CheckResult("finding", "store", message, place, fix)
    else:
        yield CheckResult("ok", "store", f"{name} can be reached, and has this version", place)


def _look_into(store: Store) -> tuple[str | None, str]:
    """The revision of a store, and what is wrong with its file, "ok" if nothing is. Errors: StoreError with the reason
    of the driver if it can't be reached."""
    from datalog_gate.store.transaction import StoreError, read_revision

    def look(rows: Any) -> tuple[str | None, str]:
        problem = rows.exec_driver_sql("PRAGMA quick_check").scalar() if store.file is not None else "ok"
        return read_revision(rows), str(problem)

    try:
        return store.run_unchecked(look)
    except StoreError as error:
        cause: Any = error.__cause__ or error
        reason = getattr(cause, "orig", None) or cause
        problem = " ".join(str(reason).split())
        if isinstance(reason, sqlite3.DatabaseError) and not isinstance(reason, sqlite3.OperationalError):
            return None, problem
        raise StoreError(problem) from None
