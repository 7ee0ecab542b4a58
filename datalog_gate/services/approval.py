"""The service `approval`, by which a person approves a grant.

A grant that nobody has answered fails with ``awaiting approval A-12``. Once A-12 is approved, an update of the stack
goes on. An approval holds for the scope and the options that were asked for: others need a new one. Requests, verdicts
and the claims that use them, one for each approval, are in an SQLite file.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from datalog_gate.base.values import ResourceId
from datalog_gate.plugins.plugin_errors import RefusedError, UnavailableError
from datalog_gate.services import database
from datalog_gate.services.contract import Decision, Held, Request, Service, Status, digest, plain

State = Literal["awaiting", "approved", "refused", "used", "superseded", "expired"]
MODES = ("stop", "wait")
DEFAULTS = {"file": "", "ask": "", "mode": "stop", "days": "7", "wait_seconds": "3600", "wait_number": "8"}
COLUMNS = "number, project, stack, stack_name, path, options, scope, at, state, until"
OPEN = "('awaiting', 'approved', 'refused')"
BUSY = 5.0
"""Seconds that a transaction waits for others: less than a call of a service may take."""
POLLED = 60.0
"""Seconds after which a grant that has not asked again waits no more."""
TABLES = (
    "CREATE TABLE IF NOT EXISTS asked (number INTEGER PRIMARY KEY AUTOINCREMENT, digest, project, stack, stack_name, "
    "path, options, scope, at, state, until, uuid DEFAULT '', since DEFAULT 0, polled DEFAULT 0)",
    "CREATE INDEX IF NOT EXISTS asked_by_digest ON asked (digest)",
    "CREATE TABLE IF NOT EXISTS said (number, verdict, who, at, why)",
    "CREATE TABLE IF NOT EXISTS claims (key PRIMARY KEY, number)",
)
"""`asked` holds requests, `said` verdicts. A claim without a number is dead."""


class ApprovalError(UnavailableError):
    """A request that does not exist or can't be answered any more, or a file that can't be read or written."""


class Approval(Service):
    """The service. Its settings:

    file          the file of requests
    ask           whom users are told to ask
    mode          what a grant without the option `mode` does: stop or wait
    days          for which a request and its verdict count
    wait_seconds  that a grant of the mode `wait` waits
    wait_number   of grants that may wait at once

    The options of a grant are `mode`, and `reason`, for the person who approves it.
    """

    def __init__(self, settings: Mapping[str, str], clock: Callable[[], float] = time.time) -> None:
        if unknown := sorted(settings.keys() - DEFAULTS.keys()):
            raise ValueError(f"approval has no setting {', '.join(unknown)}")
        values = {**DEFAULTS, **settings}
        if not values["file"]:
            raise ValueError("approval needs the setting file, where requests stand")
        if values["mode"] not in MODES:
            raise ValueError(f"approval.mode is {values['mode']}, and not one of {', '.join(MODES)}")
        self._ask, self._default_mode = values["ask"], values["mode"]
        self._valid_seconds = _read_positive("days", values["days"]) * 86400
        self._wait_seconds = _read_positive("wait_seconds", values["wait_seconds"])
        self._wait_number = int(_read_positive("wait_number", values["wait_number"]))
        self._file, self._clock = Approvals(values["file"]), clock

    def facts(self, request: Request) -> None:
        """Refuse what a person refused. Only `reserve` asks for approval."""
        self._mode(request)
        approval = self._file.find(request, self._clock())
        if approval and approval.state == "refused":
            raise RefusedError(f"{approval.name} was {approval.answer}")

    def waits(self, request: Request) -> str:
        if self._mode(request) != "wait":
            return ""
        approval = self._file.wait(
            request, self._clock(), self._valid_seconds, wait_seconds=self._wait_seconds, number=self._wait_number
        )
        return self._awaiting(approval) if approval else ""

    def reserve(self, request: Request) -> Decision:
        self._mode(request)
        held, approval = self._file.use(request, self._clock(), self._valid_seconds)
        if approval is None:
            raise RefusedError("this was given back before")
        if held:
            attributes = {"approval": approval.name, "approved_by": approval.verdicts[-1].who}
            return {ResourceId(part.id).name: attributes for part in request.scope}
        if approval.state == "refused":
            raise RefusedError(f"{approval.name} was {approval.answer}")
        raise RefusedError(self._awaiting(approval))

    def release(self, held: Held) -> None:
        with self._file.transaction() as rows:
            rows.execute("INSERT OR REPLACE INTO claims VALUES (?, NULL)", (held.key,))

    def status(self, held: Held) -> Status:
        with self._file.transaction() as rows:
            claim = rows.execute("SELECT number FROM claims WHERE key = ?", (held.key,)).fetchone()
        return "held" if claim and claim["number"] is not None else "absent"

    def _mode(self, request: Request) -> str:
        """Whether the grant stops or waits. Errors: RefusedError for wrong options."""
        if unknown := sorted(map(str, request.options.keys() - {"mode", "reason"})):
            raise RefusedError(f"there is no option {', '.join(unknown)}, only mode and reason")
        mode = request.options.get("mode", self._default_mode)
        if mode not in MODES:
            raise RefusedError("mode is stop or wait")
        return str(mode)

    def _awaiting(self, approval: ApprovalRequest) -> str:
        return f"awaiting approval {approval.name}" + (f" of {self._ask}" if self._ask else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer of a person to a request."""

    verdict: str
    who: str
    at: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A request for approval."""

    number: int
    project: str
    stack: str
    stack_name: str
    path: str
    """The path of the grant that asked."""
    options: dict[str, Any]
    scope: list[dict[str, Any]]
    at: float
    """When it was asked, in seconds since 1970."""
    state: State
    until: float
    """When it expires, unless it is used before."""
    verdicts: tuple[Verdict, ...]
    """All verdicts in order: the last holds."""

    @property
    def name(self) -> str:
        return f"A-{self.number}"

    @property
    def answer(self) -> str:
        if self.state not in ("approved", "refused", "used"):
            return f"{self.state} approval" if self.state == "awaiting" else self.state
        last = self.verdicts[-1]
        return f"{self.state} by {last.who}" + (f": {last.why}" if last.why else "")

    def to_json(self) -> dict[str, object]:
        return {
            "id": self.name,
            "state": self.state,
            "project": self.project,
            "stack": self.stack,
            "stack_name": self.stack_name,
            "grant": self.path,
            "options": self.options,
            "scope": self.scope,
            "asked": format_time(self.at),
            "until": format_time(self.until),
            "said": [asdict(verdict) | {"at": format_time(verdict.at)} for verdict in self.verdicts],
        }


class Approvals:
    """The file of requests, created when it is needed. Times are seconds since 1970. Errors of all: ApprovalError."""

    def __init__(self, path: str) -> None:
        self._path = path

    def find(self, request: Request, now: float) -> ApprovalRequest | None:
        """The last request for the same that still counts."""
        with self.transaction() as rows:
            return _find(rows, request, now)

    def use(self, request: Request, now: float, seconds: float) -> tuple[bool, ApprovalRequest | None]:
        """Whether a claim may be held, and the request that it needs, or None if its key is dead. It may be held if it
        is held already, if a claim that it replaces holds the same, or if it was approved: that uses up the approval.
        Else the request is a new one, which counts for so many seconds, unless there is one for the same."""
        with self.transaction() as rows:
            claim = rows.execute("SELECT number FROM claims WHERE key = ?", (request.key,)).fetchone()
            if claim:
                return claim["number"] is not None, _get(rows, claim["number"], now)
            for key in request.replaces:
                replaced = rows.execute(
                    "SELECT number, digest FROM claims JOIN asked USING (number) WHERE key = ?", (key,)
                ).fetchone()
                if replaced and replaced["digest"] == _digest(request):
                    rows.execute("INSERT INTO claims VALUES (?, ?)", (request.key, replaced["number"]))
                    return True, _get(rows, replaced["number"], now)
            approval = _find(rows, request, now) or _insert(rows, request, now, seconds)
            if approval.state != "approved":
                return False, approval
            rows.execute("UPDATE asked SET state = 'used' WHERE number = ?", (approval.number,))
            rows.execute("INSERT INTO claims VALUES (?, ?)", (request.key, approval.number))
            return True, _get(rows, approval.number, now)

    def wait(
        self, request: Request, now: float, seconds: float, wait_seconds: float, number: int
    ) -> ApprovalRequest | None:
        """The request, as for `use`, if its grant's resource may go on waiting for the answer: for so many seconds,
        while fewer than this number of others wait."""
        with self.transaction() as rows:
            approval = _find(rows, request, now) or _insert(rows, request, now, seconds)
            if approval.state != "awaiting":
                return None
            row = rows.execute("SELECT uuid, since FROM asked WHERE number = ?", (approval.number,)).fetchone()
            since = row["since"] if row["uuid"] == request.uuid else now
            others = "SELECT count(*) FROM asked WHERE number != ? AND polled > ?"
            waiting = rows.execute(others, (approval.number, now - POLLED)).fetchone()[0]
            allowed = now - since < wait_seconds and waiting < number
            values = request.uuid, since, now if allowed else 0, approval.number
            rows.execute("UPDATE asked SET uuid = ?, since = ?, polled = ? WHERE number = ?", values)
            return approval if allowed else None

    def say(
        self, name: str, verdict: Literal["approved", "refused"], who: str, why: str, now: float
    ) -> ApprovalRequest:
        """Add the verdict of a person. The last one holds until it is used."""
        with self.transaction() as rows:
            letter, _, number = name.upper().rpartition("A-")
            known = not letter and number.isdecimal() and len(number) < 16
            approval = _get(rows, int(number), now) if known else None
            if approval is None:
                raise ApprovalError(f"there is no request {name}")
            if approval.state not in ("awaiting", "approved", "refused"):
                raise ApprovalError(f"{approval.name} can't be {verdict} any more: it is {approval.answer}")
            rows.execute("INSERT INTO said VALUES (?, ?, ?, ?, ?)", (approval.number, verdict, who, now, why))
            rows.execute("UPDATE asked SET state = ? WHERE number = ?", (verdict, approval.number))
            return _must_get(rows, approval.number, now)

    def list(self, now: float) -> tuple[ApprovalRequest, ...]:
        with self.transaction() as rows:
            numbers = rows.execute("SELECT number FROM asked ORDER BY number").fetchall()
            return tuple(_must_get(rows, number["number"], now) for number in numbers)

    def transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        return database.transaction(self._path, BUSY, ApprovalError, TABLES)


def format_time(seconds: float) -> str:
    """A time in ISO 8601, to the second."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _digest(request: Request) -> str:
    """The digest of what is approved: all but the uuid, which is new if a grant is tried again."""
    return digest(request.project, request.stack, request.grant, request.reserved)


def _find(rows: sqlite3.Connection, request: Request, now: float) -> ApprovalRequest | None:
    last = f"SELECT max(number) FROM asked WHERE digest = ? AND until > ? AND state IN {OPEN}"
    return _get(rows, rows.execute(last, (_digest(request), now)).fetchone()[0], now)


def _insert(rows: sqlite3.Connection, request: Request, now: float, seconds: float) -> ApprovalRequest:
    """Add a request. It supersedes those of the grant that nobody has answered."""
    older = "project = ? AND stack = ? AND path = ? AND state = 'awaiting'"
    grant = request.project, request.stack, request.grant
    rows.execute(f"UPDATE asked SET state = 'superseded' WHERE {older}", grant)
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
    columns, marks = ", ".join(values), ", ".join("?" * len(values))
    inserted = rows.execute(f"INSERT INTO asked ({columns}) VALUES ({marks})", tuple(values.values()))
    return _must_get(rows, inserted.lastrowid, now)


def _must_get(rows: sqlite3.Connection, number: int | None, now: float) -> ApprovalRequest:
    approval = _get(rows, number, now)
    assert approval is not None
    return approval


def _get(rows: sqlite3.Connection, number: int | None, now: float) -> ApprovalRequest | None:
    row = rows.execute(f"SELECT {COLUMNS} FROM asked WHERE number = ?", (number,)).fetchone()
    if row is None:
        return None
    verdicts = rows.execute("SELECT verdict, who, at, why FROM said WHERE number = ? ORDER BY rowid", (number,))
    expired = row["until"] <= now and row["state"] not in ("used", "superseded")
    data = {name: json.loads(row[name]) for name in ("options", "scope")}
    state = {"state": "expired"} if expired else {}
    return ApprovalRequest(**dict(row) | data | state, verdicts=tuple(Verdict(**dict(verdict)) for verdict in verdicts))


def _read_positive(name: str, text: str) -> float:
    """A number above zero. Errors: ValueError."""
    with suppress(ValueError):
        if 0 < (number := float(text)) < float("inf"):
            return number
    raise ValueError(f"approval.{name} is {text}, and no number above zero")
