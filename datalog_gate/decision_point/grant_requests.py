"""Requests to services, of grants and of operations, and objections to grants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from datalog_gate.base.records import replace
from datalog_gate.base.values import ResourceId
from datalog_gate.decision.decision import Grant
from datalog_gate.decision_point.operation import Operation, Verdict
from datalog_gate.facts.stack_relations import POLICY, default_scope, find_addressed
from datalog_gate.plugins.plugin_errors import RefusedError, UnavailableError
from datalog_gate.services.broker import Broker
from datalog_gate.services.contract import Request, digest, in_scope
from datalog_gate.services.journal_claim import Claim, JournalError
from datalog_gate.services.parts import parts, view_credentials, view_parameters
from datalog_gate.stack.model import Resource, Stack

CHANGES = frozenset({"update", "restore"})
"""The actions on an existing stack, which may have claims."""


def build_operation_request(operation: Operation, decision_id: str, stack: Stack | None) -> Request:
    """Build the request of an operation to the services for every stack, which get it one by one."""
    place = operation.project, operation.stack_name, operation.action
    return Request(
        service="",
        project=operation.project,
        stack=operation.stack_id,
        stack_name=operation.stack_name,
        grant="",
        uuid=digest(*place, operation.request_id or decision_id),
        options={},
        scope=tuple(parts(stack)) if stack else (),
        action=operation.action,
        decision_id=decision_id,
        credentials=view_credentials(operation.credentials or {}),
        parameters=view_parameters(stack) if stack else {},
    )


def build_requests(
    stack: Stack,
    grants: Collection[Grant],
    project: str,
    identify: Callable[[Request], Request] = lambda request: request,
) -> dict[str, Request]:
    """Build the requests of grants that unlock their service, by path. `identify` adds Heat's ids."""
    unlocked = {grant.grant.path: grant.service for grant in grants if grant.unlocked}
    if not unlocked:
        return {}
    options = {part.id: part.properties.get("options") for part in parts(stack) if part.id in unlocked}
    requests = {}
    for home in stack.walk():
        by_name = {resource.name: resource for resource in home.resources}
        for grant in home.resources:
            path = grant.id.path
            if grant.type != POLICY or path not in unlocked:
                continue
            grant_options = options[path]
            request = Request(
                service=unlocked[path],
                project=project,
                stack="",
                stack_name="",
                grant=path,
                uuid="",
                options=grant_options if isinstance(grant_options, MappingProxyType) else MappingProxyType({}),
                scope=in_scope(home, [resource.id for resource in _scope(grant, by_name)]),
            )
            requests[path] = identify(request)
    return {path: replace(request, together=_together(request, requests)) for path, request in requests.items()}


def _together(request: Request, requests: Mapping[str, Request]) -> tuple[Request, ...]:
    return tuple(other for other in requests.values() if other.service == request.service and other is not request)


def _scope(grant: Resource, by_name: dict[str, Resource]) -> list[Resource]:
    """The resources in scope without duplicates, in the order of the stack."""
    scope = grant.properties.get("scope")
    if not isinstance(scope, list):
        return default_scope(by_name) if scope is None else []
    ids = {resource.id for name in scope if (resource := find_addressed(name, by_name))}
    return [resource for resource in by_name.values() if resource.id in ids]


def find_objection(
    broker: Broker | None, operation: Operation, stack: Stack, grants: Collection[Grant]
) -> tuple[Verdict, str] | None:
    """Find why the grants of a stack cannot be given, before anything is built; None if no reason is known.

    The objection is a grant that unlocks nothing, a claim of a `sticky` service whose grant is gone, or a refusal of a
    service. No service is called without a grant that unlocks it. The resource of the grant asks its service again
    later, so nothing depends on this answer alone.
    """
    for grant in grants:
        if grant.refusal:
            return "denied", grant.refusal
    if broker is None:
        return None
    try:
        return _service_objection(broker, operation, stack, grants)
    except JournalError as error:
        return "undecided", f"the contents of the stack can't be read: {error}"


def _service_objection(
    broker: Broker, operation: Operation, stack: Stack, grants: Collection[Grant]
) -> tuple[Verdict, str] | None:
    unlocked = any(grant.unlocked for grant in grants)
    claims = _claims(broker, operation, stack) if unlocked or broker.sticky else ()
    if unlocked and operation.action not in CHANGES:
        broker.journal.claim("")  # otherwise the grant's resource would fail later

    def identify(request: Request) -> Request:
        stack_id = operation.stack_id if ResourceId(request.grant).stack == stack.id else ""
        grant = (request.grant, request.service)
        keys = tuple(claim.key for claim in claims if (claim.path, claim.service) == grant)
        return replace(request, stack=stack_id, stack_name=stack.name if stack_id else "", replaces=keys)

    requests = build_requests(stack, grants, operation.project, identify)
    current = claims if operation.action in CHANGES else ()
    for claim in current:
        if claim.service in broker.sticky and (resource := _uncovered(claim, stack, requests)):
            return "denied", f"the grant {claim.path} of {claim.service} can't be removed while {resource} stays"
    end = broker.ticks() + broker.limits.step
    for path, request in requests.items():
        if any(replace(request, uuid=claim.uuid).key == claim.key for claim in current if claim.path == path):
            continue  # the grant already holds exactly this
        try:
            broker.facts(request, end)
        except RefusedError as error:
            return "denied", f"{error.plugin} refuses the grant {path}: {error.reason}"
        except UnavailableError as error:
            return "undecided", f"{error.plugin} could not be consulted on the grant {path}: {error.reason}"
    return None


def _claims(broker: Broker, operation: Operation, stack: Stack) -> tuple[Claim, ...]:
    """The live claims of the stack. For an adoption: the abandoned claims of a stack of the same name."""
    adopts = operation.action == "adopt"
    if not adopts and operation.action not in CHANGES:
        return ()
    claims = broker.journal.of_stack(operation.stack_id, operation.project, stack.id)
    return tuple(claim for claim in claims if claim.live and claim.abandoned == adopts)


def _uncovered(claim: Claim, stack: Stack, requests: Mapping[str, Request]) -> str:
    """A resource of a claim that stays in the stack without a grant for its service; else "". If the decision of a
    claim names no resource, the claim covers the whole stack of its grant."""
    home = ResourceId(claim.path).stack
    paths = {stack.id} | {resource.id.path for nested in stack.walk() for resource in nested.resources}
    if not claim.decision:
        requested = claim.path in requests and requests[claim.path].service == claim.service
        return home if home in paths and not requested else ""
    scope = {part.id for request in requests.values() if request.service == claim.service for part in request.scope}
    for name in claim.decision:
        path = f"{home}/{name}"
        path = path if path in paths else path.partition(".")[0]
        if path in paths and path not in scope:
            return path
    return ""
