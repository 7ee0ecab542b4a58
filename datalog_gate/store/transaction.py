"""Transactions in a database with a URL.

A writing transaction first locks a row, so that those with the same lock run one after another in any database. A
transaction that still conflicts is run again, so work in a transaction must have no effects outside it. Each
transaction has a connection of its own, since connections survive neither forks nor changes of thread.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property, wraps
from itertools import count
from pathlib import Path
from threading import Timer
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from urllib.parse import quote
from uuid import uuid4

from sqlalchemy import create_engine, event, func, inspect, select
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    InterfaceError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.pool import NullPool

from datalog_gate.base.errors import GateError
from datalog_gate.base.secrecy import mask_urls
from datalog_gate.store.tables import LOCKS, METADATA, REVISION, locks, version, waivers

LOG = logging.getLogger(__name__)
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
CONNECT = 5
"""Seconds to connect to a server, and for which a statement waits for a locked row."""
IDLE = 60
"""Seconds after which a server ends the transaction of a silent host."""
CONFLICTS = ("40001", "40P01", "55P03", 1020, 1205, 1213)
"""The error codes of PostgreSQL and MariaDB for a conflict with another transaction."""
UPGRADE = "run `datalog-gate store upgrade`"
INSTALL = "install the one that made it"
"""What to do about a store without tables, and about one of another revision."""
_OUTER: ContextVar[Connection | None] = ContextVar("outer", default=None)
"""The transaction of `run_together` in this thread."""


class StoreError(GateError):
    """The store is unreachable, or has another version."""


class Store:
    """A database by its URL, or an SQLite file by its path, which is created if missing.

    A transaction waits at most `wait` seconds for locks. `error_type` creates the errors of all methods. Errors on
    creation: ValueError for a URL, without its password.
    """

    failures = 0
    """The number of failed transactions of this process, with any store."""

    def __init__(self, url: str, error_type: Callable[[str], Exception] = StoreError, wait: float = 30.0) -> None:
        parsed = _parse(url)
        self.name = mask_urls(parsed.render_as_string(hide_password=True))
        """The URL without its password."""
        self.file = (parsed.database or "") if parsed.get_backend_name() == "sqlite" else None
        """The path of the SQLite file; None for a server."""
        if self.file in ("", ":memory:"):
            raise ValueError("a store of SQLite is a file: write sqlite:////var/lib/heat/store")
        self.error_type, self.wait = error_type, wait
        self._checked = False
        self.engine = _create_engine(parsed, wait)

    @property
    def missing(self) -> bool:
        """Whether its file does not exist yet."""
        return self.file is not None and not os.path.exists(self.file)

    def create(self) -> None:
        """Create the SQLite file. Does nothing for a server."""
        if self.file is not None:
            self._run(self._check)

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Run work over one state of the tables, whatever their revision. Nothing is created, upgraded or locked."""
        return self._run(work, self._reader, create=False)

    @cached_property
    def _reader(self) -> Any:
        """The engine of `read`: a file is opened for reading alone."""
        if self.file is None:
            return self.engine.execution_options(isolation_level="REPEATABLE READ")
        url = f"sqlite:///file:{quote(os.path.abspath(self.file))}?mode=ro&uri=true"
        engine = create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args={"timeout": self.wait})
        event.listen(engine, "connect", _begin_explicitly)
        event.listen(engine, "begin", lambda rows: rows.exec_driver_sql("BEGIN"))
        return engine

    def upgrade(self) -> str | None:
        """Create the tables if there are none. Return the revision before, or None. Errors: also another revision."""
        before = self.revision()
        self._run(create_tables if before is None else self._check)
        return before

    def run(self, lock: str | None, work: Callable[[Connection], Result], reads: bool = False) -> Result:
        """Run work in one transaction, after all others with this lock, and again if it conflicts. Without a lock
        others may write between its statements; on a file they wait for each other, unless the work only reads."""

        def locked(rows: Connection) -> Result:
            if not self._checked:
                self._check(rows)
                self._checked = True
            if lock is not None and self.file is None and not lock_row(rows, lock):
                self._check(rows)  # the tables were upgraded meanwhile
            return work(rows)

        outer = _OUTER.get()
        if outer is not None and outer.engine.url == self.engine.url:
            return locked(outer)
        return self._run(locked, self.engine.execution_options(begin="BEGIN") if reads and self._checked else None)

    def run_together(self, work: Callable[[Connection], Result]) -> Result:
        """As `run` without a lock, but what this thread runs in the same database meanwhile, by any `Store`, is part
        of the transaction. Errors in it are not those of its store, so that they end the whole."""

        def joined(rows: Connection) -> Result:
            token = _OUTER.set(rows)
            try:
                return work(rows)
            finally:
                _OUTER.reset(token)

        return self.run(None, joined)

    def revision(self) -> str | None:
        """The revision of the tables; None if there are none."""
        return self._run(self._prepare)

    def _run(self, work: Callable[[Connection], Result], engine: Any = None, create: bool = True) -> Result:
        end = time.monotonic() + self.wait
        for attempt in count():
            try:
                if create:
                    self._make_file()
                with self._begin(engine or self.engine) as rows:
                    return work(rows)
            except (SQLAlchemyError, sqlite3.Error, OSError, UnicodeError) as error:
                if attempt >= 60 or time.monotonic() >= end or not _is_conflict(error):
                    Store.failures += 1
                    raise self.error_type(self._explain(error)) from error
            time.sleep(0.002 * random.random() * 2 ** min(attempt, 6))
        raise AssertionError

    @contextmanager
    def _begin(self, engine: Any) -> Iterator[Connection]:
        with engine.connect() as rows, _deadline(rows, self.wait + CONNECT), rows.begin():
            if rows.dialect.name == "postgresql":
                limits = f"lock_timeout = '{CONNECT}s'; SET LOCAL idle_in_transaction_session_timeout = '{IDLE}s'"
                rows.exec_driver_sql(f"SET LOCAL {limits}")
            yield rows

    def _prepare(self, rows: Connection) -> str | None:
        """Read the revision. Create the tables of an empty SQLite file."""
        revision = read_revision(rows)
        if revision is not None or self.file is None:
            return revision
        if others := sorted(inspect(rows).get_table_names()):
            raise self.error_type(f"{self.file} belongs to something else: it has the table {others[0]}")
        create_tables(rows)
        return REVISION

    def _check(self, rows: Connection) -> None:
        revision = self._prepare(rows)
        if revision is None:
            raise self.error_type(f"the store has no tables: {UPGRADE}")
        if revision != REVISION:
            where = self.file or "the store"
            raise self.error_type(f"{where} has the revision {revision}, but this package needs {REVISION}: {INSTALL}")

    def _make_file(self) -> None:
        """Create an SQLite file that nobody else can read. Errors: OSError, sqlite3.Error.

        The file appears complete, since SQLite's own locks can't keep processes apart before it exists. It is closed
        before it appears, since closing it later would release the locks that another thread has on it by then.
        """
        if self.file is None or not self.missing:
            return
        self._checked = False
        fresh = Path(f"{self.file}.{uuid4().hex}")
        try:
            try:
                fresh.touch(mode=0o600)
            except OSError as error:
                raise self.error_type(f"{self.file} can't be created: {error}") from error
            with closing(sqlite3.connect(fresh, isolation_level=None)) as rows:
                rows.execute("PRAGMA journal_mode = WAL")
            engine = _create_engine(URL.create("sqlite", database=str(fresh)), self.wait)
            with engine.begin() as tables:
                create_tables(tables)
            with suppress(FileExistsError):  # another process was faster
                os.link(fresh, self.file)
        finally:
            fresh.unlink(missing_ok=True)

    def _explain(self, error: Exception) -> str:
        """The message for users. Names of servers are only logged."""
        reason = error.orig if isinstance(error, DBAPIError) and error.orig else error
        if self.file is not None:
            return f"{os.path.basename(self.file)}: {reason}"
        LOG.error("the store %s: %s", self.name, mask_urls(" ".join(str(reason).split())))
        if _is_conflict(error):
            return "the store is busy"
        unreachable = isinstance(error, (OperationalError, InterfaceError, OSError))
        return "the store can't be reached" if unreachable else "the store does not accept this"


class Tables(Protocol):
    """A base class for rows in a store under one lock."""

    store: Store
    lock: str


Self = TypeVar("Self", bound=Tables)


def atomic(
    method: Callable[Concatenate[Self, Connection, Arguments], Result],
) -> Callable[Concatenate[Self, Arguments], Result]:
    """Make a method one transaction of its `store` under its `lock`. It may run several times."""

    @wraps(method)
    def run(self: Self, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return self.store.run(self.lock, lambda rows: method(self, rows, *args, **kwargs))

    return run


def reading(
    method: Callable[Concatenate[Self, Connection, Arguments], Result],
) -> Callable[Concatenate[Self, Arguments], Result]:
    """Make a method a transaction of a single reading statement, which waits for no lock."""

    @wraps(method)
    def run(self: Self, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return self.store.run(None, lambda rows: method(self, rows, *args, **kwargs), reads=True)

    return run


def create_tables(rows: Connection) -> None:
    """Create all tables of this version. Errors: also if one of the name exists."""
    METADATA.create_all(rows, checkfirst=False)
    rows.execute(locks.insert(), [{"name": name, "turn": 0} for name in LOCKS])
    rows.execute(version.insert().values(version_num=REVISION))


def catch_up(rows: Connection) -> None:
    """Set the next number of waivers above all existing ones."""
    last = select(func.max(waivers.c.number)).scalar_subquery()
    rows.execute(locks.update().where(locks.c.name == "waivers", locks.c.turn < last).values(turn=last))


def lock_row(rows: Connection, lock: str) -> bool:
    """Lock a row of `locks` until the transaction ends, and increase its counter. False if the tables have another
    revision."""
    current = select(version.c.version_num).where(version.c.version_num == REVISION).exists()
    turn = locks.update().where(locks.c.name == lock, current).values(turn=locks.c.turn + 1)
    return bool(rows.execute(turn).rowcount)


def take_turn(rows: Connection, lock: str) -> int:
    """Lock a row of `locks`, and return a number greater than all before."""
    lock_row(rows, lock)
    return int(rows.execute(select(locks.c.turn).where(locks.c.name == lock)).scalar_one())


def lock_all(rows: Connection) -> None:
    """Lock all rows of `locks`, so that nobody writes until the transaction ends."""
    for lock in sorted(LOCKS):
        lock_row(rows, lock)


def _hang_up(line: socket.socket) -> None:
    with suppress(OSError):  # the transaction may end at the same moment
        line.shutdown(socket.SHUT_RDWR)


def read_revision(rows: Connection) -> str | None:
    if not inspect(rows).has_table(version.name):
        return None
    return rows.execute(select(version.c.version_num)).scalar()


def _parse(url: str) -> URL:
    if "://" not in url:
        return URL.create("sqlite", database=url)
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        raise ValueError("the store is not a URL such as postgresql+psycopg://USER:PASSWORD@HOST/DATABASE") from None


def _create_engine(url: URL, wait: float) -> Any:
    backend = url.get_backend_name()
    options: dict[str, Any] = {"isolation_level": "READ COMMITTED", "connect_args": {"connect_timeout": CONNECT}}
    if backend == "sqlite":
        options = {"connect_args": {"timeout": wait}}
    elif backend in ("mysql", "mariadb"):
        limits = f"sql_mode = 'TRADITIONAL', innodb_lock_wait_timeout = {CONNECT}, wait_timeout = {IDLE}"
        options["connect_args"] |= dict.fromkeys(("read_timeout", "write_timeout"), wait + CONNECT)
        options["connect_args"]["init_command"] = f"SET SESSION {limits}"
    elif backend != "postgresql":
        raise ValueError(f"{backend} is not a database for a store: sqlite, postgresql, mysql or mariadb is")
    try:
        engine = create_engine(url, poolclass=NullPool, hide_parameters=True, **options)
    except (ImportError, NoSuchModuleError) as error:
        raise ValueError(f"the driver of the store is not installed: {error}") from None
    if backend == "sqlite":
        event.listen(engine, "connect", _set_up_file)
        event.listen(engine, "begin", _begin_in_file)
    return engine


def _begin_in_file(rows: Connection) -> None:
    """Begin with the lock of writers, which two readers that want to write would wait for in vain."""
    rows.exec_driver_sql(rows.get_execution_options().get("begin", "BEGIN IMMEDIATE"))


def _begin_explicitly(connection: Any, _record: object) -> None:
    connection.isolation_level = None


def _set_up_file(connection: Any, record: object) -> None:
    _begin_explicitly(connection, record)
    connection.execute("PRAGMA synchronous = FULL")


@contextmanager
def _deadline(rows: Connection, seconds: float) -> Iterator[None]:
    """Close the connection to a PostgreSQL server that does not answer, since its drivers have no such limit."""
    if rows.dialect.name != "postgresql":
        yield
        return
    raw: Any = rows.connection.driver_connection
    with socket.socket(fileno=os.dup(raw.fileno())) as line:
        timer = Timer(seconds, _hang_up, (line,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _is_conflict(error: Exception) -> bool:
    if not isinstance(error, DBAPIError):
        return False
    reason: Any = error.orig
    codes = (getattr(reason, "sqlstate", None), getattr(reason, "pgcode", None), *getattr(reason, "args", ()))
    return isinstance(error, IntegrityError) or "locked" in str(reason) or any(code in CONFLICTS for code in codes)
