"""Properties of the resources of an example."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from datalog_gate.base.values import Boolean, ResourceId, Value
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import Property
from datalog_gate.schema.resource_types import TypeTable, tables_of

Step = str | int
Data = Any
PLACEHOLDER_TYPE = "OS::Heat::Value"
"""The type of a resource of which nothing is asked."""
USUAL_TYPES = (
    *(PLACEHOLDER_TYPE, "OS::Nova::Server", "OS::Neutron::Port", "OS::Cinder::Volume"),
    *("OS::Neutron::Net", "OS::Heat::SoftwareConfig"),
)
"""The types for a resource of which only properties are asked: the first that has them all."""
INNER = ("resource_def", "resource")
"""The properties that hold the definition of the members of a group."""
SAMPLES = {
    "net_cidr": "10.0.0.0/24",
    "ip_addr": "10.0.0.5",
    "mac_addr": "fa:16:3e:00:00:01",
    "timezone": "UTC",
    "cron_expression": "0 0 * * *",
    "expiration": "2030-01-01T00:00:00Z",
}
"""Values for Heat's own constraints."""
WORDS = {
    "CidrBlock": "10.0.0.0/24",
    "ImageId": "ubuntu-24.04",
    "InstanceType": "m1.small",
    "availability_zone": "az1",
    "description": "a text",
    "flavor": "m1.small",
    "floating_network": "public",
    "image": "ubuntu-24.04",
    "key_name": "ops",
    "name": "web",
    "path": "name",
    "network": "private",
    "project": "lab",
    "project_id": "lab",
    "tenant_id": "lab",
    "user": "alice",
    "volume_type": "ssd",
}
"""Readable values by name."""


@lru_cache(maxsize=512)
def list_tables(catalogue: Catalogue, kind: str) -> tuple[TypeTable, ...]:
    """The tables of a resource type; none if it is not known."""
    schema = catalogue.type(kind)
    return tables_of(schema) if schema else ()


def write_value(value: Value) -> Data:
    """The value as a template has it."""
    if isinstance(value, ResourceId):
        return {"get_resource": value.name}
    return plain(value)


def plain(value: Value) -> Data:
    if isinstance(value, Boolean):
        return value.truth
    if isinstance(value, ResourceId):
        return value.path
    return float(value) if isinstance(value, Decimal) else value


def put(data: Data, path: Sequence[Step], value: Data) -> None:
    """Set the value at a path, with the maps and lists on the way."""
    for step, following in zip(path, [*path[1:], None], strict=True):
        if isinstance(data, list):
            if not isinstance(step, int):
                return
            data.extend({} for _ in range(step + 1 - len(data)))
        if following is None:
            data[step] = value
            return
        wanted = list if isinstance(following, int) else dict
        inner = data.get(step) if isinstance(data, dict) else data[int(step)]
        if not isinstance(inner, wanted):
            data[step] = inner = wanted()
        data = inner


def get(data: Data, path: Sequence[Step]) -> Data:
    """What a case has at a path; None for nothing."""
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def split_path(path: object) -> list[Step]:
    """The steps of a path: the first is a name, others may be indexes."""
    first, *others = str(path).split(".")
    return [first, *(int(step) if step.isdigit() else step for step in others)]


def find_usual_type(catalogue: Catalogue, properties: Iterable[str]) -> str:
    """The first usual type that has all of the properties."""
    schemas = {name: catalogue.type(name) for name in USUAL_TYPES}
    fitting = (name for name, schema in schemas.items() if schema and all(part in schema.parts for part in properties))
    return next(fitting, PLACEHOLDER_TYPE)


def complete(catalogue: Catalogue, template: dict[str, Data]) -> None:
    """Add what Heat requires: types, properties, and resources that are referred to."""
    resources = template["resources"]
    for resource in list(resources.values()):
        _complete_resource(catalogue, resource)
        for name in _references(resource.get("properties")):
            resources.setdefault(name, {"type": PLACEHOLDER_TYPE, "properties": {"value": "x"}})


def _complete_resource(catalogue: Catalogue, resource: dict[str, Data]) -> None:
    properties = resource.setdefault("properties", {})
    resource["type"] = resource.get("type") or find_usual_type(catalogue, properties)
    schema = catalogue.type(resource["type"])
    for declared in schema.properties if schema else ():
        if declared.name in INNER and declared.required:
            inner = properties.setdefault(declared.name, {})
            if isinstance(inner, dict):
                inner["type"] = inner.get("type") or PLACEHOLDER_TYPE
    if schema:
        _fill(properties, schema.properties)
    for key in INNER:
        if isinstance(properties.get(key), dict):
            _complete_resource(catalogue, properties[key])


def _fill(data: dict[str, Data], properties: Iterable[Property]) -> None:
    for schema in properties:
        value = data.get(schema.name)
        if schema.name not in data and schema.required:
            data[schema.name] = sample(schema)
        elif schema.children and isinstance(value, dict) and not any(key.startswith("get_") for key in value):
            _fill(value, schema.children)
        elif schema.children and isinstance(value, list):
            for item in value:
                if isinstance(item, dict):
                    _fill(item, schema.children)


def sample(schema: Property) -> Data:
    """A value that Heat accepts for a property."""
    if schema.allowed:
        return schema.allowed[0]
    if schema.custom in SAMPLES:
        return SAMPLES[schema.custom]
    match schema.kind:
        case "integer" | "number":
            return 1 if schema.range[0] is None else schema.range[0]
        case "boolean":
            return True
        case "list" if not schema.children:
            return [sample(schema.item) if schema.item else "x"]
        case "list" | "map":
            inner: dict[str, Data] = {}
            _fill(inner, schema.children)
            return [inner] if schema.kind == "list" else inner or {"key": "x"}
    return "x" * (schema.length[0] or 0) or WORDS.get(schema.name, f"{schema.name}-1")


def _references(data: Data) -> Iterable[str]:
    """The resources of the template that data refer to."""
    if isinstance(data, dict):
        name = data.get("get_resource")
        if isinstance(name, str):
            yield name
    for inner in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from _references(inner)
