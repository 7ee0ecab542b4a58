"""Compare predicted changes of resources with both engines of Heat."""

from __future__ import annotations

import json
from typing import Any

from datalog_gate.base.values import ResourceId, show
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.flatten import flatten
from datalog_gate.facts.old_relations import add_old_facts
from datalog_gate.files.templates import read_stack
from datalog_gate.schema.catalogue import SHIPPED
from tests.heat.doors.rig import Heat


def template(length: int, value: str, count: int, salted: bool) -> dict[str, Any]:
    """A stack of which some is replaced, some updated, some added, and some goes."""
    ref, definition = {"get_resource": "rnd"}, {"type": "OS::Heat::TestResource", "properties": {"value": value}}
    resources: dict[str, Any] = {
        "rnd": {"type": "OS::Heat::RandomString", "properties": {"length": length}},
        "along": {"type": "OS::Heat::RandomString", "properties": {"length": 8, "salt": ref}},
        "told": {"type": "OS::Heat::TestResource", "properties": {"value": ref}},
        "moved": {"type": "OS::Heat::TestResource", "properties": {"value": ref, "update_replace": True}},
        "calm": {"type": "OS::Heat::RandomString", "properties": {"length": 8}},
        "meta": {"type": "OS::Heat::Value", "metadata": {"is": value}, "properties": {"value": 1}},
        "policy": {"type": "OS::Heat::Value", "deletion_policy": "Retain" if count > 1 else "Delete"},
        "group": {"type": "OS::Heat::ResourceGroup", "properties": {"count": count, "resource_def": definition}},
        f"only{count}": {"type": "OS::Heat::RandomString", "properties": {"length": 8}},
        "none": {"type": "OS::Heat::None", "metadata": {"is": value}},
    }
    resources["policy"]["properties"] = {"value": 1}
    if not salted:
        del resources["along"]
    return {"heat_template_version": "2018-08-31", "resources": resources}


def test_an_update_does_what_the_facts_say(either: Heat, convergence: Heat) -> None:
    salted = either is convergence  # the rules beside the legacy engine judge salts, and this one they can't read
    old, new = template(8, "a", 1, salted), template(9, "b", 2, salted)
    name = either.created(old)
    before = listed(either, name)
    assert either.updated(name, new)[0] == "UPDATE_COMPLETE"
    after = listed(either, name)
    changes = {path: change(before.get(path), after.get(path)) for path in before.keys() | after.keys()}
    facts = FactSet()
    stacks = [read_stack(template=json.dumps(body), stack_name=name) for body in (old, new)]
    flatten(stacks[1], SHIPPED, {"heat:change"}, facts)
    add_old_facts(facts, stacks[:1], stacks[1:], SHIPPED, {"heat:change"})
    rows = facts.rows["heat:change"]
    assert not facts.maybe["heat:change"]
    assert {
        value.path.partition("/")[2]: show(kind) for value, kind in rows if isinstance(value, ResourceId)
    } == changes


def listed(heat: Heat, name: str) -> dict[str, dict[str, str]]:
    """What Heat tells of each resource, by its path in the stack."""
    resources = heat.on(name, "GET", "/resources?nested_depth=2").json()["resources"]
    return {
        "/".join(filter(None, (resource.get("parent_resource"), resource["resource_name"]))): resource
        for resource in resources
    }


def change(before: dict[str, str] | None, after: dict[str, str] | None) -> str:
    """What became of a resource."""
    if before is None or after is None:
        return "create" if before is None else "delete"
    if before["physical_resource_id"] != after["physical_resource_id"]:
        return "replace"
    return "update" if after["resource_status"] == "UPDATE_COMPLETE" else "unchanged"
