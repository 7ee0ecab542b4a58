"""What plugins are still to be told of operations that a host has accepted (layer 5), beside the claims in the file of
the journal.

In: an operation when it is accepted, and later what became of it. Out: each of its plugins is told at least once, as
far as it lets itself be told: an attempt is written down before the plugin is called, and what is told after it has
returned, so that a process that dies between the two tells it again, and one that always dies there stops some time.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from datalog_gate.plugins.errors import format_reason
from datalog_gate.preflight.plugin import Outcome, Plugin
from datalog_gate.preflight.snapshot import Snapshot, snapshot
from datalog_gate.services.journal import Journal, transaction
from datalog_gate.services.reconcile import ReconcileResult

LOG = logging.getLogger(__name__)
KEPT = ("action", "stack_name", "stack_id", "project", "decision_id", "request_id", "credentials")
"""What of a snapshot is kept: all but the resources and the parameters."""
OLD = 86400.0
"""Seconds after which what nobody knows of an operation is told as unknown."""
TRIES = 10
FIRST, LONGEST = 60.0, 3600.0
"""Seconds until a plugin that raised is called again: twice as many each time, up to the most."""
TABLE = (
    "outcomes (id INTEGER PRIMARY KEY AUTOINCREMENT, snapshot, plugins, began REAL, outcome DEFAULT '', "
    "attempts INTEGER DEFAULT 0, due REAL DEFAULT 0)"
)


@dataclass(frozen=True, slots=True)
class Pending:
    """An operation that the host has accepted. `plugins` are those that are still to be told, in the order of their
    pre-operations, and `began` is when it was asked for, in seconds since 1970. There is no `outcome` before it is
    known; with one, so many `attempts` to tell it were begun, and the next is `due`."""

    id: int
    snapshot: Snapshot
    plugins: tuple[str, ...]
    began: float
    outcome: Outcome | None = None
    attempts: int = 0
    due: float = 0.0


Ended = Callable[[Pending, float], Outcome | None]
"""What became of an operation, asked at a time; None if there is no telling yet."""


class Outcomes:
    """The operations in the file of a journal, which is made if it is not there. Errors of all: JournalError."""

    def __init__(self, path: str) -> None:
        Journal(path)
        self._path = path
        with transaction(path) as rows:
            rows.execute(f"CREATE TABLE IF NOT EXISTS {TABLE}")

    def add(self, picture: Snapshot, plugins: Iterable[str], began: float) -> None:
        """The host has accepted an operation that was asked for at that time."""
        kept = {name: getattr(picture, name) for name in KEPT} | {"credentials": dict(picture.credentials)}
        with transaction(self._path) as rows:
            values = (json.dumps(kept), json.dumps(list(plugins)), began)
            rows.execute("INSERT INTO outcomes (snapshot, plugins, began) VALUES (?, ?, ?)", values)

    def pending(self, now: float | None = None) -> tuple[Pending, ...]:
        """The operations of which somebody is to be told, or those that are due, in their order."""
        with transaction(self._path) as rows:
            where = "WHERE due <= ifnull(?, due) ORDER BY id"
            return tuple(map(_pending, rows.execute(f"SELECT * FROM outcomes {where}", (now,))))

    def attempt(self, pending: Pending, outcome: Outcome, due: float) -> bool:
        """Somebody begins to tell this outcome, and the next attempt is due then; not if somebody else just did."""
        with transaction(self._path) as rows:
            change = "UPDATE outcomes SET outcome = ?, attempts = attempts + 1, due = ? WHERE id = ? AND attempts = ?"
            return rows.execute(change, (outcome, due, pending.id, pending.attempts)).rowcount == 1

    def keep(self, pending: Pending, plugins: tuple[str, ...]) -> None:
        """Only these plugins are still to be told; without any the operation is forgotten."""
        with transaction(self._path) as rows:
            if plugins:
                rows.execute("UPDATE outcomes SET plugins = ? WHERE id = ?", (json.dumps(plugins), pending.id))
            else:
                rows.execute("DELETE FROM outcomes WHERE id = ?", (pending.id,))


def tell(outcomes: Outcomes, plugins: Mapping[str, Plugin], ended: Ended, now: float) -> list[ReconcileResult]:
    """Tell the plugins what became of each operation, as far as anybody knows: several may do so at once. One that
    raises is called again later, `TRIES` times in all. Errors: JournalError."""
    done: list[ReconcileResult] = []
    for pending in outcomes.pending(now):
        outcome = pending.outcome or (ended(pending, now) if pending.snapshot.stack_id else "unknown")
        if outcome is None and now - pending.began >= OLD:
            outcome = "unknown"
        if outcome and outcomes.attempt(pending, outcome, now + min(FIRST * 2**pending.attempts, LONGEST)):
            done += _tell(outcomes, plugins, replace(pending, outcome=outcome, attempts=pending.attempts + 1))
    return done


def _tell(outcomes: Outcomes, plugins: Mapping[str, Plugin], pending: Pending) -> list[ReconcileResult]:
    """Backwards where the operation failed, as `Ran.after`."""
    assert pending.outcome
    done, rest = [], pending.plugins
    said = f"that its {pending.snapshot.action} {'failed' if pending.outcome == 'failed' else f'is {pending.outcome}'}"
    for name in pending.plugins[::-1] if pending.outcome == "failed" else pending.plugins:
        if problem := _problem(plugins.get(name), pending.snapshot, pending.outcome):
            last = "; nobody tells it any more" if pending.attempts >= TRIES else ""
            why = f"{name} was not told {said}: {problem}{last}"
            LOG.error("decision %s: %s", pending.snapshot.decision_id, why)
            done.append(ReconcileResult(pending.snapshot.decision_id, pending.snapshot.stack_id, "failed", why))
        else:
            rest = tuple(other for other in rest if other != name)
            outcomes.keep(pending, rest)
            done.append(
                ReconcileResult(
                    pending.snapshot.decision_id, pending.snapshot.stack_id, "told", f"{name} was told {said}"
                )
            )
    if rest and pending.attempts >= TRIES:
        outcomes.keep(pending, ())
    return done


def _problem(plugin: Plugin | None, picture: Snapshot, outcome: Outcome) -> str:
    """What keeps the plugin from being told, if anything."""
    if plugin is None:
        return "it is not enabled any more"
    try:
        plugin.post(picture, outcome)
    except Exception as error:  # noqa: BLE001 - somebody else's code
        return format_reason(error)
    return ""


def _pending(row: sqlite3.Row) -> Pending:
    read = {"snapshot": snapshot(**json.loads(row["snapshot"])), "plugins": tuple(json.loads(row["plugins"]))}
    return Pending(**{**dict(row), **read, "outcome": row["outcome"] or None})
