"""Software deployments, ``heat:deployment`` (layer 2): in, a resource that deploys; out, its rows as `Fact` values.

A row holds a digest of the configuration data that Heat derives (heat/engine/resources/openstack/heat/
software_deployment.py:325-382), but for Heat's own inputs `deploy_*`, which say no more than the other columns. It is
the same wherever the same configuration is deployed with the same inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

from datalog_gate.base.unknown import derived
from datalog_gate.base.values import ResourceId, Row, Unknown, Value, bases
from datalog_gate.facts.batch import Fact, StackContext
from datalog_gate.facts.tables import wildcard
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
"""The property that holds the body of a configuration."""


def deployments(resource: Resource, context: StackContext) -> Iterator[Fact]:
    """The rows of a deployment."""
    if resource.type not in _SINGLE:
        return
    config = resource.properties.get("config")
    source = context.find(config) if isinstance(config, ResourceId) else None
    known: Row = (resource.id, typed("any", config), typed("any", resource.properties.get("server")))
    digest = _digest(resource, config, source)
    for action in dict.fromkeys(_actions(resource, source)):
        if isinstance(action, _Open):
            yield wildcard(_RELATION, known, ("properties",), action.unknown)
        else:
            yield (*known, action, digest), ("properties", "config"), None


class _Open(NamedTuple):
    """Stands for the items of a list that nobody knows."""

    unknown: Unknown


def _each(data: Data, name: str, resource: Resource) -> list[Data]:
    return data if isinstance(data, list) else [_Open(_unsure(data, name, resource))]


def _actions(resource: Resource, source: Resource | None) -> Iterator[Value | _Open]:
    """The actions that trigger the deployment. A component says so itself, part by part."""
    holders: list[Data] = [dict(resource.properties)]
    if source and source.type == "OS::Heat::SoftwareComponent":
        holders = _each(source.properties.get("configs"), "configs", source)
    for holder in holders:
        given = holder.get("actions") if isinstance(holder, dict) else holder
        for action in _each(["CREATE", "UPDATE"] if given is None else given, "actions", resource):
            yield action if isinstance(action, _Open) else typed("any", action)


def _digest(resource: Resource, config: Data, source: Resource | None) -> str | Unknown:
    """The digest; unknown if anything in the data is, or is in the cloud already."""
    if config is not None and (source is None or source.type not in _BODIES):
        return _undigested(_unsure(config, "config", resource), resource.id.path)
    if source and source.maybe:
        return _undigested(source.maybe, resource.id.path)
    said = source.properties if source else {}
    component = source is not None and source.type == "OS::Heat::SoftwareComponent"
    declared, values = said.get("inputs") or [], resource.properties.get("input_values") or {}
    inputs: Data = [declared, values]
    if isinstance(declared, list) and isinstance(values, dict):
        inputs = [_input(given, values) for given in declared]
        names = [given.get("name") for given in declared if isinstance(given, dict)]
        inputs += [{"name": name, "value": value} for name, value in values.items() if name not in names]
    data = {
        "group": "component" if component else said.get("group") or "Heat::Ungrouped",
        "config": said.get(_BODIES[source.type]) if source else None,
        "options": said.get("options") or {},
        "inputs": inputs,
        "outputs": said.get("outputs") or [],
        "input_key": resource.properties.get("input_key") or "get_input" if "Structured" in resource.type else None,
    }
    text = as_text(data)
    written = text.expression if isinstance(text, Unknown) else text
    digest = sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
    unknown = next((leaf.value for leaf in leaves(data) if isinstance(leaf.value, Unknown)), None)
    return (
        _undigested(replace(unknown, unread=text.unread), digest) if unknown and isinstance(text, Unknown) else digest
    )


def _undigested(unknown: Unknown, of: str) -> Unknown:
    """The digest of what holds an unknown; `of` tells different data apart."""
    source = derived(f"digest of {of}: ", unknown)
    return Unknown(source, unread=unknown.unread, of=bases((unknown,)), place=unknown.place)


def _input(declared: Data, values: Mapping[str, Data]) -> Data:
    if not isinstance(declared, dict):
        return declared
    name, default = declared.get("name"), declared.get("default")
    return {**declared, "value": values.get(name, default) if isinstance(name, str) else default}


def _unsure(data: Data, name: str, resource: Resource) -> Unknown:
    """What stands for data that nobody knows, or that only the cloud holds, or that is nothing which Heat takes."""
    if isinstance(data, Unknown):
        return data
    if isinstance(data, _Open):
        return data.unknown
    return Unknown(
        f"what Heat makes of {name} of {resource.id.path}", unread=True, place=resource.locate(("properties", name))
    )
