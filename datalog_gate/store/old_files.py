"""Readers of the SQLite files of version 0.1: journals, approvals, claims."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import Table, inspect
from sqlalchemy.engine import Connection

from datalog_gate.store import tables

Row = dict[str, Any]
JSON = {"decision", "snapshot", "plugins", "options", "scope", "items"}
"""The JSON columns of all these tables."""
LONGEST = 255
"""The maximum length of a key."""


def read(rows: Connection) -> list[tuple[Table, Row]]:
    """Read the rows of all tables, converted to the current tables. Errors: ValueError for other files."""
    converted: list[tuple[Table, Row]] = []
    for name in _names(rows):
        converted += TABLES[name](rows)
    return converted


def drop(rows: Connection) -> None:
    for name in _names(rows):
        rows.exec_driver_sql(f"DROP TABLE {name}")


def _names(rows: Connection) -> list[str]:
    return sorted(set(inspect(rows).get_table_names()) & TABLES.keys())


def _claims(rows: Connection) -> Iterator[tuple[Table, Row]]:
    """Three kinds of files have a table with this name."""
    for row in _select(rows, "SELECT * FROM claims"):
        if "uuid" in row:
            yield tables.journal, {**row, "abandoned": bool(row["abandoned"])}
        elif "consumer" in row:
            yield tables.placement_claims, {**row, "key": _key(row["key"]), "owner": _key(row["owner"])}
        else:
            yield tables.approval_claims, row


def _asked(rows: Connection) -> Iterator[tuple[Table, Row]]:
    return ((tables.approval_requests, row) for row in _select(rows, "SELECT * FROM asked"))


def _said(rows: Connection) -> Iterator[tuple[Table, Row]]:
    positions: dict[int, int] = {}
    for row in _select(rows, "SELECT * FROM said ORDER BY rowid"):
        position = positions[row["number"]] = positions.get(row["number"], -1) + 1
        yield tables.approval_verdicts, {**row, "position": position}


def _outcomes(rows: Connection) -> Iterator[tuple[Table, Row]]:
    return ((tables.outcomes, row) for row in _select(rows, "SELECT * FROM outcomes"))


def _select(rows: Connection, query: str) -> list[Row]:
    return [_parse({**row}) for row in rows.exec_driver_sql(query).mappings()]


def _parse(row: Mapping[str, Any]) -> Row:
    return {name: json.loads(value) if name in JSON else value for name, value in row.items()}


def _key(key: str) -> str:
    """The key of a share, which used to contain its grant's path."""
    return key if len(key) <= LONGEST else hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


TABLES: Mapping[str, Callable[[Connection], Iterator[tuple[Table, Row]]]] = {
    "asked": _asked,
    "claims": _claims,
    "outcomes": _outcomes,
    "said": _said,
}
