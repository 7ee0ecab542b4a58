"""What people were asked to approve, and what they said (layer 5), in an SQLite file.

In: what a grant asks for, by its digest, and the word of a person on it. Out: the answers, and the claims that were
made of them, one of each approval.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from datalog_gate.base.errors import GateError
from datalog_gate.services import database
from datalog_gate.services.contract import Request, digest, plain

State = Literal["awaiting", "approved", "refused", "used", "superseded", "expired"]
OPEN = "('awaiting', 'approved', 'refused')"
BUSY = 5.0
"""Seconds that a step waits for those of others: less than a call of a service may take."""
POLLED = 60.0
"""Seconds after which who has not asked again waits no more."""
TABLES = """
CREATE TABLE IF NOT EXISTS asked (
    number INTEGER PRIMARY KEY AUTOINCREMENT, digest, project, stack, stack_name, path, options, scope, at, state,
    until, uuid DEFAULT '', since DEFAULT 0, polled DEFAULT 0);
CREATE INDEX IF NOT EXISTS asked_by_digest ON asked (digest);
CREATE TABLE IF NOT EXISTS said (number, verdict, who, at, why);
CREATE TABLE IF NOT EXISTS claims (key PRIMARY KEY, number);
"""
"""A claim without a number is dead."""


class ApprovalError(GateError):
    """A request that is not there, or that nobody can answer any more; or the file can't be read or written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a person said of a request."""

    verdict: str
    who: str
    at: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request: what the grant at `path` asked for, and when. It counts `until` then, unless it was used before.
    `said` is what was said of it, the last of which holds."""

    number: int
    project: str
    stack: str
    stack_name: str
    path: str
    options: dict[str, Any]
    scope: list[dict[str, Any]]
    at: float
    state: State
    until: float
    said: tuple[Said, ...]

    @property
    def name(self) -> str:
        """What people call it."""
        return f"A-{self.number}"

    @property
    def answer(self) -> str:
        """How it stands, in words."""
        if self.state not in ("approved", "refused", "used"):
            return f"{self.state} approval" if self.state == "awaiting" else self.state
        last = self.said[-1]
        return f"{self.state} by {last.who}" + (f": {last.why}" if last.why else "")

    def to_json(self) -> dict[str, object]:
        """As JSON data."""
        return {
            "id": self.name,
            "state": self.state,
            "project": self.project,
            "stack": self.stack,
            "stack_name": self.stack_name,
            "grant": self.path,
            "options": self.options,
            "scope": self.scope,
            "asked": when(self.at),
            "until": when(self.until),
            "said": [
                {"verdict": said.verdict, "who": said.who, "at": when(said.at), "why": said.why} for said in self.said
            ],
        }


class Approvals:
    """The file, which is made if it is not there. Errors of all: ApprovalError."""

    def __init__(self, path: str) -> None:
        self._path = path

    def find(self, request: Request, now: float) -> Asked | None:
        """What was asked like this, if it still counts."""
        with self._step() as rows:
            return _find(rows, request, now)

    def ask(self, request: Request, now: float, seconds: float) -> Asked:
        """What was asked like this, or else it is asked now, and counts for so many seconds. Whatever else the grant
        asked that nobody has answered is superseded."""
        with self._step() as rows:
            return _find(rows, request, now) or _ask(rows, request, now, seconds)

    def use(self, request: Request, now: float, seconds: float) -> tuple[bool, Asked | None]:
        """Whether this may be held, and what was asked for it, None if its key is dead. It may if it is held already,
        if a claim that it replaces holds the same, or if it was approved, which is used up by that. Else as `ask`."""
        with self._step() as rows:
            claim = rows.execute("SELECT number FROM claims WHERE key = ?", (request.key,)).fetchone()
            if claim:
                return claim["number"] is not None, _get(rows, claim["number"], now)
            for key in request.replaces:
                shared = rows.execute(
                    "SELECT number, digest FROM claims JOIN asked USING (number) WHERE key = ?", (key,)
                )
                if (found := shared.fetchone()) and found["digest"] == _digest(request):
                    rows.execute("INSERT INTO claims VALUES (?, ?)", (request.key, found["number"]))
                    return True, _get(rows, found["number"], now)
            asked = _find(rows, request, now) or _ask(rows, request, now, seconds)
            if asked.state != "approved":
                return False, asked
            rows.execute("UPDATE asked SET state = 'used' WHERE number = ?", (asked.number,))
            rows.execute("INSERT INTO claims VALUES (?, ?)", (request.key, asked.number))
            return True, _get(rows, asked.number, now)

    def wait(self, asked: Asked, uuid: str, now: float, seconds: float, number: int) -> bool:
        """Whether the grant's resource of this uuid may go on waiting: for so many seconds, if fewer than this number
        of others do. Errors as ever."""
        with self._step() as rows:
            row = rows.execute("SELECT * FROM asked WHERE number = ?", (asked.number,)).fetchone()
            since = row["since"] if row["uuid"] == uuid else now
            others = "SELECT count(*) FROM asked WHERE number != ? AND polled > ?"
            busy = rows.execute(others, (asked.number, now - POLLED)).fetchone()[0]
            may = now - since < seconds and busy < number
            values = uuid, since, now if may else 0, asked.number
            rows.execute("UPDATE asked SET uuid = ?, since = ?, polled = ? WHERE number = ?", values)
            return may

    def release(self, key: str) -> None:
        """Nothing is held under the key any more, nor ever again."""
        with self._step() as rows:
            rows.execute("INSERT OR REPLACE INTO claims VALUES (?, NULL)", (key,))

    def holds(self, key: str) -> bool:
        """Whether anything is held under the key."""
        with self._step() as rows:
            return bool(rows.execute("SELECT 1 FROM claims WHERE key = ? AND number NOT NULL", (key,)).fetchone())

    def say(self, name: str, verdict: Literal["approved", "refused"], who: str, why: str, now: float) -> Asked:
        """A person approves or refuses; until it is used, the last word holds."""
        with self._step() as rows:
            asked = _named(rows, name, now)
            if asked is None:
                raise ApprovalError(f"there is no request {name}")
            if asked.state not in ("awaiting", "approved", "refused"):
                raise ApprovalError(f"{asked.name} can't be {verdict} any more: it is {asked.answer}")
            rows.execute("INSERT INTO said VALUES (?, ?, ?, ?, ?)", (asked.number, verdict, who, now, why))
            rows.execute("UPDATE asked SET state = ? WHERE number = ?", (verdict, asked.number))
            return _got(rows, asked.number, now)

    def list(self, now: float) -> tuple[Asked, ...]:
        """All that was asked, in order."""
        with self._step() as rows:
            numbers = rows.execute("SELECT number FROM asked ORDER BY number").fetchall()
            return tuple(_got(rows, number["number"], now) for number in numbers)

    @contextmanager
    def _step(self) -> Iterator[sqlite3.Connection]:
        """One transaction, undone if it is left by an exception."""
        try:
            database.make(self._path)
            with database.transaction(self._path, BUSY) as rows:
                for one in TABLES.split(";"):
                    rows.execute(one)
                yield rows
        except (OSError, sqlite3.Error) as error:
            raise ApprovalError(f"{os.path.basename(self._path)}: {error}") from error


def when(seconds: float) -> str:
    """A time as ISO 8601 has it, to the second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _digest(request: Request) -> str:
    """What is approved: all but the uuid, which a grant that is tried again has anew."""
    return digest(request.project, request.stack, request.grant, request.reserved)


def _find(rows: sqlite3.Connection, request: Request, now: float) -> Asked | None:
    """What was asked like this and counts, the last of it."""
    last = f"SELECT max(number) FROM asked WHERE digest = ? AND until > ? AND state IN {OPEN}"
    return _get(rows, rows.execute(last, (_digest(request), now)).fetchone()[0], now)


def _ask(rows: sqlite3.Connection, request: Request, now: float, seconds: float) -> Asked:
    mine = request.project, request.stack, request.grant
    older = "project = ? AND stack = ? AND path = ? AND state = 'awaiting'"
    rows.execute(f"UPDATE asked SET state = 'superseded' WHERE {older}", mine)
    scope = [{"resource": part.id, "type": part.type, "properties": part.properties} for part in request.scope]
    values = {
        "digest": _digest(request),
        "project": request.project,
        "stack": request.stack,
        "stack_name": request.stack_name,
        "path": request.grant,
        "options": json.dumps(request.options, default=plain),
        "scope": json.dumps(scope, default=plain),
        "at": now,
        "state": "awaiting",
        "until": now + seconds,
    }
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    made = rows.execute(f"INSERT INTO asked ({names}) VALUES ({marks})", tuple(values.values()))
    return _got(rows, made.lastrowid, now)


def _named(rows: sqlite3.Connection, name: str, now: float) -> Asked | None:
    letter, _, number = name.upper().rpartition("A-")
    return _get(rows, int(number), now) if not letter and number.isdecimal() and len(number) < 16 else None


def _got(rows: sqlite3.Connection, number: int | None, now: float) -> Asked:
    found = _get(rows, number, now)
    assert found is not None
    return found


def _get(rows: sqlite3.Connection, number: int | None, now: float) -> Asked | None:
    row = rows.execute("SELECT * FROM asked WHERE number = ?", (number,)).fetchone()
    if row is None:
        return None
    said: Sequence[sqlite3.Row] = rows.execute(
        "SELECT * FROM said WHERE number = ? ORDER BY rowid", (number,)
    ).fetchall()
    expired = row["until"] <= now and row["state"] not in ("used", "superseded")
    return Asked(
        number=row["number"],
        project=row["project"],
        stack=row["stack"],
        stack_name=row["stack_name"],
        path=row["path"],
        options=json.loads(row["options"]),
        scope=json.loads(row["scope"]),
        at=row["at"],
        state="expired" if expired else row["state"],
        until=row["until"],
        said=tuple(Said(verdict=one["verdict"], who=one["who"], at=one["at"], why=one["why"]) for one in said),
    )
