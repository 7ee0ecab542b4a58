"""What keeps the grants of a stack from being had (layer 6), before anything exists.

In: what is asked, the stack as read, its grants as decided, and what the journal has of the stack. Out: an objection or
none. Whatever is said here the grant's own resource asks again, of the service as it is by then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from datalog_gate.decision.finding import Grant
from datalog_gate.decision.grants import PERHAPS
from datalog_gate.decision_point.grant_requests import Known, requests_of
from datalog_gate.decision_point.operation import Asked, Verdict
from datalog_gate.services.broker import Broker
from datalog_gate.services.contract import RefusedError, Request, UnavailableError
from datalog_gate.services.journal import Claim, JournalError
from datalog_gate.stack.model import Stack

CHANGES = frozenset({"update", "restore"})
"""The actions on a stack that is there, and may hold something."""


def objection(
    broker: Broker | None, asked: Asked, stack: Stack, grants: Collection[Grant]
) -> tuple[Verdict, str] | None:
    """Why not: a grant that unlocks nothing, one that a `sticky` service still holds something for, or what a service
    says. No service is called without a grant that unlocks it."""
    for grant in grants:
        if not grant.unlocked and grant.reason not in PERHAPS:
            return "denied", f"the grant {grant.grant.path} unlocks nothing of {grant.service}: {grant.reason}"
    if broker is None:
        return None
    try:
        return _of_services(broker, asked, stack, grants)
    except JournalError as error:
        return "undecided", f"what the stack holds can't be read: {error}"


def _of_services(broker: Broker, asked: Asked, stack: Stack, grants: Collection[Grant]) -> tuple[Verdict, str] | None:
    services = {grant.grant.path: grant.service for grant in grants if grant.unlocked}
    claims = _claims(broker, asked, stack) if services or broker.sticky else ()

    def known(path: str) -> Known:
        own = asked.stack_id if path.rpartition("/")[0] == stack.id else ""
        keys = tuple(claim.key for claim in claims if (claim.path, claim.service) == (path, services[path]))
        return Known(own, stack.name if own else "", "", keys)

    requests = requests_of(stack, grants, asked.project, known)
    there = claims if asked.action in CHANGES else ()
    for claim in there:
        if claim.service in broker.sticky and (left := _left(claim, stack, requests)):
            return "denied", f"the grant {claim.path} of {claim.service} can't go while {left} stays"
    end = broker.ticks() + broker.limits.step
    for path, request in requests.items():
        if any(replace(request, uuid=claim.uuid).key == claim.key for claim in there if claim.path == path):
            continue  # its resource holds just this, and asks nobody
        try:
            broker.facts(request, end)
        except RefusedError as error:
            return "denied", f"{error.service} refuses the grant {path}: {error.reason}"
        except UnavailableError as error:
            return "undecided", f"{error.service} could not be asked for the grant {path}: {error.reason}"
    return None


def _claims(broker: Broker, asked: Asked, stack: Stack) -> tuple[Claim, ...]:
    """What the stack holds; where one is adopted, what one of its name held that was abandoned."""
    adopts = asked.action == "adopt"
    if not adopts and asked.action not in CHANGES:
        return ()
    found = broker.journal.of_stack(asked.stack_id, asked.project, stack.id)
    return tuple(claim for claim in found if claim.live and claim.abandoned == adopts)


def _left(claim: Claim, stack: Stack, requests: Mapping[str, Request]) -> str:
    """A resource that a claim is for, and that the stack has and no grant asks the service for any more. Where the
    decision names no resource, the claim is for all of its grant's stack."""
    home = claim.path.rpartition("/")[0]
    there = {stack.id} | {resource.id.path for each in stack.walk() for resource in each.resources}
    if not claim.decision:
        asks = claim.path in requests and requests[claim.path].service == claim.service
        return home if home in there and not asks else ""
    scope = {part.id for request in requests.values() if request.service == claim.service for part in request.scope}
    paths = [f"{home}/{name}" for name in claim.decision]
    paths = [path if path in there else path.partition(".")[0] for path in paths]
    return next((path for path in paths if path in there and path not in scope), "")
