"""Policies, rules and data sources that were created through the API.

Each change creates a numbered generation. A change names the generation that it was checked with, and is refused if
there is a newer one.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Table, select
from sqlalchemy.engine import Connection

from datalog_gate.base.errors import GateError
from datalog_gate.base.records import dataclass
from datalog_gate.store.tables import (
    data_sources,
    library_policies,
    pushed_rows,
    rule_changes,
    rule_generations,
    rule_policies,
    stored_rules,
)
from datalog_gate.store.transaction import Store, atomic, reading

RULES, ROWS = "rules", "rows"
MOST_BYTES = 8 * 1024 * 1024
"""The maximum compressed size of a table's rows, as in `generations`."""
Record = Mapping[str, Any]


class StaleError(GateError):
    """The rules have changed meanwhile."""


class TooManyRowsError(GateError):
    """The rows of a table exceed the maximum size."""


@dataclass(frozen=True, slots=True)
class Change:
    """The rows that a change adds or removes, by table. Rows to remove are given by values."""

    author: str
    change: str
    """The change in the history: add rule, remove policy."""
    subject: str
    content: tuple[Mapping[str, Any], ...] = ()
    """The content for the history: the complete policies, rules or data sources."""
    added: tuple[tuple[Table, Mapping[str, Any]], ...] = ()
    removed: tuple[tuple[Table, Mapping[str, Any]], ...] = ()


@dataclass(frozen=True, slots=True)
class StoredPolicies:
    """A generation: each list in order of creation."""

    number: int
    policies: tuple[Record, ...]
    rules: tuple[Record, ...]
    sources: tuple[Record, ...]


class RuleStore:
    """The rules of a store. Errors of all methods: those of the store."""

    lock = RULES

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self.store, self._clock = store, clock

    @reading
    def numbers(self, rows: Connection) -> tuple[int, int]:
        """The generation numbers of the rules and of the rows; 0 before the first."""
        numbers = {row.name: int(row.number) for row in rows.execute(select(rule_generations))}
        return numbers.get(RULES, 0), numbers.get(ROWS, 0)

    @atomic
    def read(self, rows: Connection) -> StoredPolicies:
        """The newest generation."""
        number = _number(rows, RULES)
        policies = _read(rows, select(rule_policies).order_by(rule_policies.c.position))
        rules = _read(rows, select(stored_rules).order_by(stored_rules.c.position, stored_rules.c.id))
        sources = _read(rows, select(data_sources).order_by(data_sources.c.position))
        return StoredPolicies(number, tuple(policies), tuple(rules), tuple(sources))

    @atomic
    def change(self, rows: Connection, seen: int, change: Change) -> int:
        """Apply a change to the generation `seen`, and return the number of the new one. Errors: StaleError."""
        if (now := _number(rows, RULES)) != seen:
            raise StaleError(f"the rules are now at generation {now}, but were read at {seen}")
        number = seen + 1
        for table, key in change.removed:
            rows.execute(table.delete().where(*(table.c[name] == value for name, value in key.items())))
        for table, values in change.added:
            position = {"position": number} if "position" in table.c else {}
            rows.execute(table.insert().values(**values, **position))
        content = [dict(item) for item in change.content]
        values = {"author": change.author, "change": change.change, "subject": change.subject[:255]}
        rows.execute(rule_changes.insert().values(number=number, at=self._clock(), content=content, **values))
        _set_number(rows, RULES, number)
        return number

    @reading
    def history(self, rows: Connection, before: int | None, limit: int) -> list[dict[str, Any]]:
        """The newest changes before a number."""
        query = select(rule_changes).order_by(rule_changes.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(rule_changes.c.number < before)
        return _read(rows, query)

    def push(self, source: str, table: str, data: Sequence[Any]) -> None:
        """Replace the rows of a table. Errors: TooManyRowsError."""
        content = zlib.compress(json.dumps(data).encode())
        if len(content) > MOST_BYTES:
            raise TooManyRowsError(f"{len(data)} rows take {len(content)} bytes, more than {MOST_BYTES}")

        def work(rows: Connection) -> None:
            number = _number(rows, ROWS) + 1
            same = pushed_rows.c.source == source, pushed_rows.c.table == table
            rows.execute(pushed_rows.delete().where(*same))
            values = {"source": source, "table": table, "number": number, "size": len(data), "content": content}
            rows.execute(pushed_rows.insert().values(**values))
            _set_number(rows, ROWS, number)

        self.store.run(RULES, work)

    def pushed(self) -> dict[tuple[str, str], list[Any]]:
        """The pushed rows, by data source and table."""

        def work(rows: Connection) -> list[Any]:
            order = pushed_rows.c.source, pushed_rows.c.table
            return list(rows.execute(select(pushed_rows).order_by(*order)))

        rows = self.store.run(None, work)
        return {(row.source, row.table): json.loads(zlib.decompress(row.content)) for row in rows}

    @reading
    def libraries(self, rows: Connection) -> list[dict[str, Any]]:
        """The policies of the library, by name."""
        return _read(rows, select(library_policies).order_by(library_policies.c.name, library_policies.c.id))

    @atomic
    def set_library(self, rows: Connection, identity: str, content: Mapping[str, Any] | None) -> None:
        """Replace a policy of the library, or remove it with None."""
        rows.execute(library_policies.delete().where(library_policies.c.id == identity))
        if content is not None:
            rows.execute(library_policies.insert().values(id=identity, name=content["name"], content=dict(content)))


def _read(rows: Connection, query: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in rows.execute(query).mappings()]


def _number(rows: Connection, name: str) -> int:
    return int(rows.execute(select(rule_generations.c.number).where(rule_generations.c.name == name)).scalar() or 0)


def _set_number(rows: Connection, name: str, number: int) -> None:
    if not rows.execute(
        rule_generations.update().where(rule_generations.c.name == name).values(number=number)
    ).rowcount:
        rows.execute(rule_generations.insert().values(name=name, number=number))
