"""Stacks in Heat's engine, and the operations on them.

It reads Heat's database and private classes, never the cloud.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from heat.common import exception
from heat.common.context import StoredContext
from heat.engine import function
from heat.engine.stk_defn import StackDefinition as HeatDefinition
from heat.engine.template import Template
from heat.objects.event import Event
from heat.objects.resource import Resource as Row
from heat.objects.stack import Stack as StackRow
from heat.objects.stack_tag import StackTagList as TagList

from datalog_gate.base.records import replace
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.decision_point.operation import CLOSED, Door, Operation
from datalog_gate.doors.heat.heat_objects import copy_definition, has_built, owner_of
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.stack.model import Data, Resource, Stack
from datalog_gate.template.held import HeldStack, HeldStacks, read_adopted

BUILDING = frozenset({"CREATE", "ADOPT", "UPDATE", "RESTORE", "ROLLBACK"})
"""The actions of Heat that build."""
CHANGING = BUILDING - {"CREATE", "ADOPT"}
"""Those that change a stack."""


def read_operation(
    door: Door, context: Any, stack: Any, template: Any, action: str, tags: list[str]
) -> Operation | None:
    """The operation that converges a stack to a template of Heat and to tags; None if it is not judged.

    For nested stacks only operations that build are judged. The rollback of a root to its last complete template is not
    judged, since it only returns to what was there. Its nested stacks are, since they may get values that Heat knows
    only now; what the complete template tells of them is tolerated.
    """
    live = LiveStack(stack)
    if action == "rollback":
        if not template[template.RESOURCES] or (not live.owners and _was_complete(context, stack.id)):
            return None
        action = "update"
    elif live.owners and action not in CLOSED:
        return None
    changes = action in ("update", "restore")
    return Operation(
        door=door,
        action=action,
        stack_name=live.root_name,
        project=stack.tenant_id,
        definition=lambda: live.definition(template, tags),
        credentials=owner_of(context) if isinstance(context, StoredContext) else context.to_policy_values(),
        stack_id=stack.id or "",
        request_id=context.request_id or "",
        against=live.old_definition if changes else None,
        tolerant=not changes or live.is_old_definition_exact(),
        compare=lambda judged: live.find_difference(template, judged),
        asks_services=door == "plugin" and not live.is_begun_by_owner(),
    )


def _was_complete(context: Any, stack_id: str) -> bool:
    """Whether a stack was complete before the update that Heat is rolling back, according to its events."""
    events = read_events(context, stack_id)
    started = [at for at, event in enumerate(events) if event.resource_action != "ROLLBACK" and _is_start(event)]
    before = events[: started[-1]] if started else []
    return bool(before) and before[-1].resource_status == "COMPLETE"


def read_events(context: Any, stack_id: str) -> list[Any]:
    """The events of actions that build, the oldest first. Heat may have purged some.

    Only their reasons tell the events of the stack from those of resources to which a user gave its id or name
    (heat/engine/stack.py:1287, 1479, 1807, 2370).
    """
    events = Event.get_all_by_stack(context, stack_id, filters={"resource_action": list(BUILDING)})
    return [
        event
        for event in sorted(events, key=lambda event: event.id)
        if event.physical_resource_id == stack_id
        if event.resource_status == "FAILED" or event.resource_status_reason.startswith("Stack ")
    ]


def _is_start(event: Any) -> bool:
    return bool(event.resource_status == "IN_PROGRESS")


def comes_from_heat(stack: Any, template: Any, action: str) -> bool:
    """Whether Heat's engine created the template of a nested stack, rather than a user.

    The engine stores it first (heat/engine/resources/stack_resource.py:524). A user's template has no id yet, or is
    merged with an earlier one of the stack (heat/engine/service.py:964-1010); users do not create nested stacks.
    """
    return action == "create" or template.id not in (None, stack.t.id, stack.prev_raw_template_id)


class LiveStack:
    """A stack that Heat works on, at its place in the tree of its root."""

    def __init__(self, stack: Any) -> None:
        self.stack = stack
        self._context = stack.context
        owners: list[Any] = []
        names: list[str] = []
        owner_id, name = stack.owner_id, stack.parent_resource_name
        while owner_id:
            owner = StackRow.get_by_id(self._context, owner_id)
            owners.append(owner)
            names.append(name)
            owner_id, name = owner.owner_id, owner.parent_resource_name
        self.owners: list[Any] = owners[::-1]
        """The rows of the stacks that contain it, the root first."""
        self.root_name: str = self.owners[0].name if owners else stack.name
        self.path = "/".join([self.root_name, *names[::-1]])
        self._names = names[::-1]

    def is_begun_by_owner(self) -> bool:
        """Whether an operation on the owner of a nested stack began this one. Otherwise a user or a signal began it
        directly: Heat accepts no signal while the parent resource is in progress
        (aws/autoscaling/autoscaling_group.py, `adjust`). The resource of a new stack has no id of it yet."""
        return bool(self.owners) and any(
            (row.name, row.status) == (self._names[-1], "IN_PROGRESS")
            and row.action != "DELETE"
            and row.physical_resource_id in (None, self.stack.id)
            for row in Row.get_all_active_by_stack(self._context, self.owners[-1].id).values()
        )

    @cached_property
    def _complete_template(self) -> Any:
        """The last complete template of the root, if Heat is rolling it back to that; else None."""
        root = self.owners[0] if self.owners else None
        if root and (root.action, root.status) == ("ROLLBACK", "IN_PROGRESS") and _was_complete(self._context, root.id):
            return self._load(root)
        return None

    def _load(self, row: Any) -> Any:
        """The template to which Heat converges a stack. The legacy engine stores it beside the one in force."""
        is_changing = not row.convergence and row.status == "IN_PROGRESS" and row.action in CHANGING
        return Template.load(self._context, (is_changing and row.prev_raw_template_id) or row.raw_template_id)

    def old_definition(self) -> StackDefinition:
        """The definition before the operation, or before the update that Heat is rolling back; empty if nothing of the
        stack was ever built. Heat keeps the template of a refused creation, so its resources do not count as
        existing."""
        if self._complete_template:
            return self._tagged(copy_definition(self._complete_template), self.stack.tags)
        empty = StackDefinition({"heat_template_version": "2018-08-31"})
        return self.definition(self.stack.t, self.stack.tags) if has_built(self.stack) else empty

    def is_old_definition_exact(self) -> bool:
        """Whether all of the stack's template was in force. If an update fails, the legacy engine stores new
        parameters, files and mappings beside old definitions (heat/engine/stack.py, `_merge_user_param_template`)."""
        if (
            self._complete_template
            or self.stack.convergence
            or (self.stack.action in BUILDING and self.stack.status == "COMPLETE")
        ):
            return True
        for event in reversed(read_events(self._context, self.stack.id)):
            if event.resource_status == "COMPLETE" or (_is_start(event) and event.resource_action not in CHANGING):
                return True
            if _is_start(event):
                return False
        return False

    def _tagged(self, definition: StackDefinition, own: list[str]) -> StackDefinition:
        """The definition of the whole tree with the tags of its root, which are the stack's `own` if it is that."""
        stored = TagList.get(self._context, self.owners[0].id) if self.owners else None
        tags = [stored_tag.tag for stored_tag in stored or ()] if self.owners else own
        return replace(definition, tags=tuple(tags))

    def definition(self, template: Any, tags: list[str]) -> StackDefinition:
        """The definition of the whole tree, with this template of Heat and these tags for the stack itself.

        A nested stack that Heat has already begun to converge to its parent's current template, or will not, is read as
        Heat holds it. Others are read from the parent's template, and judged again when Heat begins them.
        """
        adopted = read_adopted(self.stack.adopt_stack_data, self.path)
        if not (self.owners or self.stack.convergence):
            return self._tagged(replace(copy_definition(template), held=HeldStacks(adopted=adopted)), tags)
        held: dict[str, HeldStack] = {}
        self._built = dict[str, str]()
        path = self.root_name
        chain = [*self.owners, self.stack]
        for owner, stack, name in zip(chain, chain[1:], self._names, strict=False):
            held |= self._children(owner, owner.raw_template_id, path, without=name)
            path = f"{path}/{name}"
            own_template = template if stack is self.stack else self._load(stack)
            held[path] = self._hold(owner.id, name, stack.name, own_template)
        if self.stack.convergence:
            held |= self._children(self.stack, template.id, path)
        root = self._load(self.owners[0]) if self.owners else template
        return self._tagged(replace(copy_definition(root), held=HeldStacks(held, self._built, adopted)), tags)

    def _children(self, owner: Any, template_id: int | None, path: str, without: str = "") -> dict[str, HeldStack]:
        """The nested stacks, at any depth, that belong to the template with that id, by path."""
        begun: list[Row] = []
        for resource in Row.get_all_active_by_stack(self._context, owner.id).values():
            if resource.physical_resource_id:
                self._built[resource.physical_resource_id] = f"{path}/{resource.name}"
            elif resource.status == "IN_PROGRESS":
                begun.append(resource)
        held: dict[str, HeldStack] = {}
        for row in StackRow.get_all_by_owner_id(self._context, owner.id):
            name = row.parent_resource_name
            resources = Row.get_all_by_physical_resource_id(self._context, row.id)  # several if one is being replaced
            resources = resources or [resource for resource in begun if resource.name == name]
            if not name or name == without or not resources:
                continue
            is_current = owner.convergence and resources[0].current_template_id == template_id
            if is_current or (owner is not self.stack and _is_up_to_date(row, owner)):
                below = f"{path}/{name}"
                own_template = self._load(row)
                held[below] = self._hold(owner.id, name, row.name, own_template)
                held |= self._children(row, row.raw_template_id, below)
        return held

    def _hold(self, owner_id: str, resource_name: str, name: str, template: Any) -> HeldStack:
        """The nested stack with this name and template, in the resource with that name."""
        definition = copy_definition(template)
        assert definition.environment is not None
        resource = Row.get_by_name_and_stack(self._context, resource_name, owner_id)  # as heat/engine/parent_rsrc.py:71
        return HeldStack(
            name, definition.template, definition.environment, definition.files, resource and resource.rsrc_metadata
        )

    def find_difference(self, template: Any, root: Stack) -> str | None:
        """The first difference between the judged stack and the template in Heat, or None. Compares resources, their
        types, and the properties that both know."""
        judged = next((stack for stack in root.walk() if stack.id == self.path), None)
        if judged is None:
            return f"the gate does not know the stack {self.path}"
        definition = HeatDefinition(
            self._context, template, self.stack.identifier(), {}, self.stack.defn.parent_resource
        )
        return next(_differences(template, definition, judged), None)


def _is_up_to_date(row: Any, owner: Any) -> bool:
    """Whether Heat has already begun to update a nested stack to its owner's template, or will not change it."""
    if owner.status != "IN_PROGRESS":
        return True
    began, owner_began = (stack.updated_at or stack.created_at for stack in (row, owner))
    if owner.action == "ROLLBACK":  # Heat keeps the time of the update
        starts = filter(_is_start, read_events(owner._context, owner.id))
        owner_began = max((event.created_at for event in starts), default=owner_began)
    return bool(began >= owner_began)


def _differences(template: Any, definition: Any, judged: Stack) -> Iterator[str]:
    resources = {resource.name: resource for resource in judged.resources}
    names = definition.enabled_rsrc_names()
    for name in sorted(names ^ resources.keys()):
        if name not in resources:
            yield f"{name} exists only for Heat"
        elif resources[name].maybe is None:
            yield f"{name} exists only for the gate"
    for name in sorted(names & resources.keys()):
        yield from _resource_differences(template, definition.resource_definition(name), resources[name])


def _resource_differences(template: Any, definition: Any, resource: Resource) -> Iterator[str]:
    try:
        info = template.env.get_resource_info(definition.resource_type, resource_name=resource.name)
    except exception.EntityNotFound:
        return  # Heat will not build it
    kind = getattr(info, "template_name", None) or info.name
    if kind != resource.type:
        yield f"{resource.name} is a {kind} for Heat, but a {resource.type} for the gate"
    try:
        snippets = definition._properties or {}
        if isinstance(snippets, function.Function):
            snippets = {} if _reads_attributes(snippets) else function.resolve(snippets)
        properties = function.resolve({key: part for key, part in snippets.items() if not _reads_attributes(part)})
    except Exception:  # noqa: BLE001 - Heat fails too where it builds this, with a reason of its own
        return
    for key, value in resource.properties.items():
        if key in properties and _is_known(value) and str(properties[key]) != str(value) and properties[key] != value:
            yield f"the property {key} of {resource.name} has different values for Heat and for the gate"


def _reads_attributes(snippet: Any) -> bool:
    """Whether a part of a template changes its value once other resources are built."""
    return any(True for _ in function.all_dep_attrs(snippet))


def _is_known(data: Data) -> bool:
    match data:
        case ResourceId() | Unknown():
            return False
        case dict():
            return all(map(_is_known, data.values()))
        case list():
            return all(map(_is_known, data))
    return True
