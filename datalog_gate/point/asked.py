"""What a door asks the decision point, and what it is answered (layer 6).

A door translates its host's request into an `Asked` and the `Answer` into its host's dialect; it holds no policy logic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from datalog_gate.api import Rules
from datalog_gate.facts.stack import Stack
from datalog_gate.gate.decision import Decision

Door = Literal["api", "cfn", "plugin"]
Verdict = Literal["allowed", "denied", "unreadable", "undecided"]
CLOSED = frozenset({"create", "update", "adopt", "restore"})
"""The actions that stop where the gate can't decide: any other goes on, with an alarm."""
REASON = 2000
"""Characters of a reason at most, of which the first 255 say enough (heat/db/models.py:230)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One operation on one stack. `read` gives the stack as it would be, with the catalogue of the rules that will
    judge it; what it raises is an InputError. `credentials` are those of oslo.policy (user_id, project_id, roles, ...),
    None where the host can't vouch for them. `definition` is what the stack is made of, for plugins and for the log:
    template, environment, files, parameters as the host will take them. A `dry_run` is asked for nobody: it reserves
    and consults nothing."""

    door: Door
    action: str
    stack_name: str
    project: str
    read: Callable[[Rules], Stack]
    credentials: Mapping[str, object] | None
    definition: Mapping[str, object] = field(default_factory=dict)
    stack_id: str = ""
    request_id: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether the operation may go on, and why not: `reason` is one plain line of at most `REASON` characters, empty
    if it may. `id` is the decision's, or of what was logged in its place. `warnings` are for whoever asked."""

    verdict: Verdict
    id: str
    reason: str = ""
    warnings: tuple[str, ...] = ()
    decision: Decision | None = None

    @property
    def allowed(self) -> bool:
        """Whether the operation may go on."""
        return self.verdict == "allowed"
