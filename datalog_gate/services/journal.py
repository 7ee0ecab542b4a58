"""The journal of claims: what services may hold for which grant.

It is an SQLite file that the worker processes of one host share. There is one claim for each uuid of a grant's
resource. A claim is leased to whoever calls a service for it, so that no two do at once. A step of somebody who lost
the lease does not count, except for a request to give the claim back. Times are seconds since 1970.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal
from uuid import uuid4

from datalog_gate.base.errors import GateError
from datalog_gate.base.values import ResourceId
from datalog_gate.services import database
from datalog_gate.services.contract import Held, Request

State = Literal["intent", "reserved", "committed", "releasing", "released", "failed"]
MOVES: dict[State, tuple[State, ...]] = {
    "intent": ("reserved", "releasing", "failed"),
    "reserved": ("committed", "releasing"),
    "committed": ("releasing",),
    "releasing": ("released",),
    "released": (),
    "failed": (),
}
"""The next states of a claim. `intent`: the service may have been called; `releasing`: it is called until it has
released the claim; `failed`: it holds nothing and never did."""
OVER = tuple(state for state, after in MOVES.items() if not after)
VERSION = 1
BUSY = 30.0
"""Seconds that a transaction waits for others."""


class JournalError(GateError):
    """The journal can't be read or written. The step that raises this changed nothing."""


class LostError(JournalError):
    """Somebody else has the claim by now, or it was given back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Held):
    """A row of the journal."""

    service: str
    stack: str
    stack_name: str
    path: str
    """The path of the grant."""
    replaces: str
    """The uuid of the claim that this one replaces."""
    state: State
    since: float
    """When the state began."""
    expires: float | None = None
    """When the grant ends, by its own words."""
    abandoned: bool = False
    """Whether its stack leaves Heat and keeps its resources."""
    attempts: int = 0
    """Attempts in this state that failed or were broken off."""
    due: float = 0.0
    """When the next attempt is due."""
    late: float = 0.0
    """Until when a call that nobody waits for any more may take effect."""
    why: str = ""
    """Why the state began."""
    problem: str = ""
    """What went wrong in the last attempt."""
    owner: str = ""
    """The lease."""
    until: float = 0.0
    """When the lease ends."""

    @property
    def live(self) -> bool:
        return self.state in ("reserved", "committed")


COLUMNS = tuple(field.name for field in fields(Claim))
TABLES = (
    "PRAGMA journal_mode = WAL",
    f"CREATE TABLE IF NOT EXISTS claims ({', '.join(COLUMNS)}, PRIMARY KEY (uuid))",
    "CREATE INDEX IF NOT EXISTS claims_by_state ON claims (state)",
    f"PRAGMA user_version = {VERSION}",
)
FREE: dict[str, object] = {"attempts": 0, "due": 0.0, "owner": "", "until": 0.0}
"""The columns of a claim without a lease."""


class Journal:
    """The journal in a file, which is created if there is none. A call that nobody waits for any more may still take
    effect for `late` seconds. Errors of all: JournalError."""

    def __init__(self, path: str, late: float = 300.0) -> None:
        self._path, self.late = path, late
        try:
            database.create(path, TABLES)
        except (OSError, sqlite3.Error) as error:
            raise JournalError(f"{path} can't be made: {error}") from error
        with self.transaction() as rows:
            version = rows.execute("PRAGMA user_version").fetchone()[0]
        if version != VERSION:
            raise JournalError(f"{path} is a journal of version {version}, and this package writes {VERSION}")

    def begin(self, request: Request, replaces: str, expires: float | None, now: float, lease: float) -> Claim:
        """The claim of a request, before its service is called. It is leased if it is new, or if a call was broken off.
        It replaces only a claim of the same project that is in the same stack or abandoned. Errors: LostError if
        somebody else has the lease, or if the claim is over or has another key."""
        assert request.uuid, "a request at the door reserves nothing"
        with self.transaction() as rows:
            claim = _get(rows, request.uuid)
            if claim is None:
                old = _get(rows, replaces)
                known = old and old.project == request.project and (old.stack == request.stack or old.abandoned)
                claim = Claim(
                    uuid=request.uuid,
                    key=request.key,
                    service=request.service,
                    project=request.project,
                    stack=request.stack,
                    stack_name=request.stack_name,
                    path=request.grant,
                    replaces=replaces if known else "",
                    state="intent",
                    since=now,
                    decision={},
                    expires=expires,
                    owner=uuid4().hex,
                    until=now + lease,
                )
                rows.execute("INSERT INTO claims (uuid) VALUES (?)", (claim.uuid,))
                return _set(rows, claim, **asdict(claim))
            if claim.key != request.key:
                raise LostError("this grant has asked for something else before")
            if claim.live:
                return claim
            if claim.state != "intent":
                raise LostError("what this grant asked for was given back, or refused")
            if claim.until > now:
                raise LostError("this grant is being asked for at the moment")
            return _set(rows, claim, owner=uuid4().hex, until=now + lease, attempts=claim.attempts + 1)

    def replaced(self, claim: Claim) -> tuple[Claim, ...]:
        """The claims that this one replaces, directly or not, and that are not over, newest first."""
        with self.transaction() as rows:
            return tuple(_replaced(rows, claim))

    def lease(self, uuid: str, now: float, seconds: float) -> Claim | None:
        """Lease a claim; None if there is none, if somebody else has the lease, or if it is over."""
        with self.transaction() as rows:
            claim = _get(rows, uuid)
            if claim is None or claim.until > now or claim.state in OVER:
                return None
            return _set(rows, claim, owner=uuid4().hex, until=now + seconds)

    def move(self, claim: Claim, state: State, now: float, why: str = "", **changes: object) -> None:
        """Move a leased claim to a state, with other columns that change, and end the lease. A claim that is committed
        gives back the claims that it replaces. Errors: LostError."""
        with self.transaction() as rows:
            current = _leased(rows, claim)
            if current.state != claim.state:
                raise LostError("what this grant asked for was given back meanwhile")
            _set(rows, current, state=_checked(current, state), since=now, why=why, problem="", **changes, **FREE)
            if state == "committed":
                for replaced in _replaced(rows, claim):
                    self._give_back(rows, replaced, now, f"{claim.path} has replaced it")

    def postpone(self, claim: Claim, due: float, problem: str = "") -> None:
        """Keep a leased claim in its state until the next attempt is `due`, and end the lease. With a `problem` this
        attempt failed. Errors: LostError."""
        with self.transaction() as rows:
            current = _leased(rows, claim)
            _set(rows, current, problem=problem, **{**FREE, "due": due, "attempts": current.attempts + bool(problem)})

    def give_back(self, uuid: str, now: float, why: str, state: State | None = None) -> Claim | None:
        """Mark a claim as releasing, whoever has the lease; None if it is over, or not in this `state` any more."""
        with self.transaction() as rows:
            claim = _get(rows, uuid)
            if claim is None or claim.state in OVER or state not in (None, claim.state):
                return None
            return self._give_back(rows, claim, now, why)

    def expire(self, uuid: str, expires: float | None) -> None:
        with self.transaction() as rows:
            rows.execute("UPDATE claims SET expires = ? WHERE uuid = ?", (expires, uuid))

    def claim(self, uuid: str) -> Claim | None:
        with self.transaction() as rows:
            return _get(rows, uuid)

    def claims(self, stack: str | None = None) -> tuple[Claim, ...]:
        """All claims that are not over, or those of a stack, oldest state first."""
        with self.transaction() as rows:
            return tuple(_select(rows, f"state NOT IN {OVER} AND stack = ifnull(?, stack) ORDER BY since, uuid", stack))

    def of_stack(self, stack: str, project: str, name: str) -> tuple[Claim, ...]:
        """The claims of a stack and of all stacks within it that are not over, newest first. Claims of a stack within
        have the id of that one and are found by their path, as are all if the id is not known."""
        with self.transaction() as rows:
            return tuple(_of_stack(rows, stack, project, name))

    def abandon(self, stack: str, project: str, name: str) -> None:
        """Note that the user takes a stack out of Heat, with all within it, and keeps its resources. It counts only
        once Heat does not have the stack any more."""
        with self.transaction() as rows:
            for claim in tuple(_of_stack(rows, stack, project, name)):
                _set(rows, claim, abandoned=True)

    def forget(self, before: float) -> None:
        """Delete claims that were over before this time, unless the claim that they replace is still kept."""
        old = f"state IN {OVER} AND since < ? AND replaces NOT IN (SELECT uuid FROM claims)"
        with self.transaction() as rows:
            rows.execute(f"DELETE FROM claims WHERE {old}", (before,))

    def _give_back(self, rows: sqlite3.Connection, claim: Claim, now: float, why: str) -> Claim:
        """The lease stays, so that the release does not meet a call that goes on."""
        if claim.state == "releasing":
            return claim
        late = now + self.late if claim.state == "intent" else claim.late
        return _set(rows, claim, state=_checked(claim, "releasing"), since=now, late=late, why=why, attempts=0)

    def transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        return database.transaction(self._path, BUSY, JournalError)


def _get(rows: sqlite3.Connection, uuid: str) -> Claim | None:
    return next(_select(rows, "uuid = ?", uuid), None)


def _select(rows: sqlite3.Connection, where: str, *values: object) -> Iterator[Claim]:
    for row in rows.execute(f"SELECT * FROM claims WHERE {where}", values):
        columns: dict[str, Any] = dict(row)
        yield Claim(**{**columns, "decision": json.loads(row["decision"]), "abandoned": bool(row["abandoned"])})


def _of_stack(rows: sqlite3.Connection, stack: str, project: str, name: str) -> Iterator[Claim]:
    for claim in _select(rows, f"project = ? AND state NOT IN {OVER} ORDER BY since DESC, uuid", project):
        home = ResourceId(claim.path).stack
        if claim.stack == stack or home.startswith(f"{name}/") or (home == name and not stack):
            yield claim


def _replaced(rows: sqlite3.Connection, claim: Claim) -> Iterator[Claim]:
    """There is no cycle: a claim replaces only older ones."""
    while old := _get(rows, claim.replaces):
        if old.state not in OVER:
            yield old
        claim = old


def _leased(rows: sqlite3.Connection, claim: Claim) -> Claim:
    """The current row of a leased claim. Errors: LostError."""
    current = _get(rows, claim.uuid)
    if current is None or current.owner != claim.owner:
        raise LostError("what this grant asked for took too long")
    return current


def _checked(claim: Claim, state: State) -> State:
    assert state in MOVES[claim.state], f"{claim.uuid} goes from {claim.state} to {state}"
    return state


def _set(rows: sqlite3.Connection, claim: Claim, **changes: object) -> Claim:
    columns = ", ".join(f"{name} = ?" for name in changes)
    values = [json.dumps(change) if isinstance(change, dict) else change for change in changes.values()]
    rows.execute(f"UPDATE claims SET {columns} WHERE uuid = ?", (*values, claim.uuid))
    changed = _get(rows, claim.uuid)
    assert changed is not None
    return changed
