"""Stacks as Heat's engine holds them.

It reads Heat's database and private classes, never the cloud.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from heat.common import exception
from heat.engine import function
from heat.engine.stk_defn import StackDefinition as HeatDefinition
from heat.engine.template import Template
from heat.objects.resource import Resource as Row
from heat.objects.stack import Stack as StackRow

from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.decision_point.stack_definition import StackDefinition
from datalog_gate.doors.heat.heat_objects import copy_definition
from datalog_gate.stack.model import Data, Resource, Stack
from datalog_gate.template.held import HeldStack, HeldStacks


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
        """The rows of the stacks that hold it, the root first."""
        self.root_name: str = self.owners[0].name if owners else stack.name
        self.path = "/".join([self.root_name, *names[::-1]])
        self._names = names[::-1]

    def definition(self, template: Any) -> StackDefinition:
        """The definition of the whole tree, the stack itself with this template of Heat.

        A nested stack that Heat already brought to its parent's current template is read as Heat holds it. Any other is
        read from the parent's template, and judged again when Heat begins it.
        """
        held: dict[str, HeldStack] = {}
        self._built = dict[str, str]()
        path = self.root_name
        for owner, name in zip(self.owners, self._names, strict=True):
            own_template = Template.load(self._context, owner.raw_template_id)
            if owner is not self.owners[0]:
                held[path] = _hold(owner.name, own_template)
            held |= self._children(owner.id, owner.raw_template_id, owner.convergence, path, without=name)
            path = f"{path}/{name}"
        if self.owners:
            held[path] = _hold(self.stack.name, template)
        held |= self._children(self.stack.id, template.id, self.stack.convergence, path)
        root = Template.load(self._context, self.owners[0].raw_template_id) if self.owners else template
        return replace(copy_definition(root), held=HeldStacks(held, self._built))

    def _children(
        self, stack_id: str, template_id: int | None, convergence: bool, path: str, without: str = ""
    ) -> dict[str, HeldStack]:
        """The stacks in this one, and all in these, that belong to its template of that id, by their path."""
        resources = Row.get_all_by_stack(self._context, stack_id).values()
        for resource in resources:
            if resource.physical_resource_id:
                self._built[resource.physical_resource_id] = f"{path}/{resource.name}"
        rows = [row for row in StackRow.get_all_by_owner_id(self._context, stack_id) if row.parent_resource_name]
        current = {
            (resource.name, resource.physical_resource_id)
            for resource in resources
            if not convergence or resource.current_template_id == template_id
        }
        held: dict[str, HeldStack] = {}
        for row in rows:
            name = row.parent_resource_name
            if name != without and (name, row.id) in current:
                below = f"{path}/{name}"
                held[below] = _hold(row.name, Template.load(self._context, row.raw_template_id))
                held |= self._children(row.id, row.raw_template_id, row.convergence, below)
        return held

    def find_difference(self, template: Any, root: Stack) -> str | None:
        """The first difference of what was judged from what Heat makes of the template; None if there is none.

        Resources, their types, and the properties that both know are compared.
        """
        judged = next((stack for stack in root.walk() if stack.id == self.path), None)
        if judged is None:
            return f"the gate does not know the stack {self.path}"
        definition = HeatDefinition(
            self._context, template, self.stack.identifier(), {}, self.stack.defn.parent_resource
        )
        return next(_differences(template, definition, judged), None)


def _hold(name: str, template: Any) -> HeldStack:
    definition = copy_definition(template)
    assert definition.environment is not None
    return HeldStack(name, definition.template, definition.environment, definition.files)


def _differences(template: Any, definition: Any, judged: Stack) -> Iterator[str]:
    resources = {resource.name: resource for resource in judged.resources}
    names = definition.enabled_rsrc_names()
    for name in sorted(names ^ resources.keys()):
        if name not in resources:
            yield f"{name} exists for Heat alone"
        elif resources[name].maybe is None:
            yield f"{name} exists for the gate alone"
    for name in sorted(names & resources.keys()):
        yield from _resource_differences(template, definition.resource_definition(name), resources[name])


def _resource_differences(template: Any, definition: Any, resource: Resource) -> Iterator[str]:
    try:
        info = template.env.get_resource_info(definition.resource_type, resource_name=resource.name)
    except exception.EntityNotFound:
        return  # Heat will not build it
    kind = getattr(info, "template_name", None) or info.name
    if kind != resource.type:
        yield f"{resource.name} is a {kind} for Heat, and a {resource.type} for the gate"
    try:
        properties: Mapping[str, object] = function.resolve(definition.freeze()._properties or {})
    except Exception:  # noqa: BLE001 - Heat fails too where it builds this, with a reason of its own
        return
    for key, value in resource.properties.items():
        if key in properties and _is_known(value) and str(properties[key]) != str(value) and properties[key] != value:
            yield f"the property {key} of {resource.name} has one value for Heat and another for the gate"


def _is_known(data: Data) -> bool:
    match data:
        case ResourceId() | Unknown():
            return False
        case dict():
            return all(map(_is_known, data.values()))
        case list():
            return all(map(_is_known, data))
    return True
