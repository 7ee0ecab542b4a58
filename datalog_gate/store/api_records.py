"""Decisions and trials of the server, and its write requests.

A write, its record and its answer are one transaction, under the client's key or a generated one. So there is a record
of every write, and a repeated request gets the stored answer and is not done again, whatever died in between.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any
from uuid import uuid4

from sqlalchemy import Table, func, select
from sqlalchemy.engine import Connection

from datalog_gate.base.records import dataclass
from datalog_gate.store.tables import api_decisions, api_trials, api_writes
from datalog_gate.store.transaction import Store

WAIT = 5.0
"""Seconds that a transaction waits for locks."""
DAY = 86400.0
DECISION_ORDERS = {
    "time": (api_decisions.c.at.desc(), api_decisions.c.id),
    "name": (api_decisions.c.stack_name, api_decisions.c.at.desc(), api_decisions.c.id),
    "outcome": (api_decisions.c.outcome.desc(), api_decisions.c.at.desc(), api_decisions.c.id),
}
"""The orders of decisions."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write request."""

    operation: str
    path: str
    user: str
    project: str
    request_id: str
    digest: str
    """The digest of the body."""
    key: str = ""
    """The client's key; empty without one."""

    @property
    def row_key(self) -> str:
        """The key of its row, which differs between clients."""
        if not self.key:
            return uuid4().hex
        parts = "\0".join((self.operation, self.path, self.user, self.project, self.key))
        return hashlib.sha256(parts.encode()).hexdigest()


class ApiRecords:
    """The records in a store, which are kept for some days. Errors of all methods: StoreError."""

    def __init__(self, url: str, keep_days: int, clock: Callable[[], float] = time.time) -> None:
        self.store = Store(url, wait=WAIT)
        self._seconds, self._clock, self._cleaned = keep_days * DAY, clock, 0.0

    def ping(self) -> None:
        """Read the store."""
        self.store.run(None, lambda rows: rows.execute(select(api_writes.c.key).limit(1)).first())

    def find(self, write: Write) -> Mapping[str, Any] | None:
        """The row of a write that was answered before."""
        return self.store.run(None, lambda rows: _find(rows, write.row_key), reads=True)

    def write(self, write: Write, work: Callable[[], tuple[int, object]]) -> Mapping[str, Any] | None:
        """Do a write: its effect, its record and its answer are one transaction. `work` does it and returns the status
        and the answer; it may run several times. Returns the row if the write was answered before, and then does
        nothing. With the same key only one runs at a time."""
        key, now = write.row_key, self._clock()

        def work_once(rows: Connection) -> Mapping[str, Any] | None:
            if known := _find(rows, key):
                return known
            names = "operation", "path", "user", "project", "request_id", "digest"
            values = {name: getattr(write, name) for name in names}
            # as parameters: in `values()` an answer of None would be NULL to SQLAlchemy 1.4
            rows.execute(api_writes.insert(), {"key": key, "at": now, "status": 0, "answer": None, **values})
            status, answer = work()
            written = api_writes.update().where(api_writes.c.key == key)
            rows.execute(written, {"status": status, "answer": answer})
            return None

        known = self.store.run_together(work_once)
        self._clean()
        return known

    def add_decision(self, content: Mapping[str, object], **values: str) -> None:
        """Store a decision, with its `project`, `user`, `stack_name` and `request_id`. A newer one with the same id in
        a project replaces it."""
        shown = {name: content[name] for name in ("id", "outcome", "action")}
        self._put(api_decisions, {**shown, **values, "content": dict(content)})

    def update_decision(self, id_: str, project: str, content: Mapping[str, object]) -> None:
        """Replace what is stored of a decision."""
        same = api_decisions.c.id == id_, api_decisions.c.project == project
        change = api_decisions.update().where(*same).values(content=dict(content))
        self.store.run(None, lambda rows: rows.execute(change))

    def list_decisions(
        self, projects: Collection[str] | None, search: str, sort: str, skip: int, limit: int
    ) -> list[dict[str, Any]]:
        """Decisions in one of `DECISION_ORDERS`, without the first ones and without their content. `search` is a part
        of the stack's name, in any case."""
        names = "id", "stack_name", "project", "user", "action", "outcome", "at"
        columns = api_decisions.c
        query = select(*(columns[name] for name in names)).offset(skip)
        query = query.order_by(*DECISION_ORDERS[sort])
        if search:
            query = query.where(func.lower(columns.stack_name).contains(search.lower(), autoescape=True))
        return self._read_page(query, api_decisions, projects, limit)

    def find_decision(self, id_: str, projects: Collection[str] | None) -> dict[str, Any] | None:
        """The newest decision with this id in some projects, or in any with None."""
        query = select(api_decisions).where(api_decisions.c.id == id_).order_by(api_decisions.c.at.desc())
        return next(iter(self._read_page(query, api_decisions, projects, 1)), None)

    def write_trial(self, id_: str, content: Mapping[str, object]) -> None:
        """Store a trial, or replace what is stored of it."""
        self._put(api_trials, {"id": id_, "content": dict(content)})

    def find_trial(self, id_: str) -> dict[str, Any] | None:
        """What is stored of a trial."""
        query = select(api_trials.c.content).where(api_trials.c.id == id_)
        return self.store.run(None, lambda rows: rows.execute(query).scalar(), reads=True)

    def _put(self, table: Table, row: Mapping[str, object]) -> None:
        """Write a row in place of the one with its key."""

        def work(rows: Connection) -> None:
            rows.execute(table.delete().where(*(column == row[column.name] for column in table.primary_key)))
            rows.execute(table.insert().values(at=self._clock(), **row))

        self.store.run(None, work)
        self._clean()

    def _read_page(
        self, query: Any, table: Table, projects: Collection[str] | None, limit: int
    ) -> list[dict[str, Any]]:
        if projects is not None:
            query = query.where(table.c.project.in_(projects))
        page = query.limit(limit)
        return self.store.run(None, lambda rows: [dict(row) for row in rows.execute(page).mappings()], reads=True)

    def _clean(self) -> None:
        """Remove old records, once an hour."""
        now = self._clock()
        if now - self._cleaned < 3600:
            return
        self._cleaned = now

        def work(rows: Connection) -> None:
            for table in (api_writes, api_decisions, api_trials):
                rows.execute(table.delete().where(table.c.at < now - self._seconds))

        self.store.run(None, work)


def _find(rows: Connection, key: str) -> Mapping[str, Any] | None:
    row = rows.execute(select(api_writes).where(api_writes.c.key == key)).mappings().first()
    return dict(row) if row else None
