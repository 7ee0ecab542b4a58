"""The outcomes of operations that plugins still have to be told.

They are in the store. Each plugin of an operation that the host accepted is told its outcome at least
once: an attempt is written before the plugin is called, and the result after it has returned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.engine import Connection

from datalog_gate.plugins.plugin_errors import format_reason
from datalog_gate.preflight.plugin import Outcome, Plugin
from datalog_gate.preflight.snapshot import Snapshot, snapshot
from datalog_gate.services.journal_claim import JournalError
from datalog_gate.services.reconcile import ReconcileResult
from datalog_gate.store.tables import outcomes as table
from datalog_gate.store.transaction import Store, atomic, reading, take_turn

LOG = logging.getLogger(__name__)
KEPT = ("action", "stack_name", "stack_id", "project", "decision_id", "request_id", "credentials")
"""The fields of a snapshot that are stored: all but the resources and the parameters."""
OLD = 86400.0
"""Seconds after which an outcome that nobody knows is told as unknown."""
TRIES = 10
FIRST, LONGEST = 60.0, 3600.0
"""Seconds until a plugin that raised is called again: doubled each time, up to the longest."""
BUSY = 30.0
"""Seconds that a transaction waits for others."""


@dataclass(frozen=True, slots=True)
class Pending:
    """An operation that the host accepted, and whose outcome some plugins don't know."""

    id: int
    snapshot: Snapshot
    plugins: tuple[str, ...]
    """The plugins to tell, in the order of their pre-operations."""
    began: float
    """When it was asked for, in seconds since 1970."""
    outcome: Outcome | None = None
    """None until it is known."""
    attempts: int = 0
    """Attempts to tell the outcome that were begun."""
    due: float = 0.0
    """When the next attempt is due."""


FindOutcome = Callable[[Pending, float], Outcome | None]
"""Finds the outcome of an operation at a time; None if it is not known yet."""


class Outcomes:
    """The operations in a store: the URL of a database, or the path of a file, which is created if there is none.
    Errors of all: JournalError."""

    lock = "outcomes"

    def __init__(self, store: str) -> None:
        self.store = Store(store, JournalError, BUSY)
        self.store.create()

    @atomic
    def add(self, rows: Connection, picture: Snapshot, plugins: Iterable[str], began: float) -> None:
        """Add an operation that the host accepted and that was asked for at that time."""
        values = {
            "id": take_turn(rows, self.lock),
            "snapshot": {name: getattr(picture, name) for name in KEPT} | {"credentials": dict(picture.credentials)},
            "plugins": list(plugins),
            "began": began,
        }
        rows.execute(table.insert().values(outcome="", attempts=0, due=0.0, **values))

    @reading
    def pending(self, rows: Connection, now: float | None = None) -> tuple[Pending, ...]:
        """All operations with plugins to tell, or those that are due now, in their order."""
        due = [] if now is None else [table.c.due <= now]
        pending = []
        for row in rows.execute(select(table).where(*due).order_by(table.c.id)).mappings():
            data = {"snapshot": snapshot(**row["snapshot"]), "plugins": tuple(row["plugins"])}
            pending.append(Pending(**{**row, **data, "outcome": row["outcome"] or None}))
        return tuple(pending)

    @atomic
    def attempt(self, rows: Connection, pending: Pending, outcome: Outcome, due: float) -> bool:
        """Begin an attempt to tell this outcome, and set when the next is due. False if somebody else just did."""
        change = table.update().where(table.c.id == pending.id, table.c.attempts == pending.attempts)
        values = {"outcome": outcome, "attempts": pending.attempts + 1, "due": due}
        return bool(rows.execute(change.values(**values)).rowcount)

    @atomic
    def keep(self, rows: Connection, pending: Pending, plugins: list[str]) -> None:
        """Note that only these plugins still have to be told. Without any the operation is deleted."""
        mine = table.c.id == pending.id
        rows.execute(table.update().where(mine).values(plugins=plugins) if plugins else table.delete().where(mine))


def tell(
    outcomes: Outcomes, plugins: Mapping[str, Plugin], find_outcome: FindOutcome, now: float
) -> list[ReconcileResult]:
    """Tell plugins the outcome of each operation, if it is known. Several may do so at once. A plugin that raises is
    called again later, `TRIES` times in all. Errors: JournalError."""
    results: list[ReconcileResult] = []
    for pending in outcomes.pending(now):
        outcome = pending.outcome or (find_outcome(pending, now) if pending.snapshot.stack_id else "unknown")
        if outcome is None and now - pending.began >= OLD:
            outcome = "unknown"
        if outcome and outcomes.attempt(pending, outcome, now + min(FIRST * 2**pending.attempts, LONGEST)):
            results += _tell(outcomes, plugins, replace(pending, outcome=outcome, attempts=pending.attempts + 1))
    return results


def _tell(outcomes: Outcomes, plugins: Mapping[str, Plugin], pending: Pending) -> list[ReconcileResult]:
    """Tell plugins one outcome, backwards if the operation failed, as `PassedPlugins.after` does."""
    assert pending.outcome
    about, left, given_up = pending.snapshot, list(pending.plugins), pending.attempts >= TRIES
    failed = pending.outcome == "failed"
    message = f"that its {about.action} {'failed' if failed else f'is {pending.outcome}'}"
    results: list[ReconcileResult] = []
    for name in reversed(pending.plugins) if failed else pending.plugins:
        problem = _tell_plugin(plugins.get(name), about, pending.outcome)
        if problem:
            why = f"{name} was not told {message}: {problem}{'; nobody tells it any more' if given_up else ''}"
            LOG.error("decision %s: %s", about.decision_id, why)
        else:
            why = f"{name} was told {message}"
            left.remove(name)
            outcomes.keep(pending, left)
        results.append(ReconcileResult(about.decision_id, about.stack_id, "failed" if problem else "told", why))
    if left and given_up:
        outcomes.keep(pending, [])
    return results


def _tell_plugin(plugin: Plugin | None, picture: Snapshot, outcome: Outcome) -> str:
    if plugin is None:
        return "it is not enabled any more"
    try:
        plugin.post(picture, outcome)
    except Exception as error:  # noqa: BLE001 - somebody else's code
        return format_reason(error)
    return ""
