"""Batches of resources of one type, and their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from datalog_gate.base.values import ResourceId, Row, Unknown
from datalog_gate.facts.factset import StoredOrigin
from datalog_gate.schema.declaration import Property, ResourceType
from datalog_gate.stack.model import Alike, Data, Path, Resource, Resources, Stack
from datalog_gate.stack.property_values import Leaf

LocatedRow = tuple[Row, Path, Unknown | None]
"""A row, the path of its place in the resource's definition, and the unknown that decides whether the row exists."""


class FunctionUse(NamedTuple):
    """A use of a template function: the path that rules read, and its place in the definition."""

    path: str
    place: Path
    function: str
    arguments: Data


@dataclass(frozen=True, eq=False)
class StackContext:
    """The stack around a resource, with caches by resource name of what several relations are made of."""

    stack: Stack
    type_of: Callable[[str], ResourceType | None]
    """The schema of a resource type; None if the catalogue has none."""
    outer: StackContext | None = None
    """The context of the resource that holds this stack as its nested stack."""
    translated: dict[str, Resource] = field(default_factory=dict, init=False, repr=False)
    """The resources with properties that Heat reads under other names, as Heat reads them."""
    function_uses: dict[str, Sequence[FunctionUse]] = field(default_factory=dict, init=False, repr=False)
    """The function uses in the text of each resource."""
    leaves: dict[str, Sequence[Leaf]] = field(default_factory=dict, init=False, repr=False)
    """The scalars in the properties of each resource."""
    schemas: dict[str, Property | None] = field(default_factory=dict, init=False, repr=False)
    """The properties of each resource type as one schema; None for a type that the catalogue does not have."""

    @cached_property
    def own(self) -> Resources:
        """The resources of the stack."""
        return self.stack.apart

    def resource(self, name: str) -> Resource:
        """A resource of the stack, with the properties as Heat reads them. Errors: KeyError."""
        if resource := self.translated.get(name) or self.own.resource(name):
            return resource
        raise KeyError(name)

    def find(self, id: ResourceId) -> Resource | None:
        """The resource with this id in this stack or in one around it."""
        resource = self.own.resource(id.name)
        if resource and resource.id == id:
            return resource
        return self.outer.find(id) if self.outer else None


@dataclass(frozen=True)
class Batch:
    """Resources of one type in one stack that exist under the same condition."""

    type: str
    alike: Alike
    """The ids and properties of the resources."""
    property_names: Set[str]
    """The names of all properties that any of the resources has."""
    context: StackContext
    maybe: Unknown | None
    """The undecided condition under which the resources exist."""
    declared: Iterable[str]
    """The type of each resource as the template declares it."""
    built: Sequence[Resource] = ()
    """The resources, if they were built before; empty for resources that are `Simple`."""

    @cached_property
    def resources(self) -> Sequence[Resource]:
        """The resources, with the properties as Heat reads them."""
        return self.built or [self.context.resource(name) for name in self.alike.properties]


@dataclass(slots=True)
class RelationRows:
    """The rows of one relation with their origins; each uncertain one with the unknown that decides it."""

    certain: dict[Row, StoredOrigin] = field(default_factory=dict)
    uncertain: list[tuple[Row, StoredOrigin, Unknown]] = field(default_factory=list)

    def add(self, resource: Resource, facts: Iterable[LocatedRow]) -> None:
        """Add rows of a resource."""
        for row, path, maybe in facts:
            if maybe:
                self.uncertain.append((row, (resource, path), maybe))
            else:
                self.certain.setdefault(row, (resource, path))


AddRows = Callable[[Batch, RelationRows], None]
"""Adds the rows that a batch has in one relation."""
