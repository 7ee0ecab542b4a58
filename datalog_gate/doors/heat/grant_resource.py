"""The behaviour of the resource type `DatalogGate::Policy`, a grant.

A grant is a claim in the journal, and its resource data holds the decision of the service. Whether a grant unlocks its
service is decided as at the other doors, on the definition of the root stack. All functions raise GrantRefusedError
with a reason for the user; any other exception is a failure of the gate.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from heat.common.context import StoredContext
from heat.engine import function
from heat.engine.stack import Stack as HeatStack
from heat.engine.template import Template
from heat.objects.resource import Resource as Row
from heat.objects.stack import Stack as StackRow

from datalog_gate.base.errors import EngineError, GateError, InputError
from datalog_gate.base.records import replace
from datalog_gate.base.values import ResourceId
from datalog_gate.decision.decision import read_instant
from datalog_gate.decision.grants import find_scope_problems
from datalog_gate.decision_point import point
from datalog_gate.decision_point.grant_requests import build_requests
from datalog_gate.doors.heat.heat_objects import copy_definition, owner_of
from datalog_gate.doors.heat.live_stack import CHANGING, LiveStack
from datalog_gate.plugins.plugin_errors import PluginError, RefusedError
from datalog_gate.services.broker import Broker
from datalog_gate.services.contract import Decision, Request, names
from datalog_gate.services.journal_claim import Claim, JournalError

LOG = logging.getLogger(__name__)


class GrantRefusedError(GateError):
    """The grant is refused. `shown` is the reason for the user."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        super().__init__(shown)


class _GrantPlace(NamedTuple):
    """The place of a grant: its path, such as ``web/placement``, and the root stack."""

    path: str
    root: Any


def check(resource: Any, definition: Any) -> None:
    """Check that a definition is a valid grant, and that the caller may grant the service."""
    if definition.external_id() is not None:
        raise GrantRefusedError("a grant can't be an external resource: remove external_id")
    if definition.deletion_policy() != definition.DELETE:
        raise GrantRefusedError("a grant ends with its resource: remove deletion_policy")
    if on := sorted(dependency.name for dependency in function.dependencies(definition._properties or {})):
        raise GrantRefusedError(f"a grant must be known before anything is built, but this one depends on {on[0]}")
    if not resource.stack.strict_validate:
        return  # a nested stack whose parameters are unknown: checked again when it is created
    properties = definition.properties(resource.properties_schema, resource.context)
    _find_broker(properties["service"])
    template = _current_template(resource.stack)
    for problem in find_scope_problems(properties["scope"], template[template.RESOURCES], (resource.name,)):
        raise GrantRefusedError(problem.text)
    _parse_end(properties["expires"])
    if not isinstance(resource.context, StoredContext):
        _find_caller(resource, None, properties["service"])


def find_wait_reason(resource: Any) -> str:
    """Why the reservation must wait; empty if the grant can be reserved or refused now."""
    broker, request, _ = _read_grant(resource, False)
    try:
        return broker.waits(request)
    except PluginError:
        return ""


def reserve(resource: Any, adopts: bool = False) -> None:
    """Reserve the grant at its service. If it `adopts`, it takes over the claim of an abandoned stack of the same
    name."""
    broker, request, replaced = _read_grant(resource, adopts)
    _check_waiting(resource, request)
    end = _parse_end(resource.properties["expires"])
    try:
        decision = broker.reserve(request, replaced.uuid if replaced else "", end)
    except PluginError as error:
        answer = "refuses" if isinstance(error, RefusedError) else "does not answer"
        raise GrantRefusedError(f"the service {request.service} {answer} this: {error.reason}") from error
    _store_decision(resource, decision)


def _read_grant(resource: Any, adopts: bool) -> tuple[Broker, Request, Claim | None]:
    """The broker, the request of the grant to its service, and the claim that it replaces."""
    check(resource, resource.t)
    service = resource.properties["service"]
    broker = _find_broker(service)
    place = _find_place(resource)
    replaced = _find_replaced_claim(resource, broker, place, adopts)
    return broker, _build_request(resource, place, replaced, service, resource.properties["scope"]), replaced


def needs_replacement(resource: Any, after: Any) -> bool:
    """Whether an update must replace the grant: its request changes, even with the same definition, or it has no claim.

    A rollback only requests grants that the update had deleted: the convergence engine considers such a resource
    complete when it returns, and never creates it (heat/engine/resource.py, `__init__`).
    """
    place = _find_place(resource)
    if place.root.action == "ROLLBACK":
        return resource.resource_id is None
    check(resource, after)
    properties = after.properties(resource.properties_schema, resource.context)
    claim = _find_broker(properties["service"]).journal.claim(resource.uuid)
    request = _build_request(resource, place, claim, properties["service"], properties["scope"])
    return claim is None or not claim.live or claim.key != request.key


def restore_decision(resource: Any) -> bool:
    """Store the decision of a failed grant again, if its claim is live; return whether it is."""
    claim = _any_broker().journal.claim(resource.uuid)
    if claim is None or not claim.live:
        return False
    _store_decision(resource, claim.decision)
    return True


def expire(resource: Any, expires: str | None) -> None:
    """Change when the grant ends."""
    _any_broker().journal.expire(resource.uuid, _parse_end(expires))


def release(resource: Any) -> None:
    """Release the claim of the grant, if any. An unreachable store does not prevent the deletion of a stack."""
    try:
        _any_broker().release(resource.uuid)
    except JournalError as error:
        LOG.error(
            "%s of stack %s is left to `datalog-gate services reconcile`: %s", resource.name, resource.stack.id, error
        )


def _any_broker() -> Broker:
    broker: Broker | None = point.shared_point().broker
    if broker is None:
        raise GrantRefusedError("no service is enabled here")
    return broker


def _find_broker(service: str) -> Broker:
    broker = _any_broker()
    try:
        broker.service(service)
    except PluginError:
        raise GrantRefusedError(f"the service {service} is not enabled here") from None
    return broker


def _find_caller(resource: Any, claim: Claim | None, service: str) -> tuple[Mapping[str, object], frozenset[str]]:
    """The caller for rules, who must be entitled to the service, and all services that the caller may grant.

    If Heat acts on its own, it knows no roles. Then only the service of the claim may be granted, since whoever created
    the grant was entitled to it.
    """
    if isinstance(resource.context, StoredContext):
        credentials = owner_of(resource.context)
        services = frozenset({claim.service} if claim else ())
    else:
        credentials = resource.context.to_policy_values()
        services = point.shared_point().entitlements.services(resource.stack.tenant_id, credentials)
    if service not in services:
        raise GrantRefusedError(f"the service {service} is not allowed for this caller")
    return point.build_caller(credentials), services


def _current_template(stack: Any) -> Any:
    """The template that the stack is being updated to (heat/engine/stack.py, `update_task`, in the legacy engine)."""
    if not stack.convergence and stack.status == stack.IN_PROGRESS and stack.action in CHANGING:
        return Template.load(stack.context, stack.prev_raw_template_id)
    return stack.t


def _find_place(resource: Any) -> _GrantPlace:
    live = LiveStack(resource.stack)
    root = HeatStack.load(resource.context, stack_id=live.owners[0].id) if live.owners else resource.stack
    return _GrantPlace(f"{live.path}/{resource.name}", root)


def _find_replaced_claim(resource: Any, broker: Broker, place: _GrantPlace, adopts: bool) -> Claim | None:
    """The claim that this grant replaces: that of another resource at the same place."""
    stack = resource.stack
    claims = [
        claim
        for claim in broker.journal.claims()
        if (claim.path, claim.project) == (place.path, stack.tenant_id) and claim.uuid != resource.uuid
        if claim.stack == stack.id or (adopts and claim.abandoned)
    ]
    return max(claims, key=lambda claim: (claim.live, claim.since), default=None)


def _build_request(
    resource: Any, place: _GrantPlace, claim: Claim | None, service: str, scope: list[str] | None
) -> Request:
    """Build the request of the grant to its service, if the rules unlock it. `claim` is its existing one."""
    who, services = _find_caller(resource, claim, service)
    action = {"CREATE": "create", "ADOPT": "adopt"}.get(place.root.action, "update")
    definition = copy_definition(_current_template(place.root))
    decide = point.shared_point().decide_grants
    try:
        stack, grants = decide(definition, place.root.name, action, who, services)
    except InputError as error:
        problems = "; ".join(diagnostic.message for diagnostic in error.diagnostics)
        raise GrantRefusedError(f"the stack can't be read: {problems}") from error
    except EngineError as error:
        raise GrantRefusedError(f"the policies could not be evaluated: {error}") from error
    grant = next((grant for grant in grants if grant.grant.path == place.path and grant.service == service), None)
    if grant is None:
        raise GrantRefusedError("the gate does not find this grant in the definition of the stack")
    if not grant.unlocked:
        raise GrantRefusedError(f"the grant {place.path} does not unlock {service}: {grant.reason}")
    request = build_requests(stack, grants, resource.stack.tenant_id, _make_identify(resource, place))[place.path]
    [home] = [nested for nested in stack.walk() if nested.id == ResourceId(place.path).stack]
    existing = {resource.name for resource in home.resources}
    scope_names = {name if name in existing else name.partition(".")[0] for name in map(str, scope or ())}
    if scope is not None and scope_names & existing != set(names(request)):
        raise GrantRefusedError("its scope can't be determined from the definition of the stack alone")
    return request


def _make_identify(resource: Any, place: _GrantPlace) -> Callable[[Request], Request]:
    """Create a function that adds the ids of this stack's grants, which Heat creates one after another."""
    context = resource.context

    def identify(request: Request) -> Request:
        if request.grant == place.path:
            return replace(request, stack=resource.stack.id, stack_name=resource.stack.name, uuid=resource.uuid)
        grant = ResourceId(request.grant)
        home = find_stack(ResourceId(grant.stack))
        if home is None:
            return request
        rows = [row for row in Row.get_all_active_by_stack(context, home.id).values() if row.name == grant.name]
        uuid = max(rows, key=lambda row: int(row.id)).uuid if rows else ""
        return replace(request, stack=home.id, stack_name=home.name, uuid=uuid)

    def find_stack(holder: ResourceId) -> Any:
        """The stack inside the resource `holder`, or the root stack if it has no path; None if it does not exist
        yet."""
        if not holder.stack:
            return place.root
        around = find_stack(ResourceId(holder.stack))
        nested = StackRow.get_all_by_owner_id(context, around.id) if around else ()
        # the backup stack of the legacy engine has the same owner, and a name that ends with *
        named = (row for row in nested if row.parent_resource_name == holder.name and row.name[-1] != "*")
        return next(named, None)

    return identify


def _check_waiting(resource: Any, request: Request) -> None:
    """Refuse the grant if Heat would not make the resources in scope wait for it.

    Heat uses the dependencies that it stored at the start. In the convergence engine these are edges, in which a
    replacement stands for the resource that it replaces.
    """
    stack = resource.stack
    if stack.convergence:
        row_names = {row.id: row.name for row in Row.get_all_active_by_stack(resource.context, stack.id).values()}
        edges = [(after, before) for after, before in stack.current_deps["edges"] if after[1]]
        existing: set[Any] = {row_names.get(after[0]) for after, _ in edges}
        own = (resource.id, resource.replaces)
        waiting = {row_names.get(after[0]) for after, before in edges if before and before[1] and before[0] in own}
    else:
        graph = getattr(resource, "graph", None)
        existing = set(names(request)) if graph is None else {node.name for node in graph.graph()}
        waiting = set() if graph is None else {node.name for node in graph.required_by(resource)}
    if lost := sorted(set(names(request)) & existing - waiting):
        raise GrantRefusedError(f"Heat would not make {', '.join(lost)} wait for this grant")


def _store_decision(resource: Any, decision: Decision) -> None:
    resource.data_set("decision", json.dumps(decision))
    resource.resource_id_set(resource.uuid)


def _parse_end(expires: str | None) -> float | None:
    """The end in seconds since 1970."""
    if expires is None:
        return None
    try:
        return read_instant(expires).timestamp()
    except ValueError:
        raise GrantRefusedError(f"expires is not a date: {expires}") from None
