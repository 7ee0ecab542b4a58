"""A claim in the journal, its states, and its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from datalog_gate.base.errors import GateError
from datalog_gate.services.contract import Held

State = Literal["intent", "reserved", "committed", "releasing", "released", "failed"]
MOVES: dict[State, tuple[State, ...]] = {
    "intent": ("reserved", "releasing", "failed"),
    "reserved": ("committed", "releasing"),
    "committed": ("releasing",),
    "releasing": ("released",),
    "released": (),
    "failed": (),
}
"""The next states of a claim. `intent`: the service may have been called; `releasing`: it is called until it has
released the claim; `failed`: it holds nothing and never did."""
OVER = tuple(state for state, after in MOVES.items() if not after)


class JournalError(GateError):
    """The journal can't be read or written. The step that raises this changed nothing, or nobody can know: what it may
    have begun is settled by the reconciler."""

    @property
    def shown(self) -> str:
        """What a user is told in a grant's resource."""
        return f"the grant could not be judged: {self}"


class LostError(JournalError):
    """Somebody else has the claim by now, or it was given back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim(Held):
    """A row of the journal."""

    service: str
    stack: str
    stack_name: str
    path: str
    """The path of the grant."""
    replaces: str
    """The uuid of the claim that this one replaces."""
    state: State
    since: float
    """When the state began."""
    expires: float | None = None
    """When the grant ends, by its own words."""
    abandoned: bool = False
    """Whether its stack leaves Heat and keeps its resources."""
    attempts: int = 0
    """Attempts in this state that failed or were broken off."""
    due: float = 0.0
    """When the next attempt is due."""
    late: float = 0.0
    """Until when a call that nobody waits for any more may take effect."""
    why: str = ""
    """Why the state began."""
    problem: str = ""
    """What went wrong in the last attempt."""
    owner: str = ""
    """The lease."""
    until: float = 0.0
    """When the lease ends."""

    @property
    def live(self) -> bool:
        return self.state in ("reserved", "committed")
