"""The reconciliation of the journal's claims with the stacks in Heat.

It is called repeatedly: a claim that can't be settled now is settled later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from datalog_gate.plugins.plugin_errors import PluginError
from datalog_gate.services.broker import Broker
from datalog_gate.services.contract import Outcome
from datalog_gate.services.journal_claim import Claim

LOG = logging.getLogger(__name__)
FREE = "heat-manage reset_stack_status {stack}"
"""The command that releases a stack whose engine died (heat/cmd/manage.py)."""
KEPT = "its stack failed, and keeps this until it is deleted: openstack stack delete {stack}"
COMPARE = 600.0
"""Seconds between two comparisons of a stack."""
OLD = 86400.0
"""Seconds after which an undetermined outcome is reported as unknown."""
STUCK, ALARM, MEMORY = 4 * 3600.0, 3600.0, 30 * 86400.0
"""Seconds until a stack in progress counts as stuck, until a claim that can't be released is an alarm, and for which a
finished claim is stored."""


@dataclass(frozen=True, slots=True)
class StackState:
    """The state of a stack in Heat, and the uuids of all its resources. `since` is when the state began, in seconds
    since 1970. `failed` means that the creation failed: a failed update proves nothing, since it may return to
    resources that Heat does not show. `absent` only if Heat says so to a user who may see all stacks."""

    status: Literal["complete", "failed", "in_progress", "absent"]
    resources: frozenset[str] = frozenset()
    since: float = 0.0


FindMembers = Callable[[str], Mapping[str, str] | None]
"""Finds the types of all resources of a stack by physical id; None if they can't be determined now."""
FindStack = Callable[[str], StackState | None]
"""Finds the state of a stack by its id; None if it can't be determined now."""
FindOutcome = Callable[[Claim, float], Outcome | None]
"""Finds the outcome of a claim's operation at a time; None if it is not known yet."""


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """What was done for a claim, and why. `stuck`, `alarm` and `misplaced` need a person; `kept` is a claim whose stack
    failed. `waiting` is about the whole host."""

    uuid: str
    stack: str
    done: Literal["committed", "released", "releasing", "stuck", "alarm", "failed", "waiting", "kept", "misplaced"]
    why: str


def reconcile(
    broker: Broker,
    find_stack: FindStack,
    find_members: FindMembers = lambda _stack: None,
    find_outcome: FindOutcome = lambda _claim, _now: None,
) -> list[ReconcileResult]:
    """Settle every claim that is not over, as far as possible. Several processes may do so at once. Errors:
    JournalError."""
    states: dict[str, StackState | None] = {}
    results = []
    for claim in broker.journal.claims():
        if claim.until > broker.clock():
            continue
        if claim.live and claim.path and claim.stack not in states:
            states[claim.stack] = find_stack(claim.stack)  # after the claims were read: resources missing now are gone
        try:
            if claim.live and not claim.path:
                result = _end(broker, claim, find_outcome)
            else:
                state = states.get(claim.stack)
                result = _settle(broker, claim, state) or _compare(broker, claim, state, find_members)
        except PluginError as error:
            result = ReconcileResult(claim.uuid, claim.stack, "failed", error.reason)
        if result is None:
            continue
        results.append(result)
        if result.done in ("stuck", "alarm", "misplaced"):
            LOG.error("%s of stack %s: %s", claim.path, claim.stack, result.why)
    broker.journal.forget(broker.clock() - MEMORY)
    return results


def _settle(broker: Broker, claim: Claim, stack: StackState | None) -> ReconcileResult | None:
    now = broker.clock()
    if claim.state == "intent":
        return _release(broker, claim, "it was interrupted while its service was being asked")
    if claim.state == "releasing":
        return _release(broker, claim, claim.why) if claim.due <= now else None
    if claim.expires is not None and claim.expires <= now:
        return _release(broker, claim, "it has expired")
    if stack is None:
        return None
    if stack.status == "absent":
        if not claim.abandoned:
            return _release(broker, claim, "its stack is gone")
        if broker.service(claim.service).on_abandon == "keep":
            return _commit(broker, claim, "its stack was abandoned")
        return _release(broker, claim, "its stack was abandoned")
    if stack.status == "in_progress":
        seconds = now - stack.since
        why = f"its stack has been in progress for {seconds:.0f} seconds; if no engine works on it: {FREE}"
        result = ReconcileResult(claim.uuid, claim.stack, "stuck", why.format(stack=claim.stack))
        return result if seconds >= STUCK else None
    if claim.uuid in stack.resources:
        if stack.status == "complete":
            return _commit(broker, claim, "its stack is complete")
        why = KEPT.format(stack=claim.stack)
        if claim.problem != why:
            broker.note(claim.uuid, why)
        return ReconcileResult(claim.uuid, claim.stack, "kept", why)
    return _release(broker, claim, "its stack has another grant instead of it, or none")


def _compare(
    broker: Broker, claim: Claim, stack: StackState | None, find_members: FindMembers
) -> ReconcileResult | None:
    """Compare from time to time the places of a complete stack's members with the decision."""
    if claim.state != "committed" or stack is None or stack.status != "complete":
        return None
    problem, now = claim.problem, broker.clock()
    if claim.due <= now and broker.service(claim.service).places:
        members = find_members(claim.stack)
        problem = problem if members is None else broker.compare(claim.uuid, members, now + COMPARE)
    return ReconcileResult(claim.uuid, claim.stack, "misplaced", problem) if problem else None


def _end(broker: Broker, claim: Claim, find_outcome: FindOutcome) -> ReconcileResult | None:
    """Tell a service for every stack how its operation ended, if that is known."""
    now = broker.clock()
    outcome = claim.outcome or (find_outcome(claim, now) if claim.stack else None)
    if outcome is None and now - claim.since >= OLD:
        outcome = "unknown"
    if outcome is None:
        return None
    why = f"its {claim.action} {'failed' if outcome == 'failed' else f'is {outcome}'}"
    return _release(broker, claim, why) if outcome == "failed" else _commit(broker, claim, why, outcome)


def _commit(broker: Broker, claim: Claim, why: str, outcome: Outcome | Literal[""] = "") -> ReconcileResult | None:
    if claim.state == "committed":
        return None
    broker.commit(claim.uuid, outcome)
    return ReconcileResult(claim.uuid, claim.stack, "committed", why)


def _release(broker: Broker, claim: Claim, why: str) -> ReconcileResult | None:
    """Release a claim, unless it has changed since it was read."""
    broker.release(claim.uuid, why, claim.state)
    now = broker.journal.claim(claim.uuid)
    if now is None or now.state == claim.state != "releasing" or now.live:
        return None
    if now.state != "releasing":
        return ReconcileResult(claim.uuid, claim.stack, "released", now.why)
    age, why = broker.clock() - now.since, now.problem or now.why
    if age < ALARM:
        return ReconcileResult(claim.uuid, claim.stack, "releasing", why)
    return ReconcileResult(claim.uuid, claim.stack, "alarm", f"not released for {age:.0f} seconds: {why}")
