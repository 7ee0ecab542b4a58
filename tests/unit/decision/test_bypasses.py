"""The same open port, written in ways that could hide it."""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from datalog_gate import api
from datalog_gate.files.templates import read_stack

RULES = Path(__file__).parents[3] / "rules"
HEAD = "heat_template_version: 2018-08-31\n"
OPEN = "security group {} lets 0.0.0.0/0 reach port 22"
GROUP = "type: OS::Neutron::SecurityGroup, properties: {rules: [{remote_ip_prefix: %s, protocol: tcp, port_range_min: 22, port_range_max: 22}]}"
ANY = GROUP % "0.0.0.0/0"
NESTED = HEAD + "parameters: {from: {type: string}}\nresources:\n  inner: {" + GROUP % "{get_param: from}" + "}\n"

CASES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a literal": ("resources:\n  sg: {" + ANY + "}\n", {}, ["sg"]),
    "an output of a nested stack": (
        "resources:\n  in: {type: out.yaml}\n  sg: {" + GROUP % "{get_attr: [in, any]}" + "}\n",
        {"files": {"out.yaml": HEAD + "resources:\n  r: {type: OS::Heat::None}\noutputs: {any: {value: 0.0.0.0/0}}\n"}}, ["sg"]),
    "an attribute of a resource in a nested stack": (
        "resources:\n  in: {type: out.yaml}\n  sg: {" + GROUP % "{get_attr: [in, resource.v, value]}" + "}\n",
        {"files": {"out.yaml": HEAD + "resources:\n  v: {type: OS::Heat::Value, properties: {value: 0.0.0.0/0}}\n"}}, ["sg"]),
    "a part of a text that its type calls a map, which is nothing": (
        "resources:\n  v: {type: OS::Heat::Value, properties: {type: json, value: '{\"from\": \"10.1.0.0/16\"}'}}\n  sg: {" + GROUP % "{get_attr: [v, value, from]}" + "}\n", {}, ["sg"]),
    "a wildcard that leads to a template, which Heat never follows": (
        "resources:\n  sg: {" + ANY + "}\n",
        {"files": {"in.yaml": HEAD + "parameters: {rules: {type: json}}\nresources: {r: {type: OS::Heat::None}}\n"},
         "environment": {"resource_registry": {"OS::Neutron::Sec*": "in.yaml"}}}, ["sg"]),
    "a mapping of one resource in a nested stack": (
        "resources:\n  in: {type: in.yaml}\n",
        {"files": {"in.yaml": HEAD + "resources:\n  sg: {" + ANY.replace("OS::Neutron::SecurityGroup", "OS::Heat::None") + "}\n"},
         "environment": {"resource_registry": {"resources": {"in": {"sg": {"OS::Heat::None": "OS::Neutron::SecurityGroup"}}}}}}, ["sg"]),
    "a mapping of one resource, which Heat keeps for all of its type": (
        "resources:\n  sg: {" + ANY.replace("OS::Neutron::SecurityGroup", "OS::Heat::None") + "}\n  other: {type: OS::Heat::None}\n",
        {"environment": {"resource_registry": {"resources": {"other": {"OS::Heat::None": "OS::Neutron::SecurityGroup"}}}}}, ["sg"]),
    "a mapping of one resource that holds for a nested stack too": (
        "resources:\n  in: {type: in.yaml}\n  other: {type: OS::Heat::None}\n",
        {"files": {"in.yaml": HEAD + "resources:\n  sg: {" + ANY.replace("OS::Neutron::SecurityGroup", "OS::Heat::None") + "}\n"},
         "environment": {"resource_registry": {"resources": {"other": {"OS::Heat::None": "OS::Neutron::SecurityGroup"}}}}}, ["sg"]),
    "a mapping of one member of a group": (
        "resources:\n  g: {type: OS::Heat::ResourceGroup, properties: {count: 2, resource_def: {" + ANY.replace("OS::Neutron::SecurityGroup", "OS::Heat::None") + "}}}\n",
        {"environment": {"resource_registry": {"resources": {"g": {"0": {"OS::Heat::None": "OS::Neutron::SecurityGroup"}}}}}}, ["s/g/0", "s/g/1"]),
    "a mapping of a resource that there is not": (
        "conditions: {never: {equals: [a, b]}}\nresources:\n  gone: {type: OS::Heat::None, condition: never}\n  sg: {" + ANY.replace("OS::Neutron::SecurityGroup", "OS::Heat::None") + "}\n",
        {"environment": {"resource_registry": {"resources": {"gone": {"OS::Heat::None": "OS::Neutron::SecurityGroup"}}}}}, []),
    "a mapping of one resource to nothing": (
        "resources:\n  sg: {" + ANY + "}\n  other: {type: OS::Neutron::SecurityGroup}\n",
        {"environment": {"resource_registry": {"resources": {"other": {"OS::Neutron::SecurityGroup": "OS::Heat::None"}}}}}, ["sg"]),
    "a mapping of one resource to nothing that a null takes away": (
        "resources:\n  sg: {" + ANY + "}\n",
        {"environment": {"resource_registry": {"resources": {"sg": {"OS::Neutron::SecurityGroup": "OS::Heat::None", "OS::Neutron::*": None}}}}}, ["sg"]),
    "an alias that an empty wildcard leaves": (
        "resources:\n  sg: {" + ANY.replace("OS::Neutron::SecurityGroup", "My::Harmless") + "}\n",
        {"environment": {"resource_registry": {"My::Harmless": "OS::Neutron::SecurityGroup", "My::*": ""}}}, ["sg"]),
    "the member of a group made open by its index": (
        "resources:\n  g: {type: OS::Heat::ResourceGroup, properties: {count: 1, index_var: I, resource_def: {" + GROUP % "I.0.0.0/0" + "}}}\n", {}, ["s/g/0"]),
    "a function in the data of a group's members": (
        "parameters: {from: {type: json, default: {list_join: [/, [0.0.0.0, '0']]}}}\nresources:\n  g: {type: OS::Heat::ResourceGroup, properties: {count: 1, resource_def: {" + GROUP % "{get_param: from}" + "}}}\n", {}, ["s/g/0"]),
    "a link of a chain": (
        "resources:\n  c: {type: OS::Heat::ResourceChain, properties: {resources: [OS::Neutron::SecurityGroup], resource_properties: "
        + ANY.partition("properties: ")[2] + "}}\n", {}, ["s/c/0"]),
    "a stack within the text of a property": (
        "resources:\n  in: {type: OS::Heat::Stack, properties: {template: {get_file: in.yaml}, parameters: {from: 0.0.0.0/0}}}\n",
        {"files": {"in.yaml": NESTED}}, ["inner"]),
    "another dialect": (
        "HeatTemplateFormatVersion: '2012-12-12'\nResources:\n  sg: {Type: 'OS::Neutron::SecurityGroup', Properties: {rules: [{remote_ip_prefix: {'Fn::Join': ['/', [0.0.0.0, '0']]}, protocol: tcp}]}}\n", {}, ["sg"]),
}  # fmt: skip


def denials(template: str, inputs: dict[str, Any]) -> list[str]:
    head = "" if "FormatVersion" in template else HEAD
    stack = read_stack(template=head + template, stack_name="s", **inputs)
    decision = api.load_rules(RULES).decide(stack)
    return [violation.message for violation in decision.violations if violation.policy == "net.open_ssh"]


@pytest.mark.parametrize(("template", "inputs", "groups"), CASES.values(), ids=CASES)
def test_an_open_port_is_found_however_it_is_written(template: str, inputs: dict[str, Any], groups: list[str]) -> None:
    assert denials(template, inputs) == [OPEN.format(group) for group in groups]
