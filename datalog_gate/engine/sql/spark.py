"""Apache Spark as a database.

Its tables are views of a session, and an insert makes a new view.

By default Spark differs from other databases, so sessions are configured: a failed cast returns NULL, and a sum of
decimals keeps their scale.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from datalog_gate.base.errors import UsageError
from datalog_gate.engine.sql.database import Database, Statement
from datalog_gate.engine.sql.tables import SqlValue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.session.timeZone": "UTC",
}
CONFIGURED = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME")
"""The environment variables of a Spark installation."""


@contextmanager
def open_session(processes: int = 1) -> Iterator[SparkSession]:
    """Start Spark as the environment says, or else on this machine with so many processes. It ends with the context.
    Errors: UsageError without PySpark or Java."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError("spark needs PySpark: pip install 'datalog-gate[scan,spark]'") from None
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise UsageError("spark needs Java: apt-get install default-jre-headless")
    builder = SparkSession.builder.appName("datalog-gate").config("spark.log.level", "ERROR")
    if not any(name in os.environ for name in CONFIGURED):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        local = {"bindAddress": "127.0.0.1", "host": "127.0.0.1", "memory": "1g"}
        builder = builder.master(f"local[{processes}]").config("spark.ui.enabled", False)
        for name, value in local.items():
            builder = builder.config(f"spark.driver.{name}", value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


class Spark(Database):
    """A Spark session. Rows of its tables stay on the executors; closing it leaves Spark running."""

    dialect = "spark"

    def __init__(self, session: SparkSession) -> None:
        super().__init__(session.newSession())
        self._frames: dict[str, DataFrame] = {}
        for name, value in SETTINGS.items():
            self.connection.conf.set(name, value)

    def close(self) -> None:
        for name in [*self._frames]:
            self._drop(name)

    def tables(self) -> set[str]:
        return set(self._frames)

    def frame(self, name: str) -> DataFrame:
        """The rows of a table."""
        return self._frames[name]

    def show(self, name: str, frame: DataFrame) -> None:
        """Create a table of these rows, or replace its rows."""
        frame.createOrReplaceTempView(f"`{name}`")
        self._frames[name] = frame

    def execute(self, statement: exp.Expr | Statement) -> None:
        tree = statement.tree if isinstance(statement, Statement) else statement
        match tree:
            case exp.Create(this=exp.Schema(this=table, expressions=columns)):
                types = ", ".join(column.sql(self.dialect) for column in columns)
                self.show(table.name, self.connection.createDataFrame([], types))
            case exp.Create(this=table, expression=query):
                self.show(table.name, self.connection.sql(query.sql(self.dialect)))
            case exp.Insert(this=target, expression=query):
                name = (target.this if isinstance(target, exp.Schema) else target).name
                self._add(name, self.connection.sql(query.sql(self.dialect)))
            case exp.Delete(this=table):
                self.show(table.name, self._frames[table.name].limit(0))
            case exp.Drop():
                for table in tree.args["tables"]:
                    self._drop(table.name)
            case exp.Alter(this=table):
                self.show(tree.args["actions"][0].this.name, self._frames[table.name])
                self._drop(table.name)
            case _:
                raise NotImplementedError(type(tree).__name__)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[SqlValue]]) -> None:
        if rows:
            schema = self._frames[table].select(*columns).schema
            self._add(table, self.connection.createDataFrame([[*map(_plain, row)] for row in rows], schema))

    def _add(self, name: str, frame: DataFrame) -> None:
        """Add rows. They are computed now and cached without their lineage."""
        self.show(name, self._frames[name].union(frame).localCheckpoint())

    def _drop(self, name: str) -> None:
        self._frames.pop(name, None)
        self.connection.catalog.dropTempView(name)

    def _run(self, statement: exp.Expr | Statement) -> Any:
        text = statement.text if isinstance(statement, Statement) else self.prepare(statement).text
        return _Rows(self.connection.sql(text))


class _Rows:
    """The result of a query, in the form of other drivers."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame

    def fetchall(self) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._frame.collect()]


def _plain(value: SqlValue) -> SqlValue:
    """A value in the form for Spark, which accepts no integers in decimal columns."""
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return Decimal(format(value, "f")) if is_number else value
