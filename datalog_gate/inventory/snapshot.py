"""An inventory with the age of each table, and its file.

The file has facts as lines of JSON, for `check --inventory`. A row of `gate:inventory` says for each table when its
service was read, and why the last reading failed. An inventory written by hand has no such rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from shutil import copymode
from typing import Any
from uuid import uuid4

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import to_json
from datalog_gate.facts.lines import FactLine, read
from datalog_gate.files.templates import read_text
from datalog_gate.schema import cloud

TABLES = "gate:inventory"
"""The relation with a row for each table: its name, when it was read, and why the last reading failed."""
JsonRow = Mapping[str, Any]
"""The values of a row by column, as JSON data; missing columns are null."""


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a relation of the cloud."""

    relation: str
    rows: tuple[JsonRow, ...]
    read: datetime | None
    """When its service was queried, in UTC; None if that is not known."""
    problem: str = ""
    """Why the last reading failed, if it did; then the rows are older."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The known state of the cloud."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    """The tables by relation."""
    others: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """Rows of relations that rules declare, as written: data by column or in order."""


def read_snapshot(path: Path) -> Snapshot:
    """Read an inventory. Errors: InputError."""
    return parse_snapshot(read_text(path), str(path))


def parse_snapshot(text: str, name: str) -> Snapshot:
    """Read the lines of an inventory; `name` is that of its file. Errors: InputError."""
    rows: dict[str, list[JsonRow]] = {}
    others: dict[str, list[object]] = {}
    readings: dict[str, tuple[datetime | None, str]] = {}
    for line in read(text, name):
        relation = cloud.relation(line.relation)
        if relation is None:
            others.setdefault(line.relation, []).append(_plain_row(line))
            continue
        values = zip(relation.positions, line.positional(relation), strict=True)
        row = {column: to_json(value, tagged=True) for column, value in values if value is not None}
        if line.relation == TABLES:
            readings[str(row.get("table"))] = _parse_reading(row, line)
        else:
            rows.setdefault(line.relation, []).append(row)
    tables = {
        relation: Table(relation, tuple(rows.get(relation, ())), *readings.get(relation, (None, "")))
        for relation in (*readings, *(relation for relation in rows if relation not in readings))
    }
    return Snapshot(tables, {relation: tuple(given) for relation, given in others.items()})


def write_snapshot(path: Path, snapshot: Snapshot) -> None:
    """Write an inventory atomically: a reader sees the old file or the new one, whatever fails in between. An old
    file's mode is kept, and links are followed. Errors: OSError."""
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        with temporary.open("x", encoding="utf-8", newline="") as file:
            if target.exists():
                copymode(target, temporary)
            file.writelines(f"{line}\n" for line in snapshot_lines(snapshot))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def snapshot_lines(snapshot: Snapshot) -> Iterator[str]:
    """The lines of an inventory: first those of `gate:inventory`, then the tables in their order."""
    return chain.from_iterable(lines_by_relation(snapshot).values())


def lines_by_relation(snapshot: Snapshot) -> dict[str, list[str]]:
    """The lines of each relation of an inventory, in their order."""
    readings = [
        {"table": table.relation, "read": table.read and format_time(table.read), "problem": table.problem or None}
        for table in snapshot.tables.values()
        if table.read or table.problem
    ]
    rows = {name: table.rows for name, table in snapshot.tables.items()}
    relations: dict[str, Iterable[object]] = {TABLES: readings, **rows, **snapshot.others}
    return {name: [_format_line(name, row) for row in of_relation] for name, of_relation in relations.items()}


def format_time(time: datetime) -> str:
    """The time in UTC, ``2027-03-01T12:00:00Z``."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _format_line(relation: str, row: object) -> str:
    """A line of JSON. Unpaired surrogates, which are not UTF-8, are escaped."""
    text = json.dumps({"relation": relation, "row": row}, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _plain_row(line: FactLine) -> object:
    if isinstance(line.row, tuple):
        return [to_json(value, tagged=True) for value in line.row]
    return {column: to_json(value, tagged=True) for column, value in line.row.items()}


def _parse_reading(row: JsonRow, line: FactLine) -> tuple[datetime | None, str]:
    try:
        read_at = datetime.fromisoformat(row["read"]).astimezone(UTC) if row.get("read") else None
    except (TypeError, ValueError):
        raise InputError([Diagnostic("bad-facts", f"{row['read']} is not a time", line.span)]) from None
    return read_at, str(row.get("problem") or "")
