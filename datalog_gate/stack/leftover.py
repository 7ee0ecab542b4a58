"""Resources that failed updates left in Heat.

Heat deletes what a template no longer has only when an update succeeds. Until then it is part of the stack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from datalog_gate.base.expression import phrase
from datalog_gate.base.records import replace
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.stack.model import Resource, Stack


def mark_leftover(resource: Resource, stack: str, name: str) -> Resource:
    """The resource, and all within it, as left over in the stack with that path under that name."""
    path, nested, defined = f"{stack}/{name}", resource.nested, resource.defined
    if nested:
        members = [mark_leftover(member, path, member.name) for member in nested.resources]
        nested = replace(nested, id=path, parent=ResourceId(path), resources=members)
    return replace(
        resource,
        id=ResourceId(path),
        name=name,
        nested=nested,
        defined=(lambda _: defined(resource.name)) if defined else None,
        leftover=True,
    )


def describe_leftover(stack: str, name: str, type_name: str, catalogue: Catalogue) -> Resource:
    """A leftover resource of which only the type is known."""
    kind = catalogue.type(type_name)
    names = [part.name for part in kind.properties] if kind else []
    properties = {key: Unknown(phrase(f"{key} of {stack}/{name}")) for key in names}
    return Resource(ResourceId(f"{stack}/{name}"), name, type_name, type_name, properties, leftover=True)


def add_leftovers(stack: Stack, leftovers: Mapping[str, Sequence[Resource]]) -> Stack:
    """The stack with leftover resources, given by the path of the stack that they are in."""
    own = stack.named
    added = {resource.name: resource for resource in leftovers.get(stack.id, ()) if resource.name not in own}
    resources = tuple(
        replace(resource, nested=add_leftovers(resource.nested, leftovers)) if resource.nested else resource
        for resource in {**own, **added}.values()
    )
    return replace(stack, resources=resources, source=None)  # reading it again would not find them
