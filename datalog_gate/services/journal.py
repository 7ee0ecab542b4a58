"""The journal of claims: what services may hold for each grant.

It is a table of the store, which the processes of all hosts share. There is one claim for each uuid of a grant's
resource. A caller of a service needs the claim's lease, so that no two call at once. Steps without the lease are
refused, except a request to release the claim. Times are seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any, Literal
from uuid import uuid4

from sqlalchemy import select
from sqlalchemy.engine import Connection

from datalog_gate.base.values import ResourceId
from datalog_gate.services.contract import Outcome, Request
from datalog_gate.services.journal_claim import MOVES, OVER, Claim, JournalError, LostError, State
from datalog_gate.store.tables import journal as table
from datalog_gate.store.transaction import Store, atomic, reading

BUSY = 30.0
"""Seconds that a transaction waits for locks."""
FREE: dict[str, object] = {"attempts": 0, "due": 0.0, "owner": "", "until": 0.0}
"""The columns of a claim without a lease."""


class Journal:
    """The journal in a store: the URL of a database, or the path of a file, which is created if missing. A call that
    timed out may still take effect for `late` seconds. Errors of all methods: JournalError."""

    lock = "journal"

    def __init__(self, store: str, late: float = 300.0) -> None:
        self.store, self.late = Store(store, JournalError, BUSY), late
        self.store.create()

    @atomic
    def begin(
        self, rows: Connection, request: Request, replaces: str, expires: float | None, now: float, lease: float
    ) -> Claim:
        """The claim of a request, before its service is called. It is leased if it is new, or if a call was
        interrupted. It replaces only a claim of the same project in the same stack, or an abandoned one. Errors:
        LostError if somebody else has the lease, or if the claim is over or has another key."""
        assert request.uuid, "a request at the door reserves nothing"
        claim = _get(rows, request.uuid)
        if claim is None:
            old = _get(rows, replaces) if replaces else None
            known = old and old.project == request.project and (old.stack == request.stack or old.abandoned)
            claim = Claim(
                uuid=request.uuid,
                key=request.key,
                service=request.service,
                project=request.project,
                stack=request.stack,
                stack_name=request.stack_name,
                action=request.action,
                path=request.grant,
                replaces=replaces if known else "",
                state="intent",
                since=now,
                decision={},
                expires=expires,
                owner=uuid4().hex,
                until=now + lease,
            )
            rows.execute(table.insert(), asdict(claim))
            return claim
        if claim.key != request.key:
            raise LostError("this grant asked for something else before")
        if claim.live:
            return claim
        if claim.state != "intent":
            raise LostError("what this grant asked for was released, or refused")
        if claim.until > now:
            raise LostError("this grant is being processed")
        return _set(rows, claim, owner=uuid4().hex, until=now + lease, attempts=claim.attempts + 1)

    @atomic
    def replaced(self, rows: Connection, claim: Claim) -> tuple[Claim, ...]:
        """The claims that this one replaces, directly or indirectly, and that are not over, newest first."""
        return tuple(_replaced(rows, claim))

    @atomic
    def lease(
        self, rows: Connection, uuid: str, now: float, seconds: float, outcome: Outcome | Literal[""] = ""
    ) -> Claim | None:
        """Lease a claim, and record the outcome of its operation; None if there is none, if somebody else has the
        lease, or if it is over."""
        claim = _get(rows, uuid)
        if claim is None or claim.until > now or claim.state in OVER:
            return None
        return _set(rows, claim, owner=uuid4().hex, until=now + seconds, outcome=claim.outcome or outcome)

    @atomic
    def move(
        self, rows: Connection, /, claim: Claim, state: State, now: float, why: str = "", **changes: object
    ) -> None:
        """Move a leased claim to a state, with other changed columns, and end the lease. A committed claim releases the
        claims that it replaces. Errors: LostError."""
        current = _leased(rows, claim)
        if current.state != claim.state:
            raise LostError("what this grant asked for was released meanwhile")
        _set(rows, current, state=_checked(current, state), since=now, why=why, problem="", **changes, **FREE)
        if state == "committed":
            for replaced in _replaced(rows, claim):
                self._give_back(rows, replaced, now, f"{claim.path} has replaced it")

    @atomic
    def postpone(self, rows: Connection, claim: Claim, due: float, problem: str = "") -> None:
        """Keep a leased claim in its state until the next attempt is `due`, and end the lease. A `problem` says that
        this attempt failed. Errors: LostError."""
        current = _leased(rows, claim)
        _set(rows, current, problem=problem, **{**FREE, "due": due, "attempts": current.attempts + bool(problem)})

    @atomic
    def give_back(self, rows: Connection, uuid: str, now: float, why: str, state: State | None = None) -> Claim | None:
        """Mark a claim as releasing, even without the lease; None if it is over, or no longer in this `state`."""
        claim = _get(rows, uuid)
        if claim is None or claim.state in OVER or state not in (None, claim.state):
            return None
        return self._give_back(rows, claim, now, why)

    @atomic
    def expire(self, rows: Connection, uuid: str, expires: float | None) -> None:
        rows.execute(table.update().where(table.c.uuid == uuid).values(expires=expires))

    @atomic
    def locate(self, rows: Connection, uuid: str, stack: str) -> None:
        """Record the id of the stack that an operation creates."""
        rows.execute(table.update().where(table.c.uuid == uuid, table.c.stack == "").values(stack=stack))

    @reading
    def claim(self, rows: Connection, uuid: str) -> Claim | None:
        return _get(rows, uuid)

    @reading
    def claims(self, rows: Connection, stack: str | None = None) -> tuple[Claim, ...]:
        """All claims that are not over, or those of a stack, oldest state first."""
        of_stack = [] if stack is None else [table.c.stack == stack]
        claims = _select(rows, table.c.state.not_in(OVER), *of_stack)
        return tuple(sorted(claims, key=lambda claim: (claim.since, claim.uuid)))

    @reading
    def of_stack(self, rows: Connection, stack: str, project: str, name: str) -> tuple[Claim, ...]:
        """The claims of a stack and its nested stacks that are not over, newest first. Claims of nested stacks have
        their own stack's id and are found by path, as are all if the id is not known."""
        return tuple(_of_stack(rows, stack, project, name))

    @atomic
    def abandon(self, rows: Connection, stack: str, project: str, name: str) -> None:
        """Record that the user removes a stack from Heat, with its nested stacks, and keeps its resources. It counts
        only once Heat no longer has the stack."""
        for claim in _of_stack(rows, stack, project, name):
            _set(rows, claim, abandoned=True)

    @atomic
    def forget(self, rows: Connection, before: float) -> None:
        """Delete claims that were over before this time, unless the claim that they replace is still stored."""
        old = table.c.state.in_(OVER), table.c.since < before, table.c.replaces.not_in(select(table.c.uuid))
        for uuid in rows.execute(select(table.c.uuid).where(*old)).scalars().all():  # MySQL does not delete by subquery
            rows.execute(table.delete().where(table.c.uuid == uuid))

    def _give_back(self, rows: Connection, claim: Claim, now: float, why: str) -> Claim:
        """The lease is kept, so that the release does not overlap with a running call."""
        if claim.state == "releasing":
            return claim
        late = now + self.late if claim.state == "intent" else claim.late
        return _set(rows, claim, state=_checked(claim, "releasing"), since=now, late=late, why=why, attempts=0)


def _get(rows: Connection, uuid: str) -> Claim | None:
    return next(_select(rows, table.c.uuid == uuid), None)


def _select(rows: Connection, *conditions: Any) -> Iterator[Claim]:
    for row in rows.execute(select(table).where(*conditions)).mappings():
        yield Claim(**row)


def _of_stack(rows: Connection, stack: str, project: str, name: str) -> list[Claim]:
    claims = []
    for claim in _select(rows, table.c.project == project, table.c.path != "", table.c.state.not_in(OVER)):
        home = ResourceId(claim.path).stack
        if claim.stack == stack or home.startswith(f"{name}/") or (home == name and not stack):
            claims.append(claim)
    return sorted(claims, key=lambda claim: (-claim.since, claim.uuid))


def _replaced(rows: Connection, claim: Claim) -> Iterator[Claim]:
    """There are no cycles: a claim replaces only older ones."""
    while old := _get(rows, claim.replaces):
        if old.state not in OVER:
            yield old
        claim = old


def _leased(rows: Connection, claim: Claim) -> Claim:
    """The current row of a leased claim. Errors: LostError."""
    current = _get(rows, claim.uuid)
    if current is None or current.owner != claim.owner:
        raise LostError("what this grant asked for took too long")
    return current


def _checked(claim: Claim, state: State) -> State:
    assert state in MOVES[claim.state], f"{claim.uuid} goes from {claim.state} to {state}"
    return state


def _set(rows: Connection, claim: Claim, **changes: Any) -> Claim:
    rows.execute(table.update().where(table.c.uuid == claim.uuid), changes)
    return replace(claim, **changes)
