"""Rows of software deployments: the relation ``heat:deployment``.

The digest is that of the configuration data that Heat derives (heat/engine/resources/openstack/heat/
software_deployment.py:325-382), without Heat's own inputs `deploy_*`, which repeat the other columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

from datalog_gate.base.expression import Expression, phrase
from datalog_gate.base.unknown import derived
from datalog_gate.base.values import ResourceId, Row, Unknown, Value, bases
from datalog_gate.facts.tables import LocatedRow, StackContext, wildcard
from datalog_gate.schema.relations import FIXED
from datalog_gate.stack.model import Data, Resource
from datalog_gate.stack.property_values import as_text, leaves, typed

_RELATION = FIXED["heat:deployment"]
_SINGLE = frozenset({"OS::Heat::SoftwareDeployment", "OS::Heat::StructuredDeployment"})
_BODIES = {
    "OS::Heat::SoftwareConfig": "config",
    "OS::Heat::StructuredConfig": "config",
    "OS::Heat::SoftwareComponent": "configs",
    "OS::Heat::CloudConfig": "cloud_config",
    "OS::Heat::MultipartMime": "parts",
}
"""The property of each type that holds the body of the configuration."""


def deployments(resource: Resource, context: StackContext) -> Iterator[LocatedRow]:
    """The rows of a deployment."""
    if resource.type not in _SINGLE:
        return
    config = resource.properties.get("config")
    source = context.find(config) if isinstance(config, ResourceId) else None
    known: Row = (resource.id, typed("any", config), typed("any", resource.properties.get("server")))
    digest = _digest(resource, config, source)
    for action in dict.fromkeys(_actions(resource, source)):
        if isinstance(action, _OpenItem):
            yield wildcard(_RELATION, known, ("properties",), action.unknown)
        else:
            yield (*known, action, digest), ("properties", "config"), None


class _OpenItem(NamedTuple):
    unknown: Unknown


def _items(data: Data, name: str, resource: Resource) -> list[Data]:
    return data if isinstance(data, list) else [_OpenItem(_unknown(data, name, resource))]


def _actions(resource: Resource, source: Resource | None) -> Iterator[Value | _OpenItem]:
    """The actions that trigger the deployment. A component names them in each of its parts."""
    holders: list[Data] = [dict(resource.properties)]
    if source and source.type == "OS::Heat::SoftwareComponent":
        holders = _items(source.properties.get("configs"), "configs", source)
    for holder in holders:
        actions = holder.get("actions") if isinstance(holder, dict) else holder
        for action in _items(["CREATE", "UPDATE"] if actions is None else actions, "actions", resource):
            yield action if isinstance(action, _OpenItem) else typed("any", action)


def _digest(resource: Resource, config: Data, source: Resource | None) -> str | Unknown:
    """The digest; unknown if a part of the data is unknown, or only in the cloud."""
    if config is not None and (source is None or source.type not in _BODIES):
        return _unknown_digest(_unknown(config, "config", resource), resource)
    if source and source.maybe:
        return _unknown_digest(source.maybe, resource)
    config_properties = source.properties if source else {}
    is_component = source is not None and source.type == "OS::Heat::SoftwareComponent"
    declared, values = config_properties.get("inputs") or [], resource.properties.get("input_values") or {}
    inputs: Data = [declared, values]
    if isinstance(declared, list) and isinstance(values, dict):
        inputs = [_input(item, values) for item in declared]
        names = [item.get("name") for item in declared if isinstance(item, dict)]
        inputs += [{"name": name, "value": value} for name, value in values.items() if name not in names]
    data = {
        "group": "component" if is_component else config_properties.get("group") or "Heat::Ungrouped",
        "config": config_properties.get(_BODIES[source.type]) if source else None,
        "options": config_properties.get("options") or {},
        "inputs": inputs,
        "outputs": config_properties.get("outputs") or [],
        "input_key": resource.properties.get("input_key") or "get_input" if "Structured" in resource.type else None,
    }
    text = as_text(data)
    written = text.expression if isinstance(text, Unknown) else text
    digest = sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
    if isinstance(text, Unknown):
        first = next(leaf.value for leaf in leaves(data) if isinstance(leaf.value, Unknown))
        shown = derived(f"digest of {digest}: ", first)
        return replace(text, source=Expression(shown.function, text.arguments, shown.stack, shown.text))
    return digest


def _unknown_digest(unknown: Unknown, resource: Resource) -> Unknown:
    """The digest of the configuration of a resource that rests on one unknown."""
    source = derived(f"digest of {resource.id.path}: ", unknown)
    return Unknown(source, unread=unknown.unread, of=bases((unknown,)), place=unknown.place)


def _input(declared: Data, values: Mapping[str, Data]) -> Data:
    if not isinstance(declared, dict):
        return declared
    name, default = declared.get("name"), declared.get("default")
    return {**declared, "value": values.get(name, default) if isinstance(name, str) else default}


def _unknown(data: Data, name: str, resource: Resource) -> Unknown:
    """The unknown for data that is unknown, that only the cloud holds, or that Heat does not accept."""
    if isinstance(data, Unknown):
        return data
    if isinstance(data, _OpenItem):
        return data.unknown
    return Unknown(
        phrase(f"what Heat makes of {name} of {resource.id.path}"),
        unread=True,
        place=resource.locate(("properties", name)),
    )
