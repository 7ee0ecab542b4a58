"""Rows of a store as JSON lines, and the merge of stores.

The first line is ``{"schema": "datalog-gate/store/1", "revision": "0001"}``; each other one is a row, as
``{"table": "approval_claims", "row": {"key": "k", "number": 1}}``. Locks and leases are left out: they say who is at
work. So is the inventory, which is pulled again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Table, func, select
from sqlalchemy.engine import Connection

from datalog_gate.base.errors import GateError
from datalog_gate.base.records import dataclass
from datalog_gate.store import tables
from datalog_gate.store.transaction import Store, catch_up, lock_all, read_revision

SCHEMA = "datalog-gate/store/1"
TABLES = (
    tables.journal,
    tables.approval_requests,
    tables.approval_claims,
    tables.placement_claims,
    tables.waivers,
    tables.api_decisions,
    tables.api_writes,
)
"""The exchanged tables."""
Rows = Sequence[tuple[Table, dict[str, Any]]]


class ExchangeError(GateError):
    """A file that is not a store, or a row that contradicts the store."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import: the number of added and of existing rows."""

    added: int
    known: int


def export_rows(store: Store) -> Iterator[str]:
    """The lines of a store, in a fixed order. Errors: ExchangeError for another revision; those of the store."""
    source = () if store.missing else store.read(lambda rows: _read_store(rows, store.file or "the database"))
    yield json.dumps({"schema": SCHEMA, "revision": tables.REVISION})
    for table, row in source:
        yield json.dumps({"table": table.name, "row": row})


def count_rows(store: Store) -> dict[str, int]:
    """The number of rows by table name. Errors: those of the store."""
    return store.read(
        lambda rows: {
            table.name: rows.execute(select(func.count()).select_from(table)).scalar() or 0 for table in TABLES
        }
    )


def read_rows(path: Path) -> Rows:
    """Read lines of an export, or an SQLite file of a store. Changes nothing. Errors: ExchangeError, OSError."""
    with path.open("rb") as file:
        if file.read(16) == b"SQLite format 3\0":
            return _read_sqlite(path)
    try:
        lines = path.read_text("utf-8").splitlines()
        return list(_parse_lines(path, lines))
    except (ValueError, RecursionError):
        raise ExchangeError(f"{path} is not an export of a store") from None


def import_rows(store: Store, source: Rows) -> Imported:
    """Add the rows that the store lacks, all or none. If both have a decision, the store's is kept. Errors:
    ExchangeError for a row that contradicts the store; those of the store."""

    def work(rows: Connection) -> Imported:
        lock_all(rows)
        added = sum(_add(rows, table, row) for table, row in source)
        catch_up(rows)
        return Imported(added, len(source) - added)

    return store.run(None, work)


def _add(rows: Connection, table: Table, row: dict[str, Any]) -> bool:
    """Add a row. False if it exists."""
    same = [column == row[column.name] for column in table.primary_key]
    known = rows.execute(select(table).where(*same)).mappings().first()
    if known is None:
        rows.execute(table.insert().values(**row))
    elif dict(known) != row and table is not tables.api_decisions:
        name = " ".join(str(row[column.name]) for column in table.primary_key)
        raise ExchangeError(f"{table.name} {name} is different in the store: nothing was imported")
    return known is None


def _read_sqlite(path: Path) -> Rows:
    def fail(why: str) -> ExchangeError:
        return ExchangeError(f"{path} can't be read: {why.removeprefix(f'{path.name}: ')}")

    try:
        return Store(str(path), fail).read(lambda rows: _read_store(rows, str(path)))
    except (ValueError, KeyError) as error:
        raise fail(str(error)) from error


def _read_store(rows: Connection, name: str) -> Rows:
    """The rows of a store. Errors: ExchangeError."""
    revision = read_revision(rows)
    if revision is None:
        raise ExchangeError(f"{name} has no tables of a store")
    if revision != tables.REVISION:
        needs = f"{name} has the revision {revision}, but this package needs {tables.REVISION}"
        raise ExchangeError(f"{needs}: export it with the package that made it")
    return [(table, row) for table in TABLES for row in _read_table(rows, table)]


def _read_table(rows: Connection, table: Table) -> Iterator[dict[str, Any]]:
    return (dict(row) for row in rows.execute(select(table).order_by(*table.primary_key)).mappings())


def _parse_lines(path: Path, lines: Sequence[str]) -> Iterator[tuple[Table, dict[str, Any]]]:
    """Errors: ValueError if it is not an export, ExchangeError for another revision or an invalid row."""
    by_name = {table.name: table for table in TABLES}
    head = json.loads(lines[0] if lines else "")
    if not isinstance(head, dict) or head.get("schema") != SCHEMA:
        raise ValueError(path)
    if head.get("revision") != tables.REVISION:
        raise ExchangeError(f"{path} has the revision {head.get('revision')}, but this package needs {tables.REVISION}")
    for number, line in enumerate(lines[1:], 2):
        data = json.loads(line)
        table = by_name.get(str(data.get("table"))) if isinstance(data, dict) else None
        if table is None or not isinstance(data.get("row"), dict) or data["row"].keys() != set(table.c.keys()):
            raise ExchangeError(f"{path}:{number} is not a row of a store")
        yield table, data["row"]
