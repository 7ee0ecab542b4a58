"""What a provider writes to be asked before every operation and told after it (layer 5): the base of all plugins."""

from __future__ import annotations

from typing import Literal

from datalog_gate.base.errors import GateError
from datalog_gate.preflight.snapshot import Snapshot

Outcome = Literal["accepted", "complete", "failed", "unknown"]
"""What became of an operation. `accepted`: the host has begun it, and another outcome may follow; `failed`: it was not
begun, or it failed; `unknown`: nobody can tell any more."""


class Plugin:
    """The base of plugins, which the entry-point group ``datalog_gate.preflight`` names. A constructor takes one
    mapping of text to text, its settings, and raises ValueError for wrong ones.

    All plugins run in one order. `before` and `after` name plugins that this one comes before or after wherever they
    are enabled, `requires` those that it comes after and can't do without. Among plugins that no name holds back the
    least `ordinal` comes first, then the least name.

    Operations run in many threads at once, and must end by a deadline of their own: a request waits for them.
    """

    ordinal: int = 100
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()

    def pre(self, snapshot: Snapshot) -> None:
        """Asked before the operation, which may begin if this returns. Errors: RefusedError for what must not be;
        UnavailableError, or any other, where there is no telling: that stops what would build something, and nothing
        else. A plugin that raises undoes itself what it began, since its post-operation is not called."""

    def post(self, snapshot: Snapshot, outcome: Outcome) -> None:
        """Told what became of an operation that `pre` let pass: at least once, maybe more than once, and with a later
        outcome after ``accepted``. What it raises is logged and stops nothing."""


class PreflightError(GateError):
    """An operation that must not begin. `reason` is for whoever asked for it; the chain adds the name of the plugin
    and the `problems` of the post-operations that it then called."""

    def __init__(self, reason: str, plugin: str = "", problems: tuple[str, ...] = ()) -> None:
        self.reason, self.plugin, self.problems = reason, plugin, problems
        super().__init__(f"{plugin}: {reason}" if plugin else reason)


class RefusedError(PreflightError):
    """A plugin says no."""


class UnavailableError(PreflightError):
    """A plugin can't say: what it asks does not answer, or it is broken."""


class ChainError(GateError):
    """Plugins that can't be put to work: missing, broken, or in no order. Nothing is judged without them."""
