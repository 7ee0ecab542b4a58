"""Properties under the names that Heat reads."""

from __future__ import annotations

from typing import Any

import pytest

from datalog_gate.base.unknown import derived
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.facts.flatten import flatten
from datalog_gate.facts.lines import write_text
from datalog_gate.files.templates import read_stack
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Resource
from datalog_gate.stack.translation import as_heat_reads, to_move
from tests.expressions import unknown_of

LATER = unknown_of("{get_param: p} in s")


def moved(kind: str, properties: dict[str, Any]) -> object:
    resource = Resource(ResourceId("s/r"), "r", kind, kind, properties)
    read = as_heat_reads(resource, SHIPPED.type(kind))
    assert to_move([{}, properties], properties, SHIPPED.type(kind)) == (read is not resource)
    return read.properties


@pytest.mark.parametrize(
    ("kind", "properties", "expected"),
    [
        ("OS::Neutron::Port", {"network_id": "n", "name": "p"}, {"network": "n", "name": "p"}),
        ("OS::Neutron::Port", {"network": "n"}, {"network": "n"}),
        ("OS::Neutron::Port", {"network_id": LATER}, {"network": LATER}),
        ("OS::Cinder::Volume", {"image": "good", "imageRef": None}, {"image": None}),
        ("OS::Cinder::Volume", {"image": "good", "imageRef": ""}, {"image": ""}),
        (
            "OS::Nova::Server",
            {"networks": [{"uuid": "n"}, {"network": "m"}]},
            {"networks": [{"network": "n"}, {"network": "m"}]},
        ),
        ("OS::Nova::Server", {"networks": [{"network": "n", "uuid": None}]}, {"networks": [{"network": "n"}]}),
        ("OS::Nova::Server", {"networks": LATER}, {"networks": LATER}),
        ("OS::Nova::Server", {"networks": [LATER, {"uuid": "n"}]}, {"networks": [LATER, {"network": "n"}]}),
        ("OS::Neutron::Router", {"l3_agent_id": "a"}, {"l3_agent_ids": ["a"]}),
        ("OS::Neutron::Router", {"l3_agent_id": "a", "l3_agent_ids": ["b"]}, {"l3_agent_ids": ["b", "a"]}),
        ("OS::Neutron::Router", {"l3_agent_id": "", "l3_agent_ids": ["b"]}, {"l3_agent_id": "", "l3_agent_ids": ["b"]}),
        ("OS::Neutron::Router", {"l3_agent_id": "a", "l3_agent_ids": LATER}, {"l3_agent_ids": LATER}),
        ("OS::Heat::RandomString", {"sequence": "digits"}, {"character_classes": [{"class": "digits"}]}),
        ("OS::Designate::Zone", {"primaries": ["a"]}, {"masters": ["a"]}),
        ("OS::Designate::Zone", {"primaries": None, "masters": ["a"]}, {"masters": ["a"]}),
        (
            "OS::Mistral::Workflow",
            {"tasks": [{"name": "t", "policies": {"timeout": 5}}, {"name": "u", "timeout": 6}]},
            {"tasks": [{"name": "t", "timeout": 5}, {"name": "u", "timeout": 6}]},
        ),
        (
            "OS::Mistral::Workflow",
            {"tasks": [{"policies": LATER}]},
            {
                "tasks": [
                    {
                        name: Unknown(derived(f"{name} of ", LATER))
                        for name in ("pause_before", "wait_after", "wait_before", "timeout", "concurrency", "retry")
                    }
                ]
            },
        ),
        ("OS::Neutron::Net", {"name": "n"}, {"name": "n"}),
        ("Acme::Unheard", {"network_id": "n"}, {"network_id": "n"}),
    ],
)
def test_properties_stand_where_heat_reads_them(kind: str, properties: dict[str, Any], expected: object) -> None:
    assert moved(kind, properties) == expected


TEMPLATE = """\
heat_template_version: 2021-04-16
resources:
  net: {type: OS::Neutron::Net}
  vm:
    type: OS::Nova::Server
    properties:
      flavor: m1
      networks:
        - network: a
        - uuid: {get_resource: net}
    depends_on: edge
  edge:
    type: OS::Neutron::Router
    properties:
      l3_agent_id: agent
"""


def test_facts_have_the_names_that_heat_reads_and_the_places_of_those_that_were_written() -> None:
    wanted = ["heat:property", "heat:reference", "heat:requires"]
    wanted += ["os:nova:server.networks", "os:neutron:router.l3_agent_ids"]
    facts = flatten(read_stack(TEMPLATE, stack_name="s"), SHIPPED, wanted)
    assert list(write_text(facts)) == [
        'heat:property(id=s/edge, path="l3_agent_ids.0", value="agent")   <template>:15:20',
        'heat:property(id=s/vm, path="flavor", value="m1")   <template>:7:15',
        'heat:property(id=s/vm, path="networks.0.network", value="a")   <template>:9:20',
        'heat:property(id=s/vm, path="networks.1.network", value=s/net)   <template>:10:17',
        'heat:reference(id=s/vm, path="networks.1.network", target=s/net)   <template>:10:17',
        'heat:requires(id=s/vm, required=s/edge, why="explicit")   <template>:11:17',
        'heat:requires(id=s/vm, required=s/net, why="reference")   <template>:4:3',
        'os:neutron:router.l3_agent_ids(_id=s/edge, _index=0, _value="agent")   <template>:15:20',
        'os:nova:server.networks(_id=s/vm, _index=0, network="a")   <template>:9:11',
        "os:nova:server.networks(_id=s/vm, _index=1, network=s/net)   <template>:10:11",
    ]
