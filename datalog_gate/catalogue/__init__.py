"""The one schema of all relations and resource types (layer 1): what rules may read and stacks are flattened to."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from datalog_gate.catalogue.relations import FIXED, NAMESPACES
from datalog_gate.catalogue.resource_types import resource_type as type
from datalog_gate.catalogue.resource_types import tables_of, type_of_relation
from datalog_gate.catalogue.resource_types import type_names as types
from datalog_gate.catalogue.schema import Relation, ResourceType

__all__ = ["NAMESPACES", "names", "relation", "relations_of", "type", "types"]


def relation(name: str) -> Relation | None:
    """The relation of that full name, such as ``heat:resource`` or ``os:neutron:security_group.rules``."""
    if name in FIXED:
        return FIXED[name]
    owner = type_of_relation(name)
    return _by_name(owner.name).get(name) if owner else None


def names() -> Iterator[str]:
    """The names of all relations. It parses every resource type: for suggestions, not for looking up."""
    yield from FIXED
    for one in types():
        yield from _by_name(one)


def relations_of(kind: ResourceType) -> tuple[Relation, ...]:
    """The relations of a resource type: its own, and one for each list or map among its properties."""
    return tuple(table.relation for table in tables_of(kind))


@cache
def _by_name(type_name: str) -> dict[str, Relation]:
    """The relations of a resource type that the catalogue has, by name."""
    kind = type(type_name)
    assert kind is not None
    return {one.name: one for one in relations_of(kind)}
