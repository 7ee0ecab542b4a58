"""Nested stacks that are read as Heat holds them."""

from __future__ import annotations

import json
from dataclasses import replace

from datalog_gate.base.values import ResourceId
from datalog_gate.decision_point.redaction import redact_definition
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Data, Stack
from datalog_gate.template.held import HeldStack, HeldStacks, read_adopted
from tests.refusals import refusals

HEAD = {"heat_template_version": "2018-08-31"}
PARENT = {
    **HEAD,
    "parameters": {"key": {"type": "string", "hidden": True, "default": ""}},
    "resources": {
        "net": {"type": "OS::Neutron::Net"},
        "db": {"type": "db.yaml", "properties": {"net": {"get_resource": "net"}}},
    },
}
CHILD = {
    **HEAD,
    "parameters": {"net": {"type": "string"}, "size": {"type": "number", "default": 1}},
    "resources": {
        "port": {"type": "OS::Neutron::Port", "properties": {"network": {"get_param": "net"}}},
        "disk": {"type": "OS::Cinder::Volume", "properties": {"size": {"get_param": "size"}}},
    },
}
FILES = {"db.yaml": json.dumps(CHILD)}


def held(template: Data = CHILD, files: dict[str, str] | None = None, **parameters: Data) -> HeldStacks:
    """The child as Heat holds it, and the id of the network."""
    stack = HeldStack("web-db-x7", template, {"parameters": {"net": "n-1", **parameters}}, files or {})  # type: ignore[arg-type]
    return HeldStacks({"web/db": stack}, {"n-1": "web/net"})


def read(stacks: HeldStacks, parent: Data = PARENT) -> Stack:
    definition = StackDefinition(parent, files=FILES, held=stacks)  # type: ignore[arg-type]
    return StackDefinition.from_json(json.loads(json.dumps(definition.to_json()))).stack("web", SHIPPED)


def child(stack: Stack) -> Stack:
    nested = stack.resources[1].nested
    assert nested
    return nested


def properties(stack: Stack) -> dict[str, Data]:
    return {resource.name: dict(resource.properties) for resource in child(stack).resources}


def test_an_output_of_what_heat_deleted_has_no_value() -> None:
    data = {"str_split": [",", {"get_attr": ["disk", "metadata"]}, 0]}
    stack = read(held({**CHILD, "resources": {}, "outputs": {"o": {"value": data}}}))
    assert (list(child(stack).resources), child(stack).outputs) == ([], {"o": None})


def test_a_nested_stack_in_heat_replaces_the_one_in_the_parents_template() -> None:
    stack = read(held(size=64, unknown="left by an update"))
    assert (child(stack).id, child(stack).name, child(stack).depth) == ("web/db", "web-db-x7", 1)
    assert properties(stack) == {"port": {"network": ResourceId("web/net")}, "disk": {"size": 64}}
    assert properties(read(HeldStacks()))["disk"] == {"size": 1}


def test_an_id_in_a_held_template_is_a_reference_too() -> None:
    members = {
        **HEAD,
        "resources": {"0": {"type": "OS::Neutron::Port", "properties": {"network": "n-1", "name": "n-2"}}},
    }
    assert properties(read(held(members))) == {"0": {"network": ResourceId("web/net"), "name": "n-2"}}


def test_a_held_stack_has_files_of_its_own() -> None:
    inner = {**HEAD, "resources": {"inner": {"type": "db.yaml", "properties": {"net": "x"}}}}
    other = json.dumps({**HEAD, "parameters": {"net": {"type": "string"}}, "resources": {"a": {"type": "leaf.yaml"}}})
    [resource] = child(read(held(inner, {"db.yaml": other, "leaf.yaml": json.dumps(HEAD)}))).resources
    assert resource.nested
    assert [member.name for member in resource.nested.resources] == ["a"]
    assert refusals(lambda: read(held(inner)), "message") == ["there is no file db.yaml"]


def test_all_of_a_held_stack_is_hidden_where_something_given_to_it_is() -> None:
    hiding = json.loads(json.dumps(PARENT).replace('{"get_resource": "net"}', '{"get_param": "key"}'))
    stack = read(held(size=64), hiding)
    assert child(stack).resources[1].hides(("properties", "size"), False)
    assert not child(read(held(size=64))).resources[1].hides(("properties", "size"), True)


def test_a_log_shows_no_secret_of_a_held_stack() -> None:
    hiding = json.loads(json.dumps(PARENT).replace('{"get_resource": "net"}', '{"get_param": "key"}'))
    stack = replace(held(net="S3CRET", size=64).stacks["web/db"], metadata={"of": ["S3CRET"]})
    held_stacks = HeldStacks({"web/db": stack})
    definition = StackDefinition(hiding, parameters={"key": "S3CRET"}, files=FILES, held=held_stacks)
    redacted, names = redact_definition(definition.to_json(), [definition.stack("web", SHIPPED)])
    assert names == ["key"]
    assert redacted["held"]["stacks"]["web/db"]["environment"] == {"parameters": {"net": "******", "size": 64}}
    assert redacted["held"]["stacks"]["web/db"]["metadata"] == {"of": ["******"]}
    assert "S3CRET" not in json.dumps(redacted)


def test_adopted_parameters_count_where_the_parent_gives_none() -> None:
    data = {
        "environment": {"parameters": {"key": "of the root"}},
        "resources": {
            "net": {"environment": "broken"},
            "db": {
                "environment": {"parameters": {"net": "n-9", "size": 64}},
                "resources": {"x": {"resources": [], "environment": {"parameters": {"deep": 1}}}},
            },
        },
    }
    adopted = read_adopted(data, "web")
    assert adopted == {"web/db": {"net": "n-9", "size": 64}, "web/db/x": {"deep": 1}}
    assert read_adopted(None, "web") == {}
    assert properties(read(HeldStacks(adopted=adopted))) == {
        "port": {"network": ResourceId("web/net")},
        "disk": {"size": 64},
    }


def test_a_log_shows_no_secret_in_adopted_parameters() -> None:
    template = json.loads(json.dumps(PARENT).replace('"key"', '"size"'))
    adopted = HeldStacks(adopted={"web/db": {"size": 12345, "net": "S3CRET"}})
    definition = StackDefinition(template, parameters={"size": "S3CRET"}, files=FILES, held=adopted)
    redacted, _ = redact_definition(definition.to_json(), [definition.stack("web", SHIPPED)])
    assert redacted["held"]["adopted"] == {"web/db": {"size": "******", "net": "******"}}


def test_the_facade_of_a_held_stack_has_the_metadata_that_heat_stored() -> None:
    inner: dict[str, Data] = {
        **HEAD,
        "resources": {"a": {"type": "OS::Heat::Value", "properties": {"value": {"resource_facade": "metadata"}}}},
    }
    stored = HeldStack("web-db-x7", inner, {}, metadata={"of": "n-1"})
    db = {"type": "db.yaml", "metadata": {"of": "x"}}
    parent: dict[str, Data] = {**HEAD, "resources": {"net": {"type": "OS::Neutron::Net"}, "db": db}}
    assert properties(read(HeldStacks({"web/db": stored}, {"n-1": "web/net"}), parent)) == {
        "a": {"value": {"of": ResourceId("web/net")}}
    }
    assert properties(read(HeldStacks({"web/db": replace(stored, metadata=None)}), parent)) == {
        "a": {"value": {"of": "x"}}
    }
