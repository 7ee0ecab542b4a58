"""Attributes of resources that the template determines.

Any other attribute raises `Undecided`.
"""

from __future__ import annotations

from collections.abc import Callable

from datalog_gate.base.unknown import call
from datalog_gate.base.values import ResourceId, Unknown, to_json
from datalog_gate.schema.declaration import Property, ResourceType
from datalog_gate.stack.model import CHAIN, DEPLOYMENTS, RESOURCE_GROUP, SCALING_GROUP, STACK, Data, Resource, Stack
from datalog_gate.stack.property_values import coerce
from datalog_gate.stack.translation import as_heat_reads
from datalog_gate.template.functions.pure import Undecided, select

_OF_EACH = {f"deploy_{name}s": f"deploy_{name}" for name in ("stdout", "stderr", "status_code")}
"""The attributes of such a group with another name in its members."""
TypeOf = Callable[[str], ResourceType | None]
"""Looks up a resource type in the catalogue."""


def attribute(resource: Resource, keys: list[Data], type_of: TypeOf) -> Data:
    """The attribute named by the first key, then the part selected by further keys. Errors: Undecided."""
    first, *rest = keys
    if resource.maybe is not None or resource.external is not False or not isinstance(first, str):
        raise Undecided
    try:
        if resource.type == "OS::Heat::Value" and first == "value":
            return select(resource.properties.get("value"), rest)  # as written, whatever its type
        if resource.nested is None:
            return read_property(resource, type_of(resource.type), keys)
        if resource.type in (RESOURCE_GROUP, CHAIN, SCALING_GROUP):
            return _of_group(resource, resource.nested, first, rest, type_of)
        if resource.type in DEPLOYMENTS:
            if resource.open_members is not None:
                raise Undecided
            keys = [_OF_EACH.get(first, first)]
            return select(
                {member.name: _of_member(member, keys, type_of) for member in resource.nested.resources}, rest
            )
        if resource.type == STACK:
            if first != "outputs":
                raise Undecided
            return select(dict(resource.nested.outputs), rest)
        if first.startswith("resource."):
            return _of_inner(resource.nested, first, rest, type_of)
        if first in resource.nested.outputs:
            return select(resource.nested.outputs[first], rest)
    except (LookupError, ValueError, TypeError, AttributeError):
        return None
    raise Undecided


def hides(resource: Resource, keys: list[Data]) -> bool:
    """Whether the attribute may contain a value of a hidden parameter."""
    if resource.nested is None:
        return resource.hides(("properties",), True)
    outputs = {path[1] for path in resource.nested.hidden if path[:1] == ("outputs",)}
    named = keys[1:2] if resource.type == STACK else keys[:1]
    if resource.type in (RESOURCE_GROUP, CHAIN, SCALING_GROUP, *DEPLOYMENTS):
        return any(hides(member, keys) or hides(member, []) for member in resource.nested.resources)
    if named and str(named[0]).startswith("resource."):
        return any(hides(inner, []) for inner in resource.nested.resources)
    return bool(outputs.intersection(map(str, named)) if named else outputs)


def _of_group(group: Resource, nested: Stack, first: str, rest: list[Data], type_of: TypeOf) -> Data:
    members = {member.name: member for member in nested.resources}
    if first.startswith("resource."):
        return _of_inner(nested, first, rest, type_of)
    scaling = group.type == SCALING_GROUP
    if group.open_members is not None or first in ("removed_rsrc_list", "show"):
        raise Undecided
    if rest and (first == "refs_map" or (scaling and first == "refs")):  # Heat ignores it
        raise Undecided
    for member in members.values():
        if member.maybe:
            raise Undecided(member.maybe)
    if scaling and first == "current_size":
        return select(len(members), rest)
    if first == "refs":
        return select([member.id for member in members.values()], rest)
    if first == "refs_map":
        return {name: member.id for name, member in members.items()}
    if first == ("outputs" if scaling else "attributes") and rest:
        return {name: _of_member(member, rest, type_of) for name, member in members.items()}
    if scaling and (first != "outputs_list" or not rest):
        raise Undecided
    return [_of_member(member, rest if scaling else [first, *rest], type_of) for member in members.values()]


def _of_inner(nested: Stack, first: str, rest: list[Data], type_of: TypeOf) -> Data:
    """The id of a nested stack's resource, or its attribute (get_nested_attrs, heat/common/grouputils.py)."""
    name, *attributes = first.split(".", 2)[1:]
    inner = next((resource for resource in nested.resources if resource.name == name), None)
    if inner is None or inner.maybe is not None:
        raise Undecided
    keys = [*attributes, *rest]
    return _of_member(inner, keys, type_of) if keys else inner.id


def _of_member(member: Resource, keys: list[Data], type_of: TypeOf) -> Data:
    try:
        return attribute(member, keys, type_of)
    except Undecided:
        return call("get_attr", [member.id.name, *keys], member.id.stack, {}, None)


def read_property(resource: Resource, kind: ResourceType | None, keys: list[Data]) -> Data:
    """The attribute that returns a property, then the part selected by further keys. Errors: Undecided if the service
    fills, orders or converts it; LookupError, ValueError or TypeError if there is nothing."""
    first, *rest = keys
    name = kind.attributes.get(first) if kind and isinstance(first, str) else None
    if kind is None or name is None:
        raise Undecided
    schema = next(schema for schema in kind.properties if schema.name == name)
    return _stored(schema, as_heat_reads(resource, kind).properties.get(name), rest)


def _stored(schema: Property, value: Data, keys: list[Data]) -> Data:
    """The stored form of a property's value. An empty text often means the service's own choice, and as often none."""
    value = schema.default if value is None else value
    looked_up = "." in schema.custom  # given by name or id, returned as id
    match value:
        case None | "":
            raise Undecided
        case Unknown() | ResourceId():
            if keys or (looked_up and isinstance(value, Unknown)):
                raise Undecided
            return value
    match schema.kind:
        case "list":
            return _only(schema, value, keys)
        case "map" if schema.children:
            return _entries(schema, value, keys)
        case "map" | "any":
            return select(value, keys)
    if keys or looked_up:
        raise Undecided
    return to_json(coerce(schema.kind, value))


def _only(schema: Property, value: Data, keys: list[Data]) -> Data:
    """A list of one item. Longer lists are returned in an unknown order."""
    item = schema.item or Property("", "map" if schema.children else "any", children=schema.children)
    if not isinstance(value, list) or len(value) != 1 or (keys and str(keys[0]) != "0"):
        raise Undecided
    return _stored(item, value[0], keys[1:]) if keys else [_stored(item, value[0], [])]


def _entries(schema: Property, value: Data, keys: list[Data]) -> Data:
    children = {child.name: child for child in schema.children if not keys or child.name == keys[0]}
    if not isinstance(value, dict) or not children:
        raise Undecided
    stored = {name: _stored(child, value.get(name), keys[1:]) for name, child in children.items()}
    return stored[str(keys[0])] if keys else stored
