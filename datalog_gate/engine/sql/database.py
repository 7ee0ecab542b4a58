"""A connection to DuckDB or PostgreSQL, which takes statements as sqlglot's expressions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import lru_cache
from types import TracebackType
from typing import Any, NamedTuple, Self

from sqlglot import exp

from datalog_gate.base.errors import InputError
from datalog_gate.base.secrecy import find_url_secrets, masked
from datalog_gate.engine.sql.tables import SqlValue, identifier

LOCK = 0x67617465
"""The number of the advisory lock for writers."""
LOCK_WAIT = "5s"
"""How long a writer waits for it."""
AT_ONCE = 50_000
"""The number of rows per insert into DuckDB."""


class Statement(NamedTuple):
    """The text of a statement in a dialect, for repeated use."""

    text: str
    tree: exp.Expr


class Database:
    """A connection. Each statement is its own transaction, except within `transaction`."""

    dialect: str

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.connection.close()

    def prepare(self, expression: exp.Expr) -> Statement:
        """The statement in the dialect of this database."""
        return Statement(expression.sql(self.dialect), expression)

    def execute(self, statement: exp.Expr | Statement) -> None:
        """Run a statement."""
        self._run(statement)

    def fetch(self, query: exp.Expr | Statement) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        rows: list[tuple[Any, ...]] = self._run(query).fetchall()
        return rows

    def tables(self) -> set[str]:
        """The names of the tables and views."""
        names = exp.select("table_name").from_(exp.table_("tables", db="information_schema"))
        return {name for (name,) in self.fetch(names)}

    def lock(self) -> bool:
        """Become the only writer until the connection is closed; return whether that succeeded."""
        return True  # a DuckDB file permits only one writing connection

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[SqlValue]]) -> None:
        """Add many rows, all or none, in the fastest way of the database."""
        raise NotImplementedError

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the statements inside as a whole, or none after an exception."""
        raise NotImplementedError

    def _run(self, statement: exp.Expr | Statement) -> Any:
        text = statement.text if isinstance(statement, Statement) else self.prepare(statement).text
        return self.connection.execute(text)


class DuckDB(Database):
    """A DuckDB file, or a database in memory."""

    dialect = "duckdb"

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[SqlValue]]) -> None:
        """Pass arrays of texts by column, which DuckDB casts: it would guess other types from a sample."""
        if not rows:
            return
        import numpy

        names = [f"c{at}" for at in range(len(columns))]
        text = _insertion(table, tuple(columns), tuple(names))
        with self.transaction():
            for start in range(0, len(rows), AT_ONCE):
                arrays = {
                    name: numpy.array(_as_texts(column), dtype=object)
                    for name, column in zip(names, zip(*rows[start : start + AT_ONCE], strict=True), strict=True)
                }
                self.connection.register("insert_values", arrays)
                try:
                    self.connection.execute(text)
                finally:
                    self.connection.unregister("insert_values")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._within:
            yield
            return
        self.connection.begin()
        self._within = True
        try:
            yield
        except BaseException:
            self.connection.rollback()
            raise
        else:
            self.connection.commit()
        finally:
            self._within = False

    _within = False


@lru_cache(2000)
def _insertion(table: str, columns: tuple[str, ...], names: tuple[str, ...]) -> str:
    target = exp.Schema(this=exp.Table(this=identifier(table)), expressions=[*map(identifier, columns)])
    values = exp.select(*names).from_("insert_values")
    return exp.Insert(this=target, expression=values).sql(DuckDB.dialect)


def _as_texts(column: Sequence[SqlValue]) -> Sequence[SqlValue]:
    return column if {str, type(None)}.issuperset(map(type, column)) else [*map(_as_text, column)]


def _as_text(value: SqlValue) -> str | None:
    if value is None or type(value) is str:
        return value
    return format(value, "f") if isinstance(value, Decimal) else str(value)


class PostgreSQL(Database):
    """A database of PostgreSQL."""

    dialect = "postgres"

    def lock(self) -> bool:
        """Take a session lock. The server frees that of a killed process at the end of its statement, so wait a bit."""
        from psycopg.errors import LockNotAvailable

        limit = map(exp.Literal.string, ("lock_timeout", LOCK_WAIT))
        try:
            with self.transaction():
                self.execute(exp.select(exp.func("set_config", *limit, exp.true())))
                self.execute(exp.select(exp.func("pg_advisory_lock", exp.Literal.number(LOCK))))
        except LockNotAvailable:
            return False
        return True

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[SqlValue]]) -> None:
        target = exp.Schema(this=exp.Table(this=identifier(table)), expressions=[*map(identifier, columns)])
        source = exp.Copy(this=target, kind=True, files=[exp.Var(this="STDIN")])
        cursor = self.connection.cursor()
        with cursor.copy(self.prepare(source).text) as copy:
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self.connection.transaction():
            yield


def open_database(url: str = ":memory:", memory: str = "800MB", read_only: bool = False) -> Database:
    """Open ``postgresql://...``, or a DuckDB file, with this memory limit. A missing file is created. With `read_only`
    others may read the file too. Errors: those of the driver."""
    scheme, _, rest = url.partition("://")
    if rest and scheme.partition("+")[0] == "postgresql":
        import psycopg

        connection = psycopg.connect(f"postgresql://{rest}", autocommit=True, cursor_factory=psycopg.RawCursor)
        connection.read_only = read_only
        return PostgreSQL(connection)
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": memory,
        "threads": 2,
        "preserve_insertion_order": False,
    }
    return DuckDB(duckdb.connect(url, read_only=read_only, config=settings))


@contextmanager
def explained(name: str, url: str) -> Iterator[None]:
    """Raise the errors of drivers as InputError, with the name of the database."""
    try:
        yield
    except list_driver_errors() as error:
        raise InputError.of(f"{name} fails: {explain(error, url)}") from None


def explain(error: Exception, url: str) -> str:
    """The message of a driver, without the password of its URL, or what it means that a file is locked."""
    if "Could not set lock on file" in str(error):
        return "another program is writing to it: wait until that is done"
    return masked(" ".join(str(error).split()), find_url_secrets(url))


def list_driver_errors() -> tuple[type[Exception], ...]:
    """The exception classes of the installed drivers."""
    import duckdb

    try:
        import psycopg
    except ImportError:
        return (duckdb.Error,)
    return duckdb.Error, psycopg.Error
