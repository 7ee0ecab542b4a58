"""Attributes that give back a property (layer 2).

In: a resource that was read, its type, and the keys of a `get_attr`. Out: the property's value, where the template has
it and the service can only store it. `Undecided` is raised for every other: for what the service fills in, may put in
another order, or makes an id of.
"""

from __future__ import annotations

from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.schema.declaration import Property, ResourceType
from datalog_gate.stack.model import Data, Resource
from datalog_gate.stack.translation import as_heat_reads
from datalog_gate.template.functions.arguments import Undecided
from datalog_gate.template.functions.pure import select
from datalog_gate.template.parameters import convert


def echo(resource: Resource, kind: ResourceType | None, keys: list[Data]) -> Data:
    """The attribute named by the first key, then what the further keys select from it.

    Errors: Undecided; LookupError, ValueError or TypeError where there is nothing.
    """
    first, *rest = keys
    name = kind.attributes.get(first) if kind and isinstance(first, str) else None
    if kind is None or name is None:
        raise Undecided
    schema = next(one for one in kind.properties if one.name == name)
    return _stored(schema, as_heat_reads(resource, kind).properties.get(name), rest)


def _stored(schema: Property, value: Data, keys: list[Data]) -> Data:
    """What is stored of a property's value; an empty text asks for the service's own choice as often as for none."""
    value = schema.default if value is None else value
    looked_up = "." in schema.custom  # by name or id, and what comes back is the id
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
    return _scalar(schema.kind, value)


def _only(schema: Property, value: Data, keys: list[Data]) -> Data:
    """A list of one: of several nobody knows the order in which they come back."""
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


def _scalar(kind: str, value: Data) -> Data:
    """The value as Heat sends it (heat/engine/properties.py:258-348). Errors: ValueError."""
    match kind, value:
        case "string", bool() | int():
            return str(value)
        case "integer" | "number", str():
            return convert("number", value)
        case "boolean", str():
            return convert("boolean", value)
    return value
