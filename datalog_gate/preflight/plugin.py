"""The interface of preflight plugins."""

from __future__ import annotations

from typing import Literal

from datalog_gate.plugins.plugin_errors import RefusedError, UnavailableError
from datalog_gate.preflight.snapshot import Snapshot

__all__ = ["Outcome", "Plugin", "RefusedError", "Snapshot", "UnavailableError"]

GROUP = "datalog_gate.preflight"
"""The group of entry points."""
Outcome = Literal["accepted", "complete", "failed", "unknown"]
"""How an operation ended. `accepted`: Heat has begun it, and another outcome may follow; `failed`: it was not begun, or
it failed; `unknown`: it can't be determined any more."""


class Plugin:
    """The base class of plugins, which are entry points of ``datalog_gate.preflight``. A constructor takes one mapping
    of text to text, its settings, and raises ValueError for wrong ones.

    All plugins run in one order. `before` and `after` name plugins that this one comes before or after wherever they
    are enabled. `requires` names plugins that it comes after and can't do without. Of the plugins that are free to run
    the one with the least `ordinal` comes first, then the one with the least name.

    Operations run in many threads at once. One that takes longer than the option `service_call_seconds` counts as
    unavailable; if its `pre` returns after that, its `post` is called with ``failed``.
    """

    ordinal: int = 100
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()

    def pre(self, snapshot: Snapshot) -> None:
        """Check an operation; it may begin if this returns. Errors: RefusedError to forbid it; UnavailableError, or any
        other, if the plugin can't decide: that stops only operations that build something. A plugin that raises must
        undo its own changes, since its post-operation is not called."""

    def post(self, snapshot: Snapshot, outcome: Outcome) -> None:
        """Record the outcome of an operation that `pre` let pass: at least once, maybe more than once, and with a later
        outcome after ``accepted``. An error is logged and stops nothing."""
