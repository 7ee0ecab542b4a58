"""A claim in the journal, its states, and its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from datalog_gate.base.errors import GateError
from datalog_gate.services.contract import Held

State = Literal["intent", "reserved", "committed", "ended", "releasing", "released", "failed"]
MOVES: dict[State, tuple[State, ...]] = {
    "intent": ("reserved", "releasing", "failed"),
    "reserved": ("committed", "ended", "releasing"),
    "committed": ("releasing",),
    "ended": (),
    "releasing": ("released",),
    "released": (),
    "failed": (),
}
"""The next states of a claim. `intent`: the service may have been called; `ended`: the operation without a grant has
ended, and its service knows; `releasing`: it is called until it has released the claim; `failed`: it holds nothing and
never did."""
OVER = tuple(state for state, after in MOVES.items() if not after)


class JournalError(GateError):
    """The journal can't be read or written. The failed step changed nothing, or its effect is unknown: then the
    reconciler settles it."""

    @property
    def shown(self) -> str:
        """The message for users of a grant's resource."""
        return f"the grant could not be judged: {self}"


class LostError(JournalError):
    """Somebody else has the claim, or it was released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Held):
    """A row of the journal."""

    service: str
    stack: str
    path: str
    """The path of the grant; empty for an operation."""
    replaces: str
    """The uuid of the claim that this one replaces."""
    state: State
    since: float
    """When the claim entered its state."""
    expires: float | None = None
    """When the grant ends, as written."""
    abandoned: bool = False
    """Whether its stack was removed from Heat without its resources."""
    attempts: int = 0
    """The failed or interrupted attempts in this state."""
    due: float = 0.0
    """When the next attempt is due."""
    late: float = 0.0
    """The time until which a timed out call may take effect."""
    why: str = ""
    """Why the claim entered its state."""
    problem: str = ""
    """The error of the last attempt."""
    owner: str = ""
    """The owner of the lease."""
    until: float = 0.0
    """When the lease ends."""

    @property
    def live(self) -> bool:
        return self.state in ("reserved", "committed")
