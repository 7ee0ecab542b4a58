"""The journal of claims (layer 5): what services may hold for which grant, written down before they are asked.

In: each step before and after a call, and the time in seconds since 1970. Out: the claims, one for each uuid of a
grant's resource, for ever: a uuid whose claim is over gets no other. It is an SQLite file that the worker processes of
one host share. A claim is leased to whoever calls a service for it, so that no two do at once, and nobody's step counts
who has lost the lease; only that a claim is to be given back is written without one.
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
from datalog_gate.services import database
from datalog_gate.services.contract import Decision, Held, Request

State = Literal["intent", "reserved", "committed", "releasing", "released", "failed"]
MOVES: dict[State, tuple[State, ...]] = {
    "intent": ("reserved", "releasing", "failed"),
    "reserved": ("committed", "releasing"),
    "committed": ("releasing",),
    "releasing": ("released",),
    "released": (),
    "failed": (),
}
"""Where a claim may go from each state. `intent`: the service may have been asked; `releasing`: it is asked for the
claim back until it has said yes; `failed`: it holds nothing and never did."""
OVER = tuple(state for state, after in MOVES.items() if not after)
VERSION = 1
BUSY = 30.0
"""Seconds that a step waits for those of others."""


class JournalError(GateError):
    """The journal can't be read or written: nothing was changed by the step that raised this."""


class LostError(JournalError):
    """Somebody else has the claim by now, or it was given back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A row of the journal. `replaces` is the uuid of the claim that this one replaces, `abandoned` that its stack
    leaves Heat and keeps its resources. `since` is when the state began, and `why`. It is `due` to be released again
    after so many `attempts`, of which the last met a `problem`; a call that nobody waits for any more may take effect
    until `late`. `owner` has the lease before `until`."""

    uuid: str
    key: str
    service: str
    project: str
    stack: str
    stack_name: str
    path: str
    replaces: str
    state: State
    since: float
    decision: Decision
    expires: float | None = None
    abandoned: bool = False
    attempts: int = 0
    due: float = 0.0
    late: float = 0.0
    why: str = ""
    problem: str = ""
    owner: str = ""
    until: float = 0.0

    @property
    def live(self) -> bool:
        """Whether the service is known to hold it."""
        return self.state in ("reserved", "committed")

    @property
    def held(self) -> Held:
        """What the service is told of it."""
        return Held(key=self.key, project=self.project, uuid=self.uuid, decision=self.decision)


COLUMNS = tuple(field.name for field in fields(Claim))
TABLES = (
    "PRAGMA journal_mode = WAL",
    f"CREATE TABLE claims ({', '.join(COLUMNS)}, PRIMARY KEY (uuid))",
    "CREATE INDEX claims_by_state ON claims (state)",
    f"PRAGMA user_version = {VERSION}",
)
FREE: dict[str, object] = {"attempts": 0, "due": 0.0, "owner": "", "until": 0.0}
"""The columns of a claim that nobody works on."""


class Journal:
    """The journal in a file, which is made if it is not there. `late` are the seconds in which a call that nobody
    waits for any more may still take effect. Errors of all: JournalError."""

    def __init__(self, path: str, late: float = 300.0) -> None:
        self._path, self.late = path, late
        try:
            database.create(path, TABLES)
        except (OSError, sqlite3.Error) as error:
            raise JournalError(f"{path} can't be made: {error}") from error
        with self._transaction() as rows:
            version = rows.execute("PRAGMA user_version").fetchone()[0]
        if version != VERSION:
            raise JournalError(f"{path} is a journal of version {version}, and this package writes {VERSION}")

    def begin(self, request: Request, replaces: str, expires: float | None, now: float, lease: float) -> Claim:
        """The claim of a request, before its service is asked. A new one, or one whose asking was broken off, comes
        with the lease. What is replaced counts only if it is the same project's, in the same stack or abandoned.
        Errors: LostError if somebody else asks for it now, or if it is over or of another key."""
        assert request.uuid, "what is asked at the door reserves nothing"
        with self._transaction() as rows:
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
        """The claims that this one replaces, one after another, that are not over; newest first."""
        with self._transaction() as rows:
            return tuple(_replaced(rows, claim))

    def lease(self, uuid: str, now: float, seconds: float) -> Claim | None:
        """The claim, leased; None if there is none, somebody else has it, or it is over."""
        with self._transaction() as rows:
            claim = _get(rows, uuid)
            if claim is None or claim.until > now or claim.state in OVER:
                return None
            return _set(rows, claim, owner=uuid4().hex, until=now + seconds)

    def move(self, claim: Claim, state: State, now: float, why: str = "", **changes: object) -> None:
        """What became of a leased claim, with the columns that changed: the lease ends. One that is committed gives
        back those that it replaces. Errors: LostError."""
        with self._transaction() as rows:
            mine = _mine(rows, claim)
            if mine.state != claim.state:
                raise LostError("what this grant asked for was given back meanwhile")
            _set(rows, mine, state=_checked(mine, state), since=now, why=why, problem="", **changes, **FREE)
            if state == "committed":
                for one in _replaced(rows, claim):
                    self._give_back(rows, one, now, f"{claim.path} has replaced it")

    def again(self, claim: Claim, due: float, problem: str = "") -> None:
        """A leased claim stays in its state, to be tried again when `due`; with a `problem` this was a failed attempt.
        The lease ends. Errors: LostError."""
        with self._transaction() as rows:
            mine = _mine(rows, claim)
            _set(rows, mine, problem=problem, **{**FREE, "due": due, "attempts": mine.attempts + bool(problem)})

    def give_back(self, uuid: str, now: float, why: str, state: State | None = None) -> Claim | None:
        """The claim, which is to be released from now on whoever has the lease; None if nothing is to do, or it is not
        in this `state` any more."""
        with self._transaction() as rows:
            claim = _get(rows, uuid)
            if claim is None or claim.state in OVER or state not in (None, claim.state):
                return None
            return self._give_back(rows, claim, now, why)

    def expire(self, uuid: str, expires: float | None) -> None:
        """The time of a grant was changed."""
        with self._transaction() as rows:
            rows.execute("UPDATE claims SET expires = ? WHERE uuid = ?", (expires, uuid))

    def claim(self, uuid: str) -> Claim | None:
        """The claim of a grant's resource."""
        with self._transaction() as rows:
            return _get(rows, uuid)

    def claims(self, stack: str | None = None) -> tuple[Claim, ...]:
        """All claims that are not over, or those of a stack, oldest state first."""
        with self._transaction() as rows:
            return tuple(_select(rows, f"state NOT IN {OVER} AND stack = ifnull(?, stack) ORDER BY since, uuid", stack))

    def of_stack(self, stack: str, project: str, name: str) -> tuple[Claim, ...]:
        """The claims of the stack of this id, and of all within it, that are not over, newest first. One of a stack
        within has that one's id, and is known by its path; so is any where the id is not known."""
        with self._transaction() as rows:
            return tuple(_of_stack(rows, stack, project, name))

    def abandon(self, stack: str, project: str, name: str) -> None:
        """The user takes the stack out of Heat, with all within it, and keeps its resources: only once Heat has it no
        more does that count."""
        with self._transaction() as rows:
            for claim in tuple(_of_stack(rows, stack, project, name)):
                _set(rows, claim, abandoned=True)

    def forget(self, before: float) -> None:
        """Claims that were over before this time are no longer kept, unless they lead to one that is."""
        old = f"state IN {OVER} AND since < ? AND replaces NOT IN (SELECT uuid FROM claims)"
        with self._transaction() as rows:
            rows.execute(f"DELETE FROM claims WHERE {old}", (before,))

    def _give_back(self, rows: sqlite3.Connection, claim: Claim, now: float, why: str) -> Claim:
        """A lease stays, so that the release does not meet the call that goes on."""
        if claim.state == "releasing":
            return claim
        late = now + self.late if claim.state == "intent" else claim.late
        return _set(rows, claim, state=_checked(claim, "releasing"), since=now, late=late, why=why, attempts=0)

    def _transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        return transaction(self._path)


def transaction(path: str) -> AbstractContextManager[sqlite3.Connection]:
    """One transaction in the file of a journal. Errors: JournalError."""
    return database.transaction(path, BUSY, JournalError)


def _get(rows: sqlite3.Connection, uuid: str) -> Claim | None:
    return next(_select(rows, "uuid = ?", uuid), None)


def _select(rows: sqlite3.Connection, where: str, *values: object) -> Iterator[Claim]:
    for row in rows.execute(f"SELECT * FROM claims WHERE {where}", values):
        given: dict[str, Any] = dict(row)
        yield Claim(**{**given, "decision": json.loads(row["decision"]), "abandoned": bool(row["abandoned"])})


def _of_stack(rows: sqlite3.Connection, stack: str, project: str, name: str) -> Iterator[Claim]:
    for claim in _select(rows, f"project = ? AND state NOT IN {OVER} ORDER BY since DESC, uuid", project):
        root, _, rest = claim.path.partition("/")
        if claim.stack == stack or (root == name and ("/" in rest or not stack)):
            yield claim


def _replaced(rows: sqlite3.Connection, claim: Claim) -> Iterator[Claim]:
    """There is no circle: a claim replaces only what was there before it."""
    while old := _get(rows, claim.replaces):
        if old.state not in OVER:
            yield old
        claim = old


def _mine(rows: sqlite3.Connection, claim: Claim) -> Claim:
    """The claim as it is now. Errors: LostError."""
    now = _get(rows, claim.uuid)
    if now is None or now.owner != claim.owner:
        raise LostError("what this grant asked for took too long")
    return now


def _checked(claim: Claim, state: State) -> State:
    assert state in MOVES[claim.state], f"{claim.uuid} goes from {claim.state} to {state}"
    return state


def _set(rows: sqlite3.Connection, claim: Claim, **changes: object) -> Claim:
    columns = ", ".join(f"{name} = ?" for name in changes)
    values = [json.dumps(change) if isinstance(change, dict) else change for change in changes.values()]
    rows.execute(f"UPDATE claims SET {columns} WHERE uuid = ?", (*values, claim.uuid))
    found = _get(rows, claim.uuid)
    assert found is not None
    return found
