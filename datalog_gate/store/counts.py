"""Counts of rows in the store."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from datalog_gate.store.tables import approval_requests, journal


def count_claims(rows: Connection, over: Collection[str]) -> list[tuple[str, str, float, float]]:
    """The claims in no state of `over`: service, state, count, and since when the oldest is in the state."""
    names = journal.c.service, journal.c.state
    query = select(*names, func.count(), func.min(journal.c.since)).where(journal.c.state.not_in(over)).group_by(*names)
    return [(service, state, float(number), since) for service, state, number, since in rows.execute(query)]


def count_misplaced(rows: Connection) -> dict[str, float]:
    """Count the claims of complete stacks with misplaced resources, by service."""
    query = select(journal.c.service, func.count()).where(journal.c.state == "committed").group_by(journal.c.service)
    misplaced: dict[str, int] = {row[0]: row[1] for row in rows.execute(query.where(journal.c.problem != ""))}
    return {service: float(misplaced.get(service, 0)) for service, _ in rows.execute(query)}


def count_approvals(rows: Connection, now: float) -> dict[str, float]:
    """Count the unanswered requests: `wait` if a grant in an engine waits, else `stop`."""
    table = approval_requests.c
    query = select(table.uuid).where(table.state == "awaiting", table.until > now)
    modes = ["wait" if uuid else "stop" for uuid in rows.execute(query).scalars()]
    return {mode: float(modes.count(mode)) for mode in ("stop", "wait")}
