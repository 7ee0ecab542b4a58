"""The tool that prints the resource types of the installed `openstack-heat`.

Run it with a Python that has the wheel, without a cloud, and commit the output. Each
type is one line, so that `resource_types` parses only what it needs and a new Heat is a readable diff. With
``--difference`` only the types are printed that the newest Heat does not have so, and null for those it has alone.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "datalog_gate/schema/data"
SHIPPED = json.loads(max(DATA.glob("heat-*.json")).read_text("utf-8"))
del SHIPPED["source"]
"""Attributes that give back a property where the template gives one are kept by hand in these data, from each class's
`_resolve_attribute`: only where Heat answers from the property or the service stores what it was asked for, so not the
protocol of a firewall rule, the fixed addresses of a port, or what is written or decoded as JSON text."""
ACRONYMS = {"IPsec": "Ipsec", "LBaaS": "Lbaas", "QoS": "Qos", "TaaS": "Taas"}


def main() -> None:
    logging.disable(logging.CRITICAL)
    from heat.engine import resources

    resources.initialise()
    registry = resources.global_env().registry._registry
    classes = {name: entry.value for name, entry in registry.items() if isinstance(getattr(entry, "value", None), type)}
    types = {name: compact(describe(name, classes[name])) for name in classes}
    if "--difference" in sys.argv:
        newest = {name: compact(described) for name, described in SHIPPED.items()}
        types = {name: types.get(name, "null") for name in types | newest if types.get(name) != newest.get(name)}
    lines = [f'{{"source": "openstack-heat {version("openstack-heat")}"']
    lines += [f"{compact(name)}: {types[name]}" for name in sorted(types)]
    sys.stdout.write(",\n".join(lines) + "\n}\n")


def describe(name: str, resource: Any) -> dict[str, Any]:
    """A resource class: relation, support, properties by name, moved properties, policy of updates, and attributes with
    the property they return. Defaults are left out: supported, no users, nothing moved, no attributes but its own."""
    from heat.engine.resource import Resource
    from heat.engine.resources import stack_user

    echoes = {key: echo for key, echo in SHIPPED.get(name, {}).get("attributes", {}).items() if echo}
    attributes = resource.attributes_schema
    assert set(echoes) <= set(attributes), name
    assert set(echoes.values()) <= set(resource.properties_schema), name
    described: dict[str, Any] = {"relation": relation_name(name), **support_of(resource)}
    if issubclass(resource, stack_user.StackUser):
        described["creates_users"] = True
    if resource.get_attribute is not Resource.get_attribute or resource.FnGetAtt is not Resource.FnGetAtt:
        described["any_attribute"] = True
    if hasattr(resource, "handle_snapshot_delete"):
        described["snapshot"] = True
    if moved := moved_of(resource):
        described["moved"] = moved
    if policy := resource.update_policy_schema:
        described["update_policy"] = {key: property_of(schema) for key, schema in sorted(policy.items())}
    described["properties"] = {key: property_of(schema) for key, schema in sorted(resource.properties_schema.items())}
    described["attributes"] = {key: echoes.get(key) for key in sorted(attributes)}
    support = {key: support_of(attributes[key]) for key in sorted(attributes)}
    if statuses := {key: part["status"] for key, part in support.items() if part}:
        described["attribute_status"] = statuses
    return described


def support_of(subject: Any) -> dict[str, list[str | None]]:
    """The status of a class or property that is not fully supported, since which version, and Heat's advice if any."""
    status = subject.support_status
    if status.status == "SUPPORTED":
        return {}
    advice = [" ".join(status.message.split())] if status.message else []
    return {"status": [status.status.lower(), status.version and status.version.strip(), *advice]}


def moved_of(resource: Any) -> dict[str, str | None]:
    """The properties that Heat moves before use: the path of each source with that of its target, None if it is
    dropped. A list as target is extended. RESOLVE, for which Heat asks a service, moves nothing
    (heat/engine/translation.py)."""
    instance = object.__new__(resource)
    instance.client_plugin = lambda *_: _Given()
    moved: dict[str, str | None] = {}
    for rule in sorted(resource.translation_rules(instance, _Given())):
        target = ".".join(rule.translation_path)
        match rule.rule, rule.value:
            case rule.RESOLVE, _:
                pass
            case rule.DELETE, _:
                moved.setdefault(target, None)
            case _, [dict(member)]:
                moved |= {source: f"{target}.{key}" for key, source in member.items() if isinstance(source, _Path)}
            case _, [source]:
                moved[source] = target
            case _:
                moved[".".join(rule.get_value_absolute_path(full_value_name=True))] = target
    return {source: target for source, target in moved.items() if source.split(".")[0] in resource.properties_schema}


class _Path(str):
    """The path of a property, as the value that a translation rule moves."""


class _Given:
    """The properties of a resource with every property set to its path; and a client's plugin."""

    def get(self, key: str) -> _Path:
        return _Path(key)

    __getitem__ = __getattr__ = get


def property_of(schema: Any) -> dict[str, Any]:
    """A property as the keyword arguments of `catalogue.schema.Property`, without defaults."""
    from heat.engine import constraints, properties

    schema = properties.Schema.from_legacy(schema)
    described: dict[str, Any] = {"kind": schema.type.lower()}
    if schema.required:
        described["required"] = True
    if not schema.implemented:
        described["implemented"] = False
    if schema.default is not None:
        described["default"] = default_of(schema)
    for constraint in schema.constraints:
        match constraint:
            case constraints.AllowedValues():
                described["allowed"] = list(constraint.allowed)
            case constraints.Length():
                described["length"] = [constraint.min, constraint.max]
            case constraints.Range():
                described["range"] = [constraint.min, constraint.max]
            case constraints.Modulo():
                described["modulo"] = [constraint.step, constraint.offset]
            case constraints.AllowedPattern():
                described["pattern"] = constraint.pattern
            case constraints.CustomConstraint():
                described["custom"] = constraint.name
    for flag in ("update_allowed", "immutable"):
        if getattr(schema, flag):
            described[flag] = True
    described |= support_of(schema)
    if schema.schema is None:
        return described
    inner = schema.schema
    if schema.type == schema.LIST:
        item = properties.Schema.from_legacy(inner.value)
        if item.type != item.MAP or item.schema is None:
            return {**described, "item": property_of(item)}
        inner = item.schema
    return {**described, "children": {key: property_of(child) for key, child in sorted(inner.items())}}


def default_of(schema: Any) -> object:
    """The default as Heat reads it: some booleans are texts, and the default of a list may be an empty map."""
    match schema.type, schema.default:
        case schema.BOOLEAN, str(text):
            return text.lower() == "true"
        case schema.LIST, default:
            return default or []
    return schema.default


def relation_name(name: str) -> str:
    """``OS::Neutron::QoSPolicy`` is ``os:neutron:qos_policy``: a word ends before a capital that starts another."""
    for acronym, word in ACRONYMS.items():
        name = name.replace(acronym, word)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return words.replace("::", ":").lower()


def compact(data: object) -> str:
    return json.dumps(data, separators=(",", ":"))


if __name__ == "__main__":
    main()
