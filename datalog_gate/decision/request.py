"""What is asked of the gate besides the stack (layer 4), as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.finding import Mode, Waiver
from datalog_gate.engine.budget import BUDGET, Budget
from datalog_gate.stack.model import Stack

MODES: tuple[Mode, ...] = ("record", "warn", "enforce")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    user: str | None = None
    project: str | None = None
    domain: str | None = None
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked, besides the stack: the action, who asks, the services that are enabled and the caller may use, the
    time (UTC), the most that a violation may do (`mode`) and that one of a policy may do (`modes`, by policy), the
    inventory, what each group of policies may take, the policies that are `off`: not judged, the waivers, and the
    stacks as they were, each with the id of the one that it becomes; none where no older state is told."""

    action: str
    now: datetime
    caller: Caller | None = None
    services: frozenset[str] = frozenset()
    mode: Mode = "enforce"
    inventory: Inventory | None = None
    budget: Budget = BUDGET
    modes: Mapping[str, Mode] = field(default_factory=dict)
    off: frozenset[str] = frozenset()
    waivers: tuple[Waiver, ...] = ()
    against: tuple[Stack, ...] = ()
