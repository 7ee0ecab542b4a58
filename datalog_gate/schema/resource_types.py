"""Resource types, and the relations that hold their properties.

The shipped data has one type in each line, which is parsed when its type is first used. `contrib/harvest.py` prints
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.values import NO_KIND, Kind
from datalog_gate.schema.declaration import Column, Property, Relation, ResourceType

HEATS = {"27": "27.0.1", "26": "26.0.2", "25": "25.0.2", "24": "24.1.2"}
"""The releases of Heat whose types are shipped, the newest first, with their versions."""
NEWEST = next(iter(HEATS))
SOURCES = (f"heat-{HEATS[NEWEST]}.json", "datalog_gate.json")
SAME_KIND = {
    "OS::Cinder::Volume": "AWS::EC2::Volume",
    "OS::Cinder::VolumeAttachment": "AWS::EC2::VolumeAttachment",
    "OS::Heat::AutoScalingGroup": "AWS::AutoScaling::AutoScalingGroup",
    "OS::Heat::ScalingPolicy": "AWS::AutoScaling::ScalingPolicy",
    "OS::Neutron::FloatingIP": "AWS::EC2::EIP",
    "OS::Neutron::Port": "AWS::EC2::NetworkInterface",
    "OS::Neutron::SecurityGroup": "AWS::EC2::SecurityGroup",
    "OS::Neutron::Subnet": "AWS::EC2::Subnet",
    "OS::Nova::Server": "AWS::EC2::Instance",
    "OS::Swift::Container": "AWS::S3::Bucket",
}
"""Resource types, each with the one of CloudFormation that builds the same in a cloud."""
SCALARS = {
    "string": Kind.STRING,
    "integer": Kind.NUMBER,
    "number": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
    "any": Kind.ANY,
}
"""Heat's kinds of properties that become columns, with the kinds of their values."""
_REFERENCES = re.compile(
    r"(.*_)?(id|ref|uuid|network|subnet|server|config|floating_ip|profile|replica_of)|.*Id|imageRef|EIP|[Hh]andle|group|pool"
    r"|stack|queue|user|user_data|container|domain|image|UserData|UserName|(LaunchConfiguration|\w+Group)Name"
)
"""The names of string properties that may hold a `get_resource` although Heat's schema does not say so."""
UNITS = {
    "os:cinder:volume": {"size": "GiB"},
    "os:glance:web_image": {"min_disk": "GiB", "min_ram": "MiB"},
    "os:manila:share": {"size": "GiB"},
    "os:nova:flavor": {"disk": "GiB", "ephemeral": "GiB", "ram": "MiB", "swap": "MiB"},
    "os:nova:server.block_device_mapping": {"volume_size": "GiB"},
    "os:nova:server.block_device_mapping_v2": {"ephemeral_size": "GiB", "swap_size": "MiB", "volume_size": "GiB"},
    "os:trove:cluster.instances": {"volume_size": "GiB"},
    "os:trove:instance": {"size": "GiB"},
    "os:zun:container": {"memory": "MiB"},
}
"""The units of sizes by relation, which Heat's schema does not say."""
_PLAIN = frozenset({"kind", "required", "default", "update_allowed", "custom", "pattern", "implemented", "status"})
"""The fields of a property that are stored as they are."""
ANYTHING = Property("_value", "any")
_NO_WORD = re.compile("[^A-Za-z0-9_]")
"""Characters that a relation's name can't have: the relation of `X-Container-Meta` ends in ``X_Container_Meta``."""


@dataclass(frozen=True, slots=True)
class TypeTable:
    """A relation, and where its rows are in the properties of a resource.

    `steps` are the list and map properties on the way from the resource, none for the relation of the type itself.
    `shape` says what follows the keys in a row: `columns`, or the `_value` of a list's member, or the `_key` (a dotted
    path, since a map without a schema may hold anything) and `_value` of a `free` map's entry.
    """

    relation: Relation
    steps: tuple[Property, ...]
    shape: Literal["columns", "value", "free"]
    columns: tuple[Property, ...]


def tables_of(kind: ResourceType) -> tuple[TypeTable, ...]:
    """The tables of a resource type, its own first."""
    scalars, containers = _split(kind.properties)
    key, stack = Column("_id", Kind.RESOURCE, "The resource."), Column("_stack", Kind.STRING, "The id of its stack.")
    columns = (key, stack, *_columns(kind.relation, scalars))
    relation = Relation(kind.relation, columns, ("_id",), f"Every resource of type {kind.name}.", named_only=True)
    below = (table for container in containers for table in _below(container, relation, (key,), ()))
    return (TypeTable(relation, (), "columns", scalars), *below)


def _below(
    container: Property, parent: Relation, keys: tuple[Column, ...], steps: tuple[Property, ...]
) -> Iterator[TypeTable]:
    steps = (*steps, container)
    item = member_of(container)
    scalars, containers = _split(container.children)
    name = f"{parent.name}.{_NO_WORD.sub('_', container.name)}"
    shape: Literal["columns", "value", "free"] = "columns"
    columns = _columns(name, scalars)
    if container.kind == "list":
        keys = _keyed(keys, Column("_index", Kind.NUMBER, "The position, from 0."))
    if not container.children and item.kind == "map":
        keys = _keyed(keys, Column("_key", Kind.STRING, "The key; of nested data the path, `a.0.b`."))
        shape, columns = "free", _columns(name, (ANYTHING,))
    elif not container.children:
        shape, columns = "value", _columns(name, (replace(item, name="_value", required=item.kind != "any"),))
    meaning = f"The members of {name.partition('.')[2]}."
    relation = Relation(name, (*keys, *columns), tuple(key.name for key in keys), meaning, named_only=True)
    yield TypeTable(relation, steps, shape, scalars)
    for child in containers:
        yield from _below(child, relation, keys, steps)


def member_of(container: Property) -> Property:
    """The schema of a list's members (anything, if Heat does not say), or the map itself."""
    if container.kind == "map":
        return container
    item = container.item or ANYTHING
    return item if item.allowed or not container.allowed else replace(item, allowed=container.allowed)


def _keyed(keys: tuple[Column, ...], key: Column) -> tuple[Column, ...]:
    """Add a key column, numbered if the name exists: `_index`, `_index2`."""
    level = 1 + sum(column.name.startswith(key.name) for column in keys)
    return (*keys, key if level == 1 else replace(key, name=f"{key.name}{level}"))


def _may_refer(scalar: Property) -> bool:
    """Whether a `get_resource` in the property is a resource. Elsewhere Heat converts it to a text or number."""
    if scalar.kind != "string":
        return scalar.kind == "any"
    names_others = _REFERENCES.fullmatch(scalar.name) or (scalar.name == "_value" and not scalar.custom)
    return "." in scalar.custom or bool(names_others and not scalar.allowed)


def _columns(relation: str, scalars: tuple[Property, ...]) -> tuple[Column, ...]:
    units = UNITS.get(relation, {})
    return tuple([_column(scalar, units.get(scalar.name, "")) for scalar in scalars])


def _column(scalar: Property, unit: str) -> Column:
    """The column of a scalar property. It can be null unless Heat requires a value or has a default."""
    kinds = SCALARS[scalar.kind] | (Kind.RESOURCE if _may_refer(scalar) else NO_KIND)
    if not scalar.required and scalar.default is None:
        kinds |= Kind.NULL
    allowed = tuple(map(str, scalar.allowed)) if scalar.kind == "string" else ()
    numbers = tuple(value for value in scalar.allowed if isinstance(value, int)) if scalar.kind == "integer" else ()
    return Column(
        scalar.name,
        kinds,
        allowed=allowed,
        closed=bool(allowed),
        range=scalar.range,
        numbers=numbers,
        custom=scalar.custom,
        unit=unit,
    )


def _split(properties: tuple[Property, ...]) -> tuple[tuple[Property, ...], tuple[Property, ...]]:
    scalars = tuple(schema for schema in properties if schema.kind in SCALARS)
    return scalars, tuple(schema for schema in properties if schema.kind not in SCALARS)


@cache
def shipped(sources: tuple[str, ...]) -> dict[str, str]:
    """The unparsed line of each resource type in the shipped files; later ones override earlier ones."""
    lines = {}
    for source in sources:
        text = (Path(__file__).parent / "data" / source).read_text("utf-8")
        for line in text.splitlines()[1:-1]:
            name, _, body = line.removesuffix(",").partition(": ")
            lines[name.strip('"')] = body
    return {name: body for name, body in lines.items() if body != "null"}


def type_of(name: str, data: Mapping[str, Any]) -> ResourceType:
    ways = data.get("moved", {}).items()
    moved = tuple((tuple(source.split(".")), target and tuple(target.split("."))) for source, target in ways)
    return ResourceType(
        name,
        data["relation"],
        _properties(data["properties"]),
        data["attributes"],
        moved,
        any_attribute=data.get("any_attribute", False),
        snapshot=data.get("snapshot", False),
        update_policy=_properties(data.get("update_policy", {})),
        status=data.get("status", ()),
        attribute_status=data.get("attribute_status", {}),
    )


def _properties(data: Mapping[str, dict[str, Any]]) -> tuple[Property, ...]:
    return tuple([_property(name, schema) for name, schema in data.items()])


def _property(name: str, data: dict[str, Any]) -> Property:
    plain = {key: value for key, value in data.items() if key in _PLAIN}
    allowed = tuple(data["allowed"]) if "allowed" in data else ()
    children = _properties(data["children"]) if "children" in data else ()
    item = _property("_value", data["item"]) if "item" in data else None
    low, high = data.get("range", (None, None))
    if allowed and plain["kind"] == "integer" and "range" not in data:
        low, high = min(allowed), max(allowed)
    least, most = data.get("length", (None, None))
    return Property(
        name, **plain, allowed=allowed, range=(low, high), length=(least, most), children=children, item=item
    )
