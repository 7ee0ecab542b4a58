"""The outcomes of operations that plugins must still learn.

They are in the store. Each plugin of an accepted operation is notified of its outcome at least once: an attempt is
written before the plugin is called, and the result after it has returned.
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
"""The stored fields of a snapshot: all except resources and parameters."""
OLD = 86400.0
"""Seconds after which an undetermined outcome is reported as unknown."""
TRIES = 10
FIRST, LONGEST = 60.0, 3600.0
"""Seconds until a plugin that raised is called again: doubled each time, up to the longest."""
BUSY = 30.0
"""Seconds that a transaction waits for locks."""


@dataclass(frozen=True, slots=True)
class Pending:
    """An accepted operation whose outcome some plugins must still learn."""

    id: int
    snapshot: Snapshot
    plugins: tuple[str, ...]
    """The plugins to notify, in the order of their pre-operations."""
    began: float
    """When it was requested, in seconds since 1970."""
    outcome: Outcome | None = None
    """None until known."""
    attempts: int = 0
    """The number of started attempts to notify."""
    due: float = 0.0
    """When the next attempt is due."""


FindOutcome = Callable[[Pending, float], Outcome | None]
"""Finds the outcome of an operation at a time; None if it is not known yet."""


class Outcomes:
    """The operations in a store: the URL of a database, or the path of a file, which is created if missing. Errors of
    all methods: JournalError."""

    lock = "outcomes"

    def __init__(self, store: str) -> None:
        self.store = Store(store, JournalError, BUSY)
        self.store.create()

    @atomic
    def add(self, rows: Connection, snapshot: Snapshot, plugins: Iterable[str], began: float) -> None:
        """Add an operation that the host accepted; it was requested at that time."""
        values = {
            "id": take_turn(rows, self.lock),
            "snapshot": {name: getattr(snapshot, name) for name in KEPT} | {"credentials": dict(snapshot.credentials)},
            "plugins": list(plugins),
            "began": began,
        }
        rows.execute(table.insert().values(outcome="", attempts=0, due=0.0, **values))

    @reading
    def pending(self, rows: Connection, now: float | None = None) -> tuple[Pending, ...]:
        """All operations with plugins to notify, or those that are due, in order."""
        due = [] if now is None else [table.c.due <= now]
        pending = []
        for row in rows.execute(select(table).where(*due).order_by(table.c.id)).mappings():
            data = {"snapshot": snapshot(**row["snapshot"]), "plugins": tuple(row["plugins"])}
            pending.append(Pending(**{**row, **data, "outcome": row["outcome"] or None}))
        return tuple(pending)

    @atomic
    def attempt(self, rows: Connection, pending: Pending, outcome: Outcome, due: float) -> bool:
        """Start an attempt to report this outcome, and set when the next is due. False if another process just did."""
        change = table.update().where(table.c.id == pending.id, table.c.attempts == pending.attempts)
        values = {"outcome": outcome, "attempts": pending.attempts + 1, "due": due}
        return bool(rows.execute(change.values(**values)).rowcount)

    @atomic
    def keep(self, rows: Connection, pending: Pending, plugins: list[str]) -> None:
        """Record that only these plugins must still be notified. Without any the operation is deleted."""
        mine = table.c.id == pending.id
        rows.execute(table.update().where(mine).values(plugins=plugins) if plugins else table.delete().where(mine))


def tell(
    outcomes: Outcomes, plugins: Mapping[str, Plugin], find_outcome: FindOutcome, now: float
) -> list[ReconcileResult]:
    """Notify plugins of the outcome of each operation, if known. Several processes may do so at once. A plugin that
    raises is called again later, `TRIES` times in all. Errors: JournalError."""
    results: list[ReconcileResult] = []
    for pending in outcomes.pending(now):
        outcome = pending.outcome or (find_outcome(pending, now) if pending.snapshot.stack_id else "unknown")
        if outcome is None and now - pending.began >= OLD:
            outcome = "unknown"
        if outcome and outcomes.attempt(pending, outcome, now + min(FIRST * 2**pending.attempts, LONGEST)):
            results += _tell(outcomes, plugins, replace(pending, outcome=outcome, attempts=pending.attempts + 1))
    return results


def _tell(outcomes: Outcomes, plugins: Mapping[str, Plugin], pending: Pending) -> list[ReconcileResult]:
    """Notify plugins of one outcome, in reverse order if the operation failed, as `PassedPlugins.after` does."""
    assert pending.outcome
    about, left, given_up = pending.snapshot, list(pending.plugins), pending.attempts >= TRIES
    failed = pending.outcome == "failed"
    message = f"that its {about.action} {'failed' if failed else f'is {pending.outcome}'}"
    results: list[ReconcileResult] = []
    for name in reversed(pending.plugins) if failed else pending.plugins:
        problem = _tell_plugin(plugins.get(name), about, pending.outcome)
        if problem:
            why = f"{name} was not told {message}: {problem}{'; there are no more attempts' if given_up else ''}"
            LOG.error("decision %s: %s", about.decision_id, why)
        else:
            why = f"{name} was told {message}"
            left.remove(name)
            outcomes.keep(pending, left)
        results.append(ReconcileResult(about.decision_id, about.stack_id, "failed" if problem else "told", why))
    if left and given_up:
        outcomes.keep(pending, [])
    return results


def _tell_plugin(plugin: Plugin | None, snapshot: Snapshot, outcome: Outcome) -> str:
    if plugin is None:
        return "it is no longer enabled"
    try:
        plugin.post(snapshot, outcome)
    except Exception as error:  # noqa: BLE001 - somebody else's code
        return format_reason(error)
    return ""
