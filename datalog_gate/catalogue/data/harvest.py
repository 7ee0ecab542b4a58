"""Prints the catalogue of resource types of the installed `openstack-heat`: the text of ``heat-<version>.json``.

A tool, not a part of the package: run it with a Python that has the wheel, without a cloud, and commit what it prints.
The output is one JSON object with one resource type a line, so that `resource_types` parses only the lines it needs
and a new version of Heat is a readable diff. The name of a type's relation is made here by `relation_name` and is from
then on what the committed data says.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from importlib.metadata import version
from typing import Any

ECHOES = {
    "OS::Heat::SoftwareConfig": {"config"},
    "OS::Heat::Value": {"value"},
    "OS::Neutron::FloatingIP": {"fixed_ip_address", "floating_ip_address"},
    "OS::Neutron::MeteringRule": {"direction", "excluded", "remote_ip_prefix"},
    "OS::Neutron::Net": {"admin_state_up", "name", "port_security_enabled"},
    "OS::Neutron::Port": {"admin_state_up", "device_owner", "mac_address", "name", "port_security_enabled"},
    "OS::Neutron::Router": {"admin_state_up", "name"},
    "OS::Neutron::Subnet": {"cidr", "enable_dhcp", "gateway_ip", "ip_version", "name"},
    "OS::Nova::KeyPair": {"public_key"},
}
"""Attributes that give back the property of the same name if the template gives one: kept by hand, and only where the
service stores what it was asked for (no name that becomes an id, no default of the service's own, no reshaping)."""

ACRONYMS = {"IPsec": "Ipsec", "LBaaS": "Lbaas", "QoS": "Qos", "TaaS": "Taas"}


def main() -> None:
    """Print the catalogue on standard output."""
    logging.disable(logging.CRITICAL)
    from heat.engine import resources

    resources.initialise()
    registry = resources.global_env().registry._registry
    found = {name: entry.value for name, entry in registry.items() if isinstance(getattr(entry, "value", None), type)}
    lines = [f'{{"source": "openstack-heat {version("openstack-heat")}"']
    lines += [f"{compact(name)}: {compact(describe(name, found[name]))}" for name in sorted(found)]
    sys.stdout.write(",\n".join(lines) + "\n}\n")


def describe(name: str, resource: Any) -> dict[str, Any]:
    """A resource class: relation, status, properties by name, attributes with what they echo."""
    echoes = ECHOES.get(name, set())
    assert echoes <= set(resource.attributes_schema) & set(resource.properties_schema), name
    return {
        "relation": relation_name(name),
        "status": resource.support_status.status.lower(),
        "properties": {key: property_of(schema) for key, schema in sorted(resource.properties_schema.items())},
        "attributes": {key: key if key in echoes else None for key in sorted(resource.attributes_schema)},
    }


def property_of(schema: Any) -> dict[str, Any]:
    """A property as the keyword arguments of `catalogue.schema.Property`; what is at its default is left out."""
    from heat.engine import constraints, properties

    schema = properties.Schema.from_legacy(schema)
    told: dict[str, Any] = {"kind": schema.type.lower()}
    if schema.required:
        told["required"] = True
    if schema.default is not None:
        told["default"] = schema.default
    for constraint in schema.constraints:
        if isinstance(constraint, constraints.AllowedValues):
            told["allowed"] = list(constraint.allowed)
    if schema.update_allowed:
        told["update_allowed"] = True
    if schema.schema is None:
        return told
    inner = schema.schema
    if schema.type == schema.LIST:
        item = properties.Schema.from_legacy(inner.value)
        if item.type != item.MAP or item.schema is None:
            return {**told, "item": property_of(item)}
        inner = item.schema
    return {**told, "children": {key: property_of(child) for key, child in sorted(inner.items())}}


def relation_name(name: str) -> str:
    """``OS::Neutron::QoSPolicy`` is ``os:neutron:qos_policy``: a word ends before a capital that starts another."""
    for acronym, word in ACRONYMS.items():
        name = name.replace(acronym, word)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return words.replace("::", ":").lower()


def compact(data: object) -> str:
    """The data as JSON without blanks it does not need."""
    return json.dumps(data, separators=(",", ":"))


if __name__ == "__main__":
    main()
