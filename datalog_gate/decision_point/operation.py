"""What a door asks the decision point, and what it is answered (layer 6).

A door translates its host's request into an `Asked` and the `Answer` into its host's dialect; it holds no policy logic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from datalog_gate.decision.decision import Decision
from datalog_gate.decision_point.stack_definition import Definition
from datalog_gate.preflight.chain import Ran

Door = Literal["api", "cfn", "plugin"]
Verdict = Literal["allowed", "denied", "unreadable", "undecided"]
CLOSED = frozenset({"create", "update", "adopt", "restore"})
"""The actions that stop where the gate can't decide: any other goes on, with an alarm."""
REASON = 2000
"""Characters of a reason at most, of which the first 255 say enough (heat/db/models.py:230)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One operation on one stack. `definition` gives what the stack would be made of, and is called only if somebody
    looks; an InputError of it is the user's, and what else it raises goes back to the door. `credentials` are those of
    oslo.policy (user_id, project_id, roles, ...), None where the host can't vouch for them. A `dry_run` reserves and
    consults nothing. `against` gives what a stack that is changed was made of; None where the door can't say."""

    door: Door
    action: str
    stack_name: str
    project: str
    definition: Callable[[], Definition]
    credentials: Mapping[str, object] | None
    stack_id: str = ""
    request_id: str = ""
    dry_run: bool = False
    against: Callable[[], Definition] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether the operation may go on, and why not: `reason` is one plain line of at most `REASON` characters, empty
    if it may. `id` is the decision's, or of what was logged in its place. `warnings` are for whoever asked. `ran` are
    the plugins to tell what became of it, which `began` after that time, in seconds since 1970."""

    verdict: Verdict
    id: str
    reason: str = ""
    warnings: tuple[str, ...] = ()
    decision: Decision | None = None
    ran: Ran | None = field(default=None, compare=False, repr=False)
    began: float = field(default=0.0, compare=False, repr=False)

    @property
    def allowed(self) -> bool:
        """Whether the operation may go on."""
        return self.verdict == "allowed"
