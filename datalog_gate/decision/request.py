"""A request: all inputs of a judgement besides the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from datalog_gate.analysis.policy import ACTIONS, CHANGING
from datalog_gate.base.errors import UsageError
from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import Row
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.decision import Mode, Waiver, read_instant
from datalog_gate.engine.budget import BUDGET, Budget
from datalog_gate.schema.declaration import RelationRef
from datalog_gate.stack.model import Stack

MODES: tuple[Mode, ...] = ("record", "warn", "enforce")
"""The modes, the weakest first."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The user who makes the request."""

    user: str | None = None
    project: str | None = None
    domain: str | None = None
    roles: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[RelationRef, list[Row]]:
        """What rules read of the caller."""
        return {"gate:caller": [(self.user, self.project, self.domain)], "gate:role": [(role,) for role in self.roles]}


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """The inputs of a judgement besides the rules."""

    action: str
    now: datetime
    """The time, in UTC."""
    caller: Caller | None = None
    services: frozenset[str] = frozenset()
    """The services that are enabled and allowed for the caller."""
    mode: Mode = "enforce"
    """The strongest effect that a violation may have."""
    inventory: Inventory | None = None
    budget: Budget = BUDGET
    """The budget of each group of policies."""
    modes: Mapping[str, Mode] = field(default_factory=dict)
    """The strongest effect of violations of single policies, by policy id."""
    off: frozenset[str] = frozenset()
    """The policies that are not judged."""
    waivers: tuple[Waiver, ...] = ()
    against: tuple[Stack, ...] = ()
    """The stacks before the change, each with the id of the stack it becomes; none without an older state."""
    tolerant: bool = True
    """Whether pre-existing violations stop nothing."""
    cloud: Mapping[str, str | None] | None = None
    """The projects of the stacks by id, if the stacks are the whole cloud; else None."""


def read_action(action: str | None, stacks: Sequence[Stack], against: Sequence[Stack]) -> str:
    """Read the action; by default `update` against an older state, else `create`. Errors: UsageError, also for stacks
    that can't be judged together or against this older state."""
    action = action or ("update" if against else "create")
    if action not in ACTIONS:
        raise UsageError(f"there is no action {action}: use one of {', '.join(ACTIONS)}")
    if against and action not in CHANGING:
        raise UsageError(f"{action} can't be judged against an older state: only {' and '.join(CHANGING)} can")
    ids = [stack.id for stack in stacks]
    if not ids or len(set(ids)) < len(ids):
        raise UsageError(f"stacks that are judged together need different names, not {', '.join(ids) or 'none'}")
    old = [stack.id for stack in against]
    if len(set(old)) < len(old) or not set(old) <= set(ids):
        raise UsageError(f"the older state is of {', '.join(old)}, not of {', '.join(ids)}: give it the same name")
    return action


def read_caller(caller: Mapping[str, object] | None) -> Caller | None:
    """Read a caller: user, project and domain are texts, roles a list of texts. Errors: UsageError."""
    if caller is None:
        return None
    if unknown := sorted(set(caller) - {"user", "project", "domain", "roles"}):
        raise UsageError(f"a caller has user, project, domain and roles, not {', '.join(unknown)}")
    texts = {name: caller.get(name) for name in ("user", "project", "domain")}
    roles = caller.get("roles", ())
    if not all(value is None or isinstance(value, str) for value in texts.values()):
        raise UsageError("user, project and domain of a caller must be strings")
    if not isinstance(roles, list | tuple) or not all(isinstance(role, str) for role in roles):
        raise UsageError("the roles of a caller must be a list of strings")
    return Caller(**{name: str(value) for name, value in texts.items() if value is not None}, roles=tuple(roles))


def read_mode(mode: str) -> Mode:
    """Read a mode by its name. Errors: UsageError."""
    if mode in MODES:
        return mode
    raise UsageError(f"there is no mode {mode}: use one of {', '.join(MODES)}")


def read_time(time: datetime | str) -> datetime:
    """Read a time, in ISO 8601 if it is a text, in UTC if it has no zone. Errors: UsageError."""
    try:
        return read_instant(str(time))
    except ValueError:
        raise UsageError(f"{time} is not a time in UTC") from None
