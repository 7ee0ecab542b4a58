"""The outcomes of operations that plugins still have to be told.

They are in the file of the journal. Each plugin of an operation that the host accepted is told its outcome at least
once: an attempt is written before the plugin is called, and the result after it has returned.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from datalog_gate.plugins.plugin_errors import format_reason
from datalog_gate.preflight.plugin import Outcome, Plugin
from datalog_gate.preflight.snapshot import Snapshot, snapshot
from datalog_gate.services.journal import Journal
from datalog_gate.services.reconcile import ReconcileResult

LOG = logging.getLogger(__name__)
KEPT = ("action", "stack_name", "stack_id", "project", "decision_id", "request_id", "credentials")
"""The fields of a snapshot that are stored: all but the resources and the parameters."""
OLD = 86400.0
"""Seconds after which an outcome that nobody knows is told as unknown."""
TRIES = 10
FIRST, LONGEST = 60.0, 3600.0
"""Seconds until a plugin that raised is called again: doubled each time, up to the longest."""
TABLE = (
    "outcomes (id INTEGER PRIMARY KEY AUTOINCREMENT, snapshot, plugins, began REAL, outcome DEFAULT '', "
    "attempts INTEGER DEFAULT 0, due REAL DEFAULT 0)"
)


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
    """The operations in the file of a journal, which is created if there is none. Errors of all: JournalError."""

    def __init__(self, path: str) -> None:
        self._journal = Journal(path)
        with self._journal.transaction() as rows:
            rows.execute(f"CREATE TABLE IF NOT EXISTS {TABLE}")

    def add(self, picture: Snapshot, plugins: Iterable[str], began: float) -> None:
        """Add an operation that the host accepted and that was asked for at that time."""
        kept = {name: getattr(picture, name) for name in KEPT} | {"credentials": dict(picture.credentials)}
        with self._journal.transaction() as rows:
            values = (json.dumps(kept), json.dumps(list(plugins)), began)
            rows.execute("INSERT INTO outcomes (snapshot, plugins, began) VALUES (?, ?, ?)", values)

    def pending(self, now: float | None = None) -> tuple[Pending, ...]:
        """All operations with plugins to tell, or those that are due now, in their order."""
        with self._journal.transaction() as rows:
            due = rows.execute("SELECT * FROM outcomes WHERE due <= ifnull(?, due) ORDER BY id", (now,)).fetchall()
        pending = []
        for row in due:
            data = {"snapshot": snapshot(**json.loads(row["snapshot"])), "plugins": tuple(json.loads(row["plugins"]))}
            pending.append(Pending(**{**dict(row), **data, "outcome": row["outcome"] or None}))
        return tuple(pending)

    def attempt(self, pending: Pending, outcome: Outcome, due: float) -> bool:
        """Begin an attempt to tell this outcome, and set when the next is due. False if somebody else just did."""
        with self._journal.transaction() as rows:
            change = "UPDATE outcomes SET outcome = ?, attempts = attempts + 1, due = ? WHERE id = ? AND attempts = ?"
            return rows.execute(change, (outcome, due, pending.id, pending.attempts)).rowcount == 1

    def keep(self, pending: Pending, plugins: list[str]) -> None:
        """Note that only these plugins still have to be told. Without any the operation is deleted."""
        with self._journal.transaction() as rows:
            if plugins:
                rows.execute("UPDATE outcomes SET plugins = ? WHERE id = ?", (json.dumps(plugins), pending.id))
            else:
                rows.execute("DELETE FROM outcomes WHERE id = ?", (pending.id,))


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
    """Tell plugins one outcome, backwards if the operation failed, as `Ran.after` does."""
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
