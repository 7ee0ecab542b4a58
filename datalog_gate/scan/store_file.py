"""The file of a store, whose place a run's copy takes.

DuckDB lets nobody read a file that is written to. So a run works on a copy, which takes the place of the store when it
ends: a reader finds the store as the last run left it, and never waits. If a run is killed, the next one goes on with
its copy.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from datalog_gate.base.errors import GateError, InputError
from datalog_gate.engine.sql.database import Database, explained, open_database
from datalog_gate.scan.scan_store import ScanStore
from datalog_gate.schema.catalogue import SHIPPED, Catalogue


@contextmanager
def open_store(url: str, catalogue: Catalogue | None = None, is_run: bool = False) -> Iterator[ScanStore]:
    """Open the store at a URL, or in a file; only a run writes to it, and creates it if it is missing. Errors:
    InputError."""
    reads_file = "://" not in url and not is_run
    if reads_file and not os.path.exists(url):
        raise InputError.of(f"there is no store {url}", suggestion="create one with `datalog-gate scan run`")
    before = os.umask(0o077)  # definitions may hold what only their owners should read
    try:
        with (
            explained(f"the store {url}", url),
            open_for_run(url) if is_run else open_database(url, read_only=reads_file) as database,
        ):
            yield ScanStore(database, catalogue or SHIPPED, read_only=reads_file)
    finally:
        os.umask(before)


@contextmanager
def open_for_run(url: str) -> Iterator[Database]:
    """Open a store to write to it; a missing one is created. What was written before a GateError is kept. Errors:
    InputError if another run has it, or for a file that can't be copied; those of the database."""
    if "://" in url:
        with open_database(url) as database:
            yield database
        return
    failure: GateError | None = None
    with _lock(url):
        copy = _copy(url)
        with open_database(copy) as database:
            try:
                yield database
            except GateError as error:
                failure = error
            database.execute(exp.Command(this="CHECKPOINT"))  # closing would hide that the disk is full
        os.replace(copy, url)
    if failure:
        raise failure


@contextmanager
def _lock(path: str) -> Iterator[None]:
    """Be the only run on a file. The lock ends with the process. Errors: InputError."""
    try:
        lock = os.open(f"{path}.lock", os.O_CREAT | os.O_WRONLY, 0o600)
    except OSError as error:
        raise InputError.of(f"the store {path} fails: {error.strerror}") from None
    try:
        _take(lock)
        yield
    finally:
        os.close(lock)


def _take(lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError.of(
            "another run is writing to the store", suggestion="wait until it ends, or use another store for this one"
        ) from None


def _copy(path: str) -> str:
    """The copy of a file that a run was killed with, or else a new one. Errors: InputError."""
    copy, part = f"{path}.run", f"{path}.part"
    if os.path.exists(path) and not os.path.exists(copy):
        try:
            shutil.copyfile(path, part)
            os.replace(part, copy)
        except OSError as error:
            raise InputError.of(f"the store {path} fails: it can't be copied: {error.strerror}") from None
    return copy
