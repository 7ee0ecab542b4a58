"""What a grant's resource in Heat does (layer 6): in, the resource `DatalogGate::Policy` of the shim; out, a claim in
the journal, and the service's decision in the resource's data.

Whether a grant unlocks its service is decided as at the door, on the definition of the root stack. Errors of all:
GrantError with a reason for the user, and whatever else is raised where the gate itself is broken.
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
from datalog_gate.decision.decision import read_instant
from datalog_gate.decision_point import point
from datalog_gate.decision_point.grant_requests import GrantIdentity, build_requests
from datalog_gate.doors.heat.heat_objects import definition_of, owner_of
from datalog_gate.plugins.errors import PluginError, RefusedError
from datalog_gate.services.broker import Broker
from datalog_gate.services.contract import Decision, Request, names
from datalog_gate.services.journal import Claim

LOG = logging.getLogger(__name__)
UPDATES = ("UPDATE", "ROLLBACK", "RESTORE")
"""The actions of the legacy engine during which the definition that counts is not the stack's own yet."""


class GrantError(GateError):
    """Why there is no grant. `shown` is for whoever asked for one."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        super().__init__(shown)


class _Caller(NamedTuple):
    """Who asks: what rules see of them, and the services that they may grant."""

    who: Mapping[str, object]
    services: frozenset[str]


class _Place(NamedTuple):
    """Where a grant stands: its path as the gate names it ``web/placement``, and the stack at its root."""

    path: str
    root: Any


def check(resource: Any, definition: Any) -> None:
    """Refuse a definition that can't be a grant, or that nobody may ask for here."""
    if definition.external_id() is not None:
        raise GrantError("a grant is no external resource: leave out external_id")
    if definition.deletion_policy() != definition.DELETE:
        raise GrantError("a grant ends with its resource: leave out deletion_policy")
    if on := sorted(dependency.name for dependency in function.dependencies(definition._properties or {})):
        raise GrantError(f"a grant must be known before anything is built, and this one depends on {on[0]}")
    if not resource.stack.strict_validate:
        return  # a nested stack whose parameters are not known yet: asked again when it is made
    given = definition.properties(resource.properties_schema, resource.context)
    _broker(given["service"])
    names = _working(resource.stack)
    names = names[names.RESOURCES]
    for name in given["scope"] or ():
        if name == resource.name or (name not in names and str(name).partition(".")[0] not in names):
            raise GrantError(f"{name} in its scope is no other resource of this stack")
    _end(given["expires"])
    if not isinstance(resource.context, StoredContext):
        _entitled(_caller(resource, None), given["service"])


def waits(resource: Any) -> str:
    """Why the grant is to be reserved later; empty where it can be reserved or refused now."""
    check(resource, resource.t)
    service = resource.properties["service"]
    broker = _broker(service)
    place = _place(resource)
    caller = _caller(resource, _before(resource, broker, place, False))
    _entitled(caller, service)
    try:
        return broker.waits(_request(resource, place, caller, service, resource.properties["scope"]))
    except PluginError:
        return ""


def reserve(resource: Any, adopts: bool = False) -> None:
    """Have the service reserve. One that `adopts` takes over what a stack of the same name has left in its place."""
    check(resource, resource.t)
    service = resource.properties["service"]
    broker = _broker(service)
    place = _place(resource)
    before = _before(resource, broker, place, adopts)
    caller = _caller(resource, before)
    _entitled(caller, service)
    request = _request(resource, place, caller, service, resource.properties["scope"])
    _guarded(resource, request)
    try:
        decision = broker.reserve(request, before.uuid if before else "", _end(resource.properties["expires"]))
    except RefusedError as error:
        raise GrantError(f"the service {service} refuses this: {error.reason}") from error
    except PluginError as error:
        raise GrantError(f"the service {service} does not answer this: {error.reason}") from error
    _store(resource, decision)


def changed(resource: Any, after: Any) -> bool:
    """Whether an update must replace the grant though its own definition may be the same: it is for something else now,
    or it holds nothing any more. A rollback asks for nothing but what the update had deleted: the convergence engine
    takes that for complete when it comes back, and never makes it (heat/engine/resource.py, `__init__`)."""
    place = _place(resource)
    if place.root.action == "ROLLBACK":
        return resource.resource_id is None
    check(resource, after)
    given = after.properties(resource.properties_schema, resource.context)
    claim = _broker(given["service"]).journal.claim(resource.uuid)
    caller = _caller(resource, claim)
    _entitled(caller, given["service"])
    request = _request(resource, place, caller, given["service"], given["scope"])
    return claim is None or not claim.live or claim.key != request.key


def restored(resource: Any) -> bool:
    """Whether the grant holds what it is for, though Heat took it for failed: then the resource knows it again."""
    claim = _any_broker().journal.claim(resource.uuid)
    if claim is None or not claim.live:
        return False
    _store(resource, claim.decision)
    return True


def expire(resource: Any, expires: str | None) -> None:
    """The grant ends at another time."""
    _any_broker().journal.expire(resource.uuid, _end(expires))


def release(resource: Any) -> None:
    """Give back what the grant holds, if anything."""
    _any_broker().release(resource.uuid)


def _any_broker() -> Broker:
    broker: Broker | None = point.shared_point().broker
    if broker is None:
        raise GrantError("no service is enabled here")
    return broker


def _broker(service: str) -> Broker:
    broker = _any_broker()
    try:
        broker.service(service)
    except PluginError:
        raise GrantError(f"the service {service} is not enabled here") from None
    return broker


def _caller(resource: Any, claim: Claim | None) -> _Caller:
    """Who asks. Where Heat acts on its own it knows no roles, and only what the journal has from before counts: who has
    got this service in this place was entitled to it."""
    if isinstance(resource.context, StoredContext):
        return _Caller(point.build_caller(owner_of(resource.context)), frozenset({claim.service} if claim else ()))
    credentials = resource.context.to_policy_values()
    return _Caller(
        point.build_caller(credentials), point.shared_point().entitled_services(resource.stack.tenant_id, credentials)
    )


def _entitled(caller: _Caller, service: str) -> None:
    if service not in caller.services:
        raise GrantError(f"the service {service} is not for this caller")


def _working(stack: Any) -> Any:
    """The template that the stack is being brought to. The legacy engine keeps it aside until all is done
    (heat/engine/stack.py, `update_task`)."""
    if not stack.convergence and stack.status == stack.IN_PROGRESS and stack.action in UPDATES:
        return Template.load(stack.context, stack.prev_raw_template_id)
    return stack.t


def _place(resource: Any) -> _Place:
    stack = resource.stack
    names = [resource.name]
    while stack.owner_id:
        names.append(stack.parent_resource_name)
        stack = StackRow.get_by_id(resource.context, stack.owner_id)
    root = resource.stack if stack is resource.stack else HeatStack.load(resource.context, stack_id=stack.id)
    return _Place("/".join([root.name, *reversed(names)]), root)


def _before(resource: Any, broker: Broker, place: _Place, adopts: bool) -> Claim | None:
    """The claim that this one replaces: of the grant in the same place, wherever Heat keeps its resource meanwhile."""
    stack = resource.stack
    found = [
        claim
        for claim in broker.journal.claims()
        if (claim.path, claim.project) == (place.path, stack.tenant_id) and claim.uuid != resource.uuid
        if claim.stack == stack.id or (adopts and claim.abandoned)
    ]
    return max(found, key=lambda claim: (claim.live, claim.since), default=None)


def _request(resource: Any, place: _Place, caller: _Caller, service: str, scope: list[str] | None) -> Request:
    """What the grant asks of its service, if the rules unlock it."""
    action = {"CREATE": "create", "ADOPT": "adopt"}.get(place.root.action, "update")
    definition = definition_of(_working(place.root))
    try:
        stack, grants = point.shared_point().decide_grants(
            definition, place.root.name, action, caller.who, caller.services
        )
    except InputError as error:
        raise GrantError(
            f"the stack can't be read: {'; '.join(diagnostic.message for diagnostic in error.diagnostics)}"
        ) from error
    except EngineError as error:
        raise GrantError(f"the policies could not be evaluated: {error}") from error
    grant = next((grant for grant in grants if grant.grant.path == place.path and grant.service == service), None)
    if grant is None:
        raise GrantError("the gate can't read this grant where the stack is defined")
    if not grant.unlocked:
        raise GrantError(f"the service {service} is not unlocked: {grant.reason}")
    request = build_requests(stack, grants, resource.stack.tenant_id, _known(resource, place))[place.path]
    [home] = [one for one in stack.walk() if one.id == place.path.rpartition("/")[0]]
    there = {resource.name for resource in home.resources}
    named = {name if name in there else name.partition(".")[0] for name in map(str, scope or ())}
    if scope is not None and named & there != set(names(request)):
        raise GrantError("its scope can't be told from the definition of the stack alone")
    return request


def _known(resource: Any, place: _Place) -> Callable[[str], GrantIdentity]:
    """What Heat has of the grants of this stack: they come to be one after another."""
    context = resource.context

    def known(path: str) -> GrantIdentity:
        if path == place.path:
            return GrantIdentity(resource.stack.id, resource.stack.name, resource.uuid)
        _, *above, name = path.split("/")
        home = place.root
        for step in above:
            below = StackRow.get_all_by_owner_id(context, home.id)
            # what legacy keeps of a replaced resource is in a stack of this owner too, with a name that no other has
            home = next((one for one in below if one.parent_resource_name == step and one.name[-1] != "*"), None)
            if home is None:
                return GrantIdentity()
        rows = [one for one in Row.get_all_active_by_stack(context, home.id).values() if one.name == name]
        return GrantIdentity(home.id, home.name, max(rows, key=lambda one: int(one.id)).uuid if rows else "")

    return known


def _guarded(resource: Any, request: Request) -> None:
    """Refuse where Heat does not have what is in scope wait for the grant. It works by what it wrote down before it
    began: rows of edges in the convergence engine, where a replacement stands in for what it replaces."""
    stack = resource.stack
    if stack.convergence:
        called = {row.id: row.name for row in Row.get_all_active_by_stack(resource.context, stack.id).values()}
        edges = [(after, before) for after, before in stack.current_deps["edges"] if after[1]]
        there: set[Any] = {called.get(after[0]) for after, _ in edges}
        mine = (resource.id, resource.replaces)
        waiting = {called.get(after[0]) for after, before in edges if before and before[1] and before[0] in mine}
    else:
        graph = getattr(resource, "graph", None)
        there = set(names(request)) if graph is None else {one.name for one in graph.graph()}
        waiting = set() if graph is None else {one.name for one in graph.required_by(resource)}
    if lost := sorted(set(names(request)) & there - waiting):
        raise GrantError(f"Heat would not have {', '.join(lost)} wait for this grant")


def _store(resource: Any, decision: Decision) -> None:
    resource.data_set("decision", json.dumps(decision))
    resource.resource_id_set(resource.uuid)


def _end(expires: str | None) -> float | None:
    """Seconds since 1970."""
    if expires is None:
        return None
    try:
        return read_instant(expires).timestamp()
    except ValueError:
        raise GrantError(f"expires is no date: {expires}") from None
