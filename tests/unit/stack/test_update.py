"""Predicted changes: heat:change and heat:disruption."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from datalog_gate.base.values import ResourceId, row_key, show
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.flatten import flatten
from datalog_gate.facts.old_relations import add_old_facts
from datalog_gate.files.templates import read_stack
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Live, Stack

HEAD = "heat_template_version: 2021-04-16\nparameters: {p: {type: string}, q: {type: string}}\nresources:\n"
BOTH = ("heat:change", "heat:disruption")


def stack(resources: str, files: Mapping[str, str] | None = None, live: tuple[Live, ...] = ()) -> Stack:
    body = "".join(f"  {line}\n" for line in resources.splitlines())
    read = read_stack(template=HEAD + body, files=files, stack_name="s")
    object.__setattr__(read, "live", live)
    return read


def past_of(old: Stack, new: Stack, wanted: Collection[str] = BOTH) -> FactSet:
    facts = flatten(new, SHIPPED, wanted)
    add_old_facts(facts, [old], [new], SHIPPED, wanted)
    return facts


def read_changes(facts: FactSet) -> list[str]:
    """The rows of both relations as lines; uncertain ones have a question mark."""
    return [
        f"{'? ' if row in facts.maybe[name] else ''}{' '.join(map(show, row))}"
        for name in BOTH
        for row in sorted(facts.rows.get(name, ()), key=row_key)
    ]


SERVER = "srv: {type: OS::Nova::Server, properties: {flavor: %s, image: %s, %s}}"
PORT = "port: {type: OS::Neutron::Port, properties: {network: %s, %s}}"
HOLDS = (
    "srv: {type: OS::Nova::Server, properties: {flavor: tiny, image: debian, networks: [{port: {get_resource: port}}]}}"
)
VOLUME = "vol: {type: OS::Cinder::Volume, properties: {size: 1, %s}}"
CHAIN = """iface: {type: OS::Neutron::RouterInterface, properties: {router: r, subnet: {get_resource: sub}}}
sub: {type: OS::Neutron::Subnet, properties: {network: {get_resource: net}, cidr: 10.0.0.0/24}}
net: {type: OS::Neutron::Net, properties: {tenant_id: %s}}"""

PAIRS: dict[str, tuple[str, str, list[str]]] = {
    "nothing": (VOLUME % "", VOLUME % "", ["s/vol unchanged"]),
    "a new one and one that goes": (
        VOLUME % "", "new: {type: OS::Cinder::Volume}", ["s/new create", "s/vol delete"]),
    "a property that can be updated": (VOLUME % "name: a", VOLUME % "name: b", ["s/vol update"]),
    "a property that can't be": (
        VOLUME % "availability_zone: a", VOLUME % "availability_zone: b", ["s/vol replace"]),
    "a property that is no longer said": (VOLUME % "availability_zone: a", VOLUME % "", ["s/vol replace"]),
    "a default that is now said": (
        PORT % ("a", ""), PORT % ("a", "admin_state_up: true"), ["s/port update"]),
    "another type": (
        "one: {type: OS::Neutron::Net}", "one: {type: OS::Neutron::Router}", ["s/one replace"]),
    "metadata": (
        "net: {type: OS::Neutron::Net}", "net: {type: OS::Neutron::Net, metadata: {a: b}}", ["s/net update"]),
    "a deletion policy": (
        "net: {type: OS::Neutron::Net}", "net: {type: OS::Neutron::Net, deletion_policy: Retain}", ["s/net update"]),
    "a list that grows": (
        SERVER % ("tiny", "d", "tags: [a]"), SERVER % ("tiny", "d", "tags: [a, b]"), ["s/srv update"]),
    "what it depends on": (
        "net: {type: OS::Neutron::Net}\na: {type: OS::Neutron::Net}",
        "net: {type: OS::Neutron::Net, depends_on: a}\na: {type: OS::Neutron::Net}",
        ["s/a unchanged", "s/net update"]),
    "a condition that holds": (
        "net: {type: OS::Neutron::Net}", "net: {type: OS::Neutron::Net, condition: {equals: [1, 1]}}",
        ["s/net update"]),
    "a flavour": (SERVER % ("tiny", "d", ""), SERVER % ("big", "d", ""), ["s/srv update", "s/srv resize"]),
    "a flavour, by policy": (
        SERVER % ("tiny", "d", ""), SERVER % ("big", "d", "flavor_update_policy: REPLACE"), ["s/srv replace"]),
    "a flavour, by a policy that nobody knows": (
        SERVER % ("tiny", "d", "flavor_update_policy: {get_param: p}"),
        SERVER % ("big", "d", "flavor_update_policy: {get_param: p}"),
        ["? s/srv replace", "? s/srv update", "? s/srv resize"]),
    "an image": (SERVER % ("tiny", "d", ""), SERVER % ("tiny", "e", ""), ["s/srv update", "s/srv rebuild"]),
    "an image and a flavour": (
        SERVER % ("tiny", "d", "image_update_policy: REBUILD_PRESERVE_EPHEMERAL"),
        SERVER % ("big", "e", "image_update_policy: REBUILD_PRESERVE_EPHEMERAL"),
        ["s/srv update", "s/srv rebuild", "s/srv resize"]),
    "user data that rebuilds": (
        SERVER % ("tiny", "d", "user_data: a, user_data_update_policy: REBUILD"),
        SERVER % ("tiny", "d", "user_data: b, user_data_update_policy: REBUILD"),
        ["s/srv update", "s/srv rebuild"]),
    "a name and an id, which may be one": (
        SERVER % ("tiny", "d", ""), SERVER % ("7a3ebc1e-6df0-4f3c-8f3a-2f1d7d3a9b10", "d", ""),
        ["s/srv update", "? s/srv resize"]),
    "an instance's type": (
        "i: {type: AWS::EC2::Instance, properties: {ImageId: d, InstanceType: a}}",
        "i: {type: AWS::EC2::Instance, properties: {ImageId: d, InstanceType: b}}",
        ["s/i update", "s/i resize"]),
    "a port that is replaced always": (
        PORT % ("a", "replacement_policy: REPLACE_ALWAYS"), PORT % ("a", "replacement_policy: REPLACE_ALWAYS"),
        ["s/port replace"]),
    "a handle that is replaced always": (
        "w: {type: OS::Heat::UpdateWaitConditionHandle}", "w: {type: OS::Heat::UpdateWaitConditionHandle}",
        ["s/w replace"]),
    "what Heat no longer has": (
        "i: {type: OS::Glance::Image}", "i: {type: OS::Glance::Image, metadata: {a: b}}", ["s/i unchanged"]),
    "a type that was renamed": (
        "d: {type: OS::Heat::SoftwareDeployments, properties: {servers: {}}}",
        "d: {type: OS::Heat::SoftwareDeploymentGroup, properties: {servers: {}}}",
        ["s/d update"]),
    "a type that nobody knows": (
        "x: {type: Acme::Box, properties: {a: 1}}\ny: {type: Acme::Box}",
        "x: {type: Acme::Box, properties: {a: 2}}\ny: {type: Acme::Box}",
        ["? s/x replace", "? s/x update", "s/y unchanged"]),
    "a launch configuration's metadata": (
        "l: {type: 'AWS::AutoScaling::LaunchConfiguration'}",
        "l: {type: 'AWS::AutoScaling::LaunchConfiguration', metadata: {a: b}}",
        ["s/l replace"]),
    "what exists already": (
        "net: {type: OS::Neutron::Net, external_id: x}",
        "net: {type: OS::Neutron::Net, external_id: x, properties: {name: b}}",
        ["s/net unchanged"]),
    "what an external id of null does not name": (
        "net: {type: OS::Neutron::Net, external_id: {if: [{equals: [a, b]}, x, null]}}",
        "net: {type: OS::Neutron::Net, external_id: {if: [{equals: [a, b]}, x, null]}, properties: {name: b}}",
        ["s/net update"]),
    "a reference to what is replaced, which can be updated": (
        f"{PORT % ('a', '')}\n{HOLDS}", f"{PORT % ('b', '')}\n{HOLDS}", ["s/port replace", "s/srv update"]),
    "a reference to what is replaced, which can't be, and so on": (
        CHAIN % "a", CHAIN % "b", ["s/iface replace", "s/net replace", "s/sub replace"]),
    "a reference by name to what is replaced": (
        "key: {type: OS::Nova::KeyPair, properties: {name: k, public_key: a}}\n"
        "srv: {type: OS::Nova::Server, properties: {flavor: tiny, key_name: {get_resource: key}}}",
        "key: {type: OS::Nova::KeyPair, properties: {name: k, public_key: b}}\n"
        "srv: {type: OS::Nova::Server, properties: {flavor: tiny, key_name: {get_resource: key}}}",
        ["s/key replace", "? s/srv replace", "? s/srv unchanged"]),
    "an attribute of what is updated": (
        f"{PORT % ('a', 'name: x')}\n"
        + "srv: {type: OS::Nova::Server, properties: {flavor: tiny, user_data: {get_attr: [port, status]}}}",
        f"{PORT % ('a', 'name: y')}\n"
        + "srv: {type: OS::Nova::Server, properties: {flavor: tiny, user_data: {get_attr: [port, status]}}}",
        ["s/port update", "? s/srv replace", "? s/srv unchanged"]),
    "an attribute of what stays": (
        f"{PORT % ('a', '')}\nvol: {{type: OS::Cinder::Volume, properties: {{name: a, "
        "availability_zone: {get_attr: [port, status]}}}",
        f"{PORT % ('a', '')}\nvol: {{type: OS::Cinder::Volume, properties: {{name: b, "
        "availability_zone: {get_attr: [port, status]}}}",
        ["s/port unchanged", "s/vol update"]),
    "an unknown for a value": (
        VOLUME % "availability_zone: a", VOLUME % "availability_zone: {get_param: p}",
        ["? s/vol replace", "? s/vol unchanged", "? s/vol update"]),
    "an unknown for another, and something certain": (
        VOLUME % "name: a, availability_zone: {get_param: p}", VOLUME % "name: b, availability_zone: {get_param: q}",
        ["? s/vol replace", "? s/vol update"]),
    "the same unknown": (
        VOLUME % "availability_zone: {get_param: p}", VOLUME % "availability_zone: {get_param: p}",
        ["s/vol unchanged"]),
    "a condition that nobody knows": (
        VOLUME % "",
        "vol: {type: OS::Cinder::Volume, condition: {equals: [{get_param: p}, x]}, properties: {size: 1}}",
        ["? s/vol delete", "? s/vol update"]),
    "a condition that nobody knew": (
        "vol: {type: OS::Cinder::Volume, condition: {equals: [{get_param: p}, x]}, properties: {size: 1}}",
        VOLUME % "", ["? s/vol create", "? s/vol update"]),
    "the same condition": (
        "vol: {type: OS::Cinder::Volume, condition: {equals: [{get_param: p}, x]}, properties: {size: 1}}",
        "vol: {type: OS::Cinder::Volume, condition: {equals: [{get_param: p}, x]}, properties: {size: 2}}",
        ["? s/vol update"]),
}  # fmt: skip


@pytest.mark.parametrize("what", PAIRS)
def test_a_change_is_what_heat_would_do(what: str) -> None:
    old, new, expected = PAIRS[what]
    assert read_changes(past_of(stack(old), stack(new))) == expected


GROUP = (
    "g: {type: OS::Heat::ResourceGroup, properties: "
    "{count: %s, resource_def: {type: OS::Cinder::Volume, properties: %s}}}"
)
NESTED = "n: {type: n.yaml, properties: {a: %s}}"
CHILD = {
    "n.yaml": "heat_template_version: 2021-04-16\nparameters: {a: {type: string}}\nresources:\n"
    "  v: {type: OS::Cinder::Volume, properties: {size: 1, availability_zone: {get_param: a}}}\n"
}
CHILD["n.template"] = CHILD["n.yaml"]
SCALED = """g:
  type: OS::Heat::InstanceGroup
  properties: {AvailabilityZones: [a], LaunchConfigurationName: {get_resource: l}, Size: 1}
%sl: {type: "AWS::AutoScaling::LaunchConfiguration", properties: {ImageId: %s, InstanceType: t}}"""
ROLLING = "  update_policy: {RollingUpdate: {MaxBatchSize: 1}}\n"
WITHIN: dict[str, tuple[str, str, list[str]]] = {
    "a group that grows": (
        GROUP % (1, "{size: 1}"), GROUP % (2, "{size: 1}"), ["s/g update", "s/g/0 unchanged", "s/g/1 create"]),
    "a group whose members change": (
        GROUP % (2, "{size: 1, name: a}"), GROUP % (1, "{size: 1, name: b}"),
        ["s/g update", "s/g/0 update", "s/g/1 delete"]),
    "a group of which nobody knows how large it is": (
        GROUP % (2, "{size: 1}"), GROUP % ("{get_param: p}", "{size: 1}"),
        ["s/g update", "? s/g/0 delete", "? s/g/0 unchanged",
         *(f"? s/g/1 {change}" for change in ("delete", "replace", "unchanged", "update")), *(
             f"? ?(any id of {name} in members.s/g: {{get_param: p}} in s) "
             f"?(any {column} of {name} in members.s/g: {{get_param: p}} in s)"
             for name, column in zip(BOTH, ("change", "kind"), strict=True))]),
    "a group of which nobody knew how large it was": (
        GROUP % ("{get_param: p}", "{size: 1}"), GROUP % (0, "{size: 1}"), [
            "s/g update", "? s/g/0 delete", *(
             f"? ?(any id of {name} in members.s/g: {{get_param: p}} in s) "
             f"?(any {column} of {name} in members.s/g: {{get_param: p}} in s)"
             for name, column in zip(BOTH, ("change", "kind"), strict=True))]),
    "what a template gets": (NESTED % "x", NESTED % "y", ["s/n update", "s/n/v replace"]),
    "a template like before": (NESTED % "x", NESTED % "x", ["s/n update", "s/n/v unchanged"]),
    "a template of another name": (
        NESTED % "x", (NESTED % "x").replace("yaml", "template"), ["s/n update", "s/n/v unchanged"]),
    "a template that becomes a plain resource": (
        NESTED % "x", "n: {type: OS::Cinder::Volume}", ["s/n replace", "s/n/v delete"]),
    "a group that is replaced": (
        GROUP % (1, "{size: 1}"), GROUP.replace("ResourceGroup", "AutoScalingGroup").replace("count: %s", "min_size: 1,"
        " max_size: %s").replace("resource_def", "resource") % (1, "{size: 1}"),
        ["s/g replace", "s/g/0 replace"]),
    "a group that leaves its members": (
        SCALED % ("", "d"), SCALED % ("", "e"), ["s/g update", "s/g/0 unchanged", "s/l replace"]),
    "a group that rolls the change out": (
        SCALED % (ROLLING, "d"), SCALED % (ROLLING, "e"), ["s/g update", "s/g/0 replace", "s/l replace"]),
}  # fmt: skip


@pytest.mark.parametrize("what", WITHIN)
def test_what_is_nested_changes_with_what_holds_it(what: str) -> None:
    old, new, expected = WITHIN[what]
    assert read_changes(past_of(stack(old, CHILD), stack(new, CHILD))) == expected


def test_what_a_change_within_a_template_may_change_around_it() -> None:
    around = (
        f"{NESTED % 'x'}\nvol: {{type: OS::Cinder::Volume, properties: {{availability_zone: {{get_attr: [n, a]}}}}}}"
    )
    larger = {"n.yaml": CHILD["n.yaml"].replace("size: 1", "size: 2")}
    assert read_changes(past_of(stack(around, CHILD), stack(around, larger))) == [
        "s/n update", "s/n/v update", "? s/vol replace", "? s/vol unchanged"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("definition", "action", "status", "expected"),
    [
        (VOLUME % "", "CREATE", "COMPLETE", ["s/vol unchanged"]),
        (VOLUME % "", "UPDATE", "FAILED", ["? s/vol replace", "? s/vol unchanged"]),
        (VOLUME % "", "CHECK", "FAILED", ["s/vol replace"]),
        (VOLUME % "", "INIT", "COMPLETE", ["s/vol replace"]),
        ("key: {type: OS::Nova::KeyPair, properties: {name: k}}", "CREATE", "FAILED", ["s/key replace"]),
        (GROUP % (1, "{}"), "CREATE", "FAILED", ["s/g update", "s/g/0 unchanged"]),
        (GROUP % (1, "{}"), "CHECK", "FAILED", [
            "? s/g replace", "? s/g update", "? s/g/0 replace", "? s/g/0 unchanged"]),
    ],
)  # fmt: skip
def test_what_failed_is_replaced_in_the_next_update(
    definition: str, action: str, status: str, expected: list[str]
) -> None:
    name = definition.partition(":")[0]
    before = stack(definition, live=(Live(ResourceId(f"s/{name}"), action, status, "x"),))
    assert read_changes(past_of(before, stack(definition))) == expected
