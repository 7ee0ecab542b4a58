"""SQLite files that the processes of a host share (layer 5): how one is made, and a transaction in one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4


def make(path: str, *statements: str) -> None:
    """Make a file that nobody else can read, with what these statements put into it, if there is none: whole from the
    first moment, since SQLite's own locks can't keep processes apart before. It is closed before it is there: to close
    it would end the locks that another thread has on it by then. Errors: OSError, sqlite3.Error."""
    if os.path.exists(path):
        return
    fresh = Path(f"{path}.{uuid4().hex}")
    try:
        fresh.touch(mode=0o600)
        with closing(sqlite3.connect(fresh, isolation_level=None)) as rows:
            for statement in statements:
                rows.execute(statement)
        with suppress(FileExistsError):  # somebody else was faster
            os.link(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


@contextmanager
def transaction(path: str, seconds: float) -> Iterator[sqlite3.Connection]:
    """One transaction, undone if it is left by an exception, which waits so long for others; on a connection of its
    own: they survive neither forks nor changes of thread. Errors: sqlite3.Error."""
    with closing(sqlite3.connect(path, timeout=seconds, isolation_level=None)) as rows:
        rows.row_factory = sqlite3.Row
        rows.execute("PRAGMA synchronous = FULL")
        rows.execute("BEGIN IMMEDIATE")
        yield rows
        rows.execute("COMMIT")
