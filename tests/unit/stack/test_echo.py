"""`get_attr` of attributes that repeat a property."""

from __future__ import annotations

import json
from typing import Any

import pytest

from datalog_gate.base.values import ResourceId
from datalog_gate.files.templates import read_stack
from datalog_gate.stack.model import Resource
from tests.expressions import unknown_of


def read(kind: str, properties: dict[str, Any], *keys: object) -> object:
    """The value of `get_attr` with the keys for a resource `r` of the type."""
    resources = {
        "net": {"type": "OS::Neutron::Net"},
        "r": {"type": kind, "properties": properties},
        "reader": {"type": "OS::Heat::Value", "properties": {"value": {"get_attr": ["r", *keys]}}},
    }
    template = {"heat_template_version": "2021-04-16", "parameters": {"p": {"type": "string"}}, "resources": resources}
    stack = read_stack(json.dumps(template), stack_name="s")
    by_name: dict[str, Resource] = {resource.name: resource for resource in stack.resources}
    return by_name["reader"].properties["value"]


PARAMETER = {"get_param": "p"}
LATER = unknown_of("{get_param: p} in s")
NET = {"get_resource": "net"}
RULE = "OS::Neutron::MeteringRule"
PORT = "OS::Neutron::Port"
SUBNET = "OS::Neutron::Subnet"
PAIR = {"ip_address": "10.0.0.0/8", "mac_address": "fa:16:3e:00:00:01"}
ROUTE = {"destination": "0.0.0.0/0", "nexthop": "10.0.0.1"}


@pytest.mark.parametrize(
    ("kind", "properties", "keys", "expected"),
    [
        (RULE, {"remote_ip_prefix": "0.0.0.0/0"}, ["remote_ip_prefix"], "0.0.0.0/0"),
        (RULE, {"remote_ip_prefix": "0.0.0.0/0"}, ["direction"], "ingress"),
        (RULE, {"remote_ip_prefix": PARAMETER}, ["remote_ip_prefix"], LATER),
        ("OS::Heat::Value", {"type": "json", "value": {"a": ["x"]}}, ["value", "a", 0], "x"),
        ("OS::Heat::TestResource", {"value": "0.0.0.0/0"}, ["output"], "0.0.0.0/0"),
        ("OS::Heat::SoftwareConfig", {"config": "text"}, ["config"], "text"),
        ("OS::Heat::StructuredConfig", {"config": {"a": ["x", "y"]}}, ["config", "a", 1], "y"),
        ("OS::Heat::StructuredConfig", {"config": {"a": PARAMETER}}, ["config"], {"a": LATER}),
        ("OS::Cinder::Volume", {"name": "v", "size": "7"}, ["display_name"], "v"),
        ("OS::Cinder::Volume", {"size": "7"}, ["size"], 7),
        ("OS::Cinder::Volume", {"metadata": {"cidr": "0.0.0.0/0"}}, ["metadata_values", "cidr"], "0.0.0.0/0"),
        ("OS::Nova::Server", {"flavor": "m1", "name": 7}, ["name"], "7"),
        ("OS::Neutron::Net", {"admin_state_up": "False"}, ["admin_state_up"], False),
        (SUBNET, {"network": NET}, ["network_id"], ResourceId("s/net")),
        (SUBNET, {"network_id": NET}, ["network_id"], ResourceId("s/net")),
        (SUBNET, {"network": NET, "host_routes": [ROUTE]}, ["host_routes"], [ROUTE]),
        (SUBNET, {"network": NET, "host_routes": [ROUTE]}, ["host_routes", 0, "destination"], "0.0.0.0/0"),
        (PORT, {"network": NET, "allowed_address_pairs": [PAIR]}, ["allowed_address_pairs"], [PAIR]),
        (
            PORT,
            {"network": NET, "allowed_address_pairs": [{"ip_address": "0.0.0.0/0"}]},
            ["allowed_address_pairs", "0", "ip_address"],
            "0.0.0.0/0",
        ),
    ],
)
def test_an_attribute_that_repeats_a_property_has_its_value(
    kind: str, properties: dict[str, Any], keys: list[object], expected: object
) -> None:
    assert read(kind, properties, *keys) == expected


@pytest.mark.parametrize(
    ("kind", "properties", "keys"),
    [
        ("OS::Neutron::Net", {}, ["name"]),
        ("OS::Neutron::Net", {"name": ""}, ["name"]),
        ("OS::Neutron::Net", {"name": "n"}, ["status"]),
        ("OS::Neutron::Net", {"name": "n"}, ["show", "name"]),
        ("OS::Neutron::Net", {"name": PARAMETER}, ["name", "part"]),
        ("OS::Heat::RandomString", {}, ["value"]),
        ("OS::Heat::SoftwareConfig", {}, ["config"]),
        (SUBNET, {"network": "public"}, ["network_id"]),
        (SUBNET, {"network": PARAMETER}, ["network_id"]),
        (SUBNET, {"network": NET, "dns_nameservers": ["10.0.0.1", "10.0.0.2"]}, ["dns_nameservers", 0]),
        (SUBNET, {"network": NET, "dns_nameservers": ["10.0.0.1"]}, ["dns_nameservers", 1]),
        (SUBNET, {"network": NET, "dns_nameservers": PARAMETER}, ["dns_nameservers", 0]),
        (PORT, {"network": NET, "allowed_address_pairs": [{"ip_address": "10.0.0.1"}]}, ["allowed_address_pairs"]),
        (PORT, {"network": NET, "allowed_address_pairs": [PAIR]}, ["allowed_address_pairs", 0, "port"]),
        (PORT, {"network": NET, "security_groups": ["web"]}, ["security_groups"]),
        ("OS::Neutron::FirewallRule", {"protocol": "any"}, ["protocol"]),
    ],
)
def test_an_attribute_that_a_service_decides_is_unknown(
    kind: str, properties: dict[str, Any], keys: list[object]
) -> None:
    names = ", ".join(str(key) if key != "0" else '"0"' for key in keys)
    assert read(kind, properties, *keys) == unknown_of(f"{{get_attr: [r, {names}]}} in s")


def test_attributes_of_group_members_repeat_properties_too() -> None:
    group = {"count": 2, "resource_def": {"type": RULE, "properties": {"remote_ip_prefix": "10.%index%.0.0/16"}}}
    expected = ["10.0.0.0/16", "10.1.0.0/16"]
    assert read("OS::Heat::ResourceGroup", group, "remote_ip_prefix") == expected
    assert read("OS::Heat::ResourceGroup", group, "resource.1.remote_ip_prefix") == expected[1]


def test_the_current_size_of_a_scaling_group_is_its_initial_size() -> None:
    group = {"min_size": 1, "max_size": 3, "desired_capacity": 2, "resource": {"type": "OS::Heat::RandomString"}}
    assert read("OS::Heat::AutoScalingGroup", group, "current_size") == 2
