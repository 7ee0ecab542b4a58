"""SQLite files that the processes of a host share."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from uuid import uuid4


def create(path: str, statements: Iterable[str] = ()) -> None:
    """Create a file that nobody else can read and run these statements in it, unless there is one that holds anything.
    Errors: OSError, sqlite3.Error.

    The file appears complete, since SQLite's own locks can't keep processes apart before it exists. It is closed before
    it appears, since closing it later would release the locks that another thread has on it by then.
    """
    if os.path.exists(path):
        if not os.path.getsize(path):  # somebody made it for its owner and mode
            _run(path, statements)
        return
    fresh = Path(f"{path}.{uuid4().hex}")
    try:
        fresh.touch(mode=0o600)
        _run(fresh, statements)
        with suppress(FileExistsError):  # another process was faster
            os.link(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def _run(path: str | Path, statements: Iterable[str]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as rows:
        for statement in statements:
            rows.execute(statement)


@contextmanager
def transaction(
    path: str, seconds: float, error_type: Callable[[str], Exception], statements: Iterable[str] = ()
) -> Iterator[sqlite3.Connection]:
    """One transaction in a file, which is created first. It is undone if an exception leaves it, and waits at most
    `seconds` for others. It has a connection of its own, since connections survive neither forks nor changes of thread.
    Errors: `error_type`."""
    try:
        create(path, statements)
        with closing(sqlite3.connect(path, timeout=seconds, isolation_level=None)) as rows:
            rows.row_factory = sqlite3.Row
            rows.execute("PRAGMA synchronous = FULL")
            rows.execute("BEGIN IMMEDIATE")
            yield rows
            rows.execute("COMMIT")
    except (OSError, sqlite3.Error) as error:
        raise error_type(f"{os.path.basename(path)}: {error}") from error
