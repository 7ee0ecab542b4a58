"""What a crash left open, settled (layer 5): in, the journal's claims and what became of their stacks; out, what was
done about them. To be called again and again: whatever is not settled now is settled later."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from datalog_gate.plugins.errors import PluginError
from datalog_gate.services.broker import Broker
from datalog_gate.services.journal import Claim

LOG = logging.getLogger(__name__)
FREE = "heat-manage reset_stack_status {stack}"
"""What frees a stack whose engine died (heat/cmd/manage.py), once no engine works on it."""


@dataclass(frozen=True, slots=True)
class StackState:
    """What became of a stack, since when in seconds since 1970, and the uuids of all resources that Heat has of it.
    `failed` if its creation did: of an update that failed there is no telling, since it may lead back to resources that
    Heat does not show. `absent` only if Heat says so to somebody who may see every project's stacks."""

    status: Literal["complete", "failed", "in_progress", "absent"]
    resources: frozenset[str] = frozenset()
    since: float = 0.0


Stacks = Callable[[str], StackState | None]
"""What became of the stack with an id; None if there is no telling now."""


@dataclass(frozen=True, slots=True)
class Ages:
    """Seconds: until a stack in progress counts as stuck, until a claim that can't be released is an alarm, and how
    long one that is over is remembered."""

    stuck: float = 4 * 3600.0
    alarm: float = 3600.0
    memory: float = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """What was done for a claim, and why; `stuck` and `alarm` ask a person to do something. Where a plugin was `told`
    what became of an operation, or that failed, the id is the decision's."""

    uuid: str
    stack: str
    done: Literal["committed", "released", "releasing", "stuck", "alarm", "failed", "told"]
    why: str


def reconcile(broker: Broker, stacks: Stacks, ages: Ages = Ages()) -> list[ReconcileResult]:
    """Settle every claim that is not over, as far as can be: several may do so at once. Errors: JournalError."""
    became: dict[str, StackState | None] = {}
    done = []
    for claim in broker.journal.claims():
        if claim.until > broker.clock():
            continue
        if claim.live and claim.stack not in became:
            became[claim.stack] = stacks(claim.stack)  # after the claims were read: what is gone by now is gone
        try:
            found = _settled(broker, claim, became.get(claim.stack), ages)
        except PluginError as error:
            found = ReconcileResult(claim.uuid, claim.stack, "failed", error.reason)
        if found is None:
            continue
        done.append(found)
        if found.done in ("stuck", "alarm"):
            LOG.error("%s of stack %s: %s", claim.path, claim.stack, found.why)
    broker.journal.forget(broker.clock() - ages.memory)
    return done


def _settled(broker: Broker, claim: Claim, became: StackState | None, ages: Ages) -> ReconcileResult | None:
    """What was done about one claim, if anything. Errors: PluginError."""
    now = broker.clock()
    if claim.state == "intent":
        return _released(broker, claim, "it was broken off while its service was asked", ages)
    if claim.state == "releasing":
        return _released(broker, claim, claim.why, ages) if claim.due <= now else None
    if claim.expires is not None and claim.expires <= now:
        return _released(broker, claim, "it has expired", ages)
    if became is None:
        return None
    if became.status == "absent":
        if not claim.abandoned:
            return _released(broker, claim, "its stack is gone", ages)
        settle = _committed if broker.service(claim.service)[0].on_abandon == "keep" else _released
        return settle(broker, claim, "its stack was abandoned", ages)
    if became.status == "in_progress":
        return _stuck(claim, now - became.since, ages)
    if claim.uuid in became.resources:
        return _committed(broker, claim, "its stack is complete", ages) if became.status == "complete" else None
    return _released(broker, claim, "its stack has another grant in its place, or none", ages)


def _committed(broker: Broker, claim: Claim, why: str, _ages: Ages) -> ReconcileResult | None:
    if claim.state == "committed":
        return None
    broker.commit(claim.uuid)
    return ReconcileResult(claim.uuid, claim.stack, "committed", why)


def _stuck(claim: Claim, seconds: float, ages: Ages) -> ReconcileResult | None:
    if seconds < ages.stuck:
        return None
    why = f"its stack has been in progress for {seconds:.0f} seconds; if no engine works on it: {FREE}"
    return ReconcileResult(claim.uuid, claim.stack, "stuck", why.format(stack=claim.stack))


def _released(broker: Broker, claim: Claim, why: str, ages: Ages) -> ReconcileResult | None:
    """Nothing is done if the claim has moved on since it was read."""
    broker.release(claim.uuid, why, claim.state)
    now = broker.journal.claim(claim.uuid)
    if now is None or now.state == claim.state != "releasing" or now.live:
        return None
    if now.state != "releasing":
        return ReconcileResult(claim.uuid, claim.stack, "released", now.why)
    age = broker.clock() - now.since
    if age < ages.alarm:
        return ReconcileResult(claim.uuid, claim.stack, "releasing", now.problem or now.why)
    return ReconcileResult(
        claim.uuid, claim.stack, "alarm", f"not released for {age:.0f} seconds: {now.problem or now.why}"
    )
