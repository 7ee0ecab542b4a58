"""Ways round the filter, which the doors in Heat's engines stop.

Whatever the request, nothing that violates a policy is ever built.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.heat.doors.rig import ENGINE_DOOR, HERE, Heat, heats, wait
from tests.heat.doors.templates import OF_PARAMETER, adopted, adoption, scaled, string, template
from tests.heat.doors.test_template_bypasses import TRIES

KIND = "OS::Heat::RandomString"
LENGTH = "The policies deny this stack: length: "
REASONS = {
    "nested parameter named parameters": "The stack can't be read: resources.n.properties.parameters: Heat "
    "reads the parameter `parameters` of a nested template as that section of an environment (give the parameter "
    "another name)"
}


engine = heats("convergence", "legacy", resources=ENGINE_DOOR, rules=HERE / "engine_rules")
CREATIONS = (
    "nested parameter named parameters",
    "a base_url that only the client looks at",
    "two merge keys in one mapping",
    "the tag of nothing in particular",
    "a template in JSON with a key twice",
    "an environment in JSON",
    "a facade in a member of a group",
    "a wildcard without an effect",
)
"""The ways round the filter that are tried here too."""


@pytest.mark.parametrize("name", CREATIONS)
def test_a_denied_creation_builds_nothing_that_is_denied(engine: Heat, name: str) -> None:
    stack, answer = engine.create(**TRIES[name].body)
    assert answer.status_code == 201, answer.text
    status, reason = engine.outcome(stack)
    assert (status, engine.lengths(stack)) == ("CREATE_FAILED", []), reason
    assert REASONS.get(name, LENGTH) in reason


def test_the_filter_refuses_what_adopted_data_says_of_nested_stacks(filtered: Heat) -> None:
    answer = filtered.ask("POST", "stacks", **forged(filtered.name(), length=64))
    assert (answer.status_code, LENGTH in answer.text) == (403, True), answer.text
    assert filtered.ask("POST", "stacks", **forged(name := filtered.name(), length=9)).status_code == 201
    assert (filtered.ended(name)[0], filtered.lengths(name)) == ("ADOPT_COMPLETE", [])


@pytest.mark.parametrize("name", CREATIONS)
def test_a_denied_update_builds_nothing_that_is_denied(engine: Heat, name: str) -> None:
    stack = engine.created(template(first=string()))
    body = TRIES[name].body
    for method, more in (("PUT", {}), ("PATCH", {}), ("PUT", {"existing": True})):
        answer = engine.on(stack, method, **body, **more)
        status, reason = engine.outcome(stack)
        if answer.status_code == 400:
            reason = answer.json()["error"]["message"]
        else:
            assert (answer.status_code, status) == (202, "UPDATE_FAILED"), (answer.text, reason)
        assert REASONS.get(name, LENGTH) in reason
        assert max(engine.lengths(stack), default=0) <= 8


SIZES = {"min_size": 1, "max_size": 20}
TOTAL = "The policies deny this stack: total: all strings together have "


def test_a_group_that_keeps_its_size_is_judged_with_all_its_members(engine: Heat) -> None:
    name, _ = engine.create(scaled(8, **SIZES, desired_capacity=8))
    assert engine.outcome(name)[0] == "CREATE_COMPLETE"
    assert engine.on(name, "PUT", template=scaled(30, **SIZES)).status_code == 202
    status, reason = engine.outcome(name)
    assert (status, TOTAL in reason) == ("UPDATE_FAILED", True), reason
    assert sum(engine.lengths(name)) <= 100


def test_names_that_a_group_skips_stay_skipped(engine: Heat) -> None:
    def group(count: int, length: Any, **more: Any) -> dict[str, Any]:
        return template(
            g={
                "type": "OS::Heat::ResourceGroup",
                "properties": {"count": count, "resource_def": string(length), **more},
            }
        )

    name, _ = engine.create(group(3, 8))
    engine.ended(name)
    engine.on(name, "PUT", template=group(1, 8, removal_policies=[{"resource_list": ["0", "1", "2"]}]))
    assert engine.outcome(name)[0] == "UPDATE_COMPLETE"
    assert engine.on(name, "PUT", template=group(1, "3%index%")).status_code == 202
    status, reason = engine.outcome(name)
    assert (status, f"length: {name}/g/3 has 33 characters" in reason) == ("UPDATE_FAILED", True), reason
    assert engine.lengths(name) == [8]


def test_a_signal_does_not_scale_past_a_limit(engine: Heat) -> None:
    name, _ = engine.create(scaled(30, **SIZES, desired_capacity=3))
    assert engine.outcome(name)[0] == "CREATE_COMPLETE"
    assert engine.on(name, "POST", "/resources/up/signal").status_code == 200
    engine.ended(name)
    assert engine.lengths(name) == [30, 30, 30]


def test_two_groups_that_begin_at_once_are_judged_with_each_other(engine: Heat) -> None:
    def groups(count: Any, **more: Any) -> dict[str, Any]:
        properties = {"count": count, "resource_def": string(20)}
        group = {"type": "OS::Heat::ResourceGroup", "properties": properties}
        return template(a=group, b=group, **more)

    three = {"length": 1, "character_classes": [], "character_sequences": [{"sequence": "3"}]}
    body = groups({"get_attr": ["late", "value"]}, late={"type": KIND, "properties": three})
    name, _ = engine.create(body)
    for ends in ("CREATE_FAILED", "UPDATE_FAILED"):
        status, reason = engine.outcome(name)
        assert (status, f"{TOTAL}121 characters" in reason) == (ends, True), reason
        assert sum(engine.lengths(name)) <= 100
        name = engine.created(groups(1))
        engine.on(name, "PUT", template=body)


def test_a_nested_stack_that_is_updated_itself_is_judged_within_its_tree(engine: Heat) -> None:
    body: dict[str, Any] = {
        "template": template(a=string(30), b=string(30), n={"type": "n.yaml"}),
        "files": {"n.yaml": json.dumps(OF_PARAMETER)},
    }
    name, _ = engine.create(**body)
    engine.ended(name)
    inner = next(stack for stack in engine.list_stacks() if stack["stack_name"].startswith(f"{name}-n-"))
    answer = engine.ask(
        "PUT", f"stacks/{inner['stack_name']}/{inner['id']}", template=template(s=string(30), t=string(30))
    )
    status, reason = engine.outcome(inner["stack_name"])
    if answer.status_code == 400:
        reason = answer.json()["error"]["message"]
    else:
        assert (answer.status_code, status) == (202, "UPDATE_FAILED")
    assert f"{TOTAL}120 characters" in reason
    assert engine.lengths(name) == [8, 30, 30]


def forged(name: str, **parameters: Any) -> dict[str, Any]:
    """The request to adopt a stack that nests another, whose data has these parameters."""
    data = {"template": template(s=string(64)), "environment": {"parameters": parameters}}
    nested = adopted("n.yaml", resources={"s": adopted(KIND)}, **data)
    return adoption(name, template(n={"type": "n.yaml"}), {"n": nested}, {"n.yaml": json.dumps(OF_PARAMETER)})


def test_what_adopted_data_says_of_nested_stacks_is_judged(engine: Heat) -> None:
    name = engine.name()
    answer = engine.ask("POST", "stacks", **forged(name, length=64))
    assert answer.status_code == 201, answer.text
    status, reason = engine.outcome(name)
    assert (status, engine.lengths(name)) == ("ADOPT_FAILED", []), reason
    assert LENGTH in reason
    assert engine.ask("POST", "stacks", **forged(good := engine.name(), length=9)).status_code == 201
    assert engine.outcome(good) == ("ADOPT_COMPLETE", "Stack ADOPT completed successfully")


def test_a_reference_that_a_parent_passed_is_one_in_the_nested_stack(engine: Heat) -> None:
    inner = {
        **template(s=string(8, {"get_param": "owner"})),
        "parameters": {"owner": {"type": "string"}},
    }
    passed = {"owner": {"get_resource": "o"}}
    group = {"count": 2, "resource_def": {"type": "n.yaml", "properties": passed}}
    body: dict[str, Any] = {
        "template": template(
            o={"type": "OS::Heat::Value", "properties": {"value": "x"}},
            n={"type": "n.yaml", "properties": passed},
            g={"type": "OS::Heat::ResourceGroup", "properties": group},
        ),
        "files": {"n.yaml": json.dumps(inner)},
    }
    name, _ = engine.create(**body)
    assert engine.outcome(name) == ("CREATE_COMPLETE", "Stack CREATE completed successfully")


def test_a_text_made_of_an_attribute_is_compared_with_nothing(engine: Heat) -> None:
    made = {"str_replace": {"template": "of x", "params": {"x": {"get_attr": ["v", "value"]}}}}
    value = {"type": "OS::Heat::Value", "properties": {"value": "abc"}}
    none = {"type": "OS::Heat::None", "properties": {"text": made}}
    name, _ = engine.create(template(v=value, n=none))
    assert engine.outcome(name) == ("CREATE_COMPLETE", "Stack CREATE completed successfully")


FAILS = {"type": "OS::Heat::TestResource", "properties": {"fail": True}, "depends_on": "first"}


def rolled_back(engine: Heat, name: str, **body: Any) -> tuple[str, str]:
    """The status and reason of a stack whose update fails and is rolled back."""
    engine.on(name, "PUT", disable_rollback=False, **body)
    wait(lambda: engine.stack(name)["stack_status"] in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED"), engine.log)
    return engine.outcome(name)


def test_a_rollback_does_not_build_what_was_denied(engine: Heat) -> None:
    name, _ = engine.create(template(first=string(64)))
    assert engine.ended(name)[0] == "CREATE_FAILED"
    status, reason = rolled_back(engine, name, template=template(first=string(8), bad=FAILS))
    assert (status, engine.lengths(name), LENGTH in reason) == ("ROLLBACK_FAILED", [8], True), reason


def test_a_rollback_does_not_build_what_was_denied_in_a_nested_stack(engine: Heat) -> None:
    late = {"type": "OS::Heat::TestResource", "properties": {"value": "nobody"}}
    nested = {"type": "n.yaml", "properties": {"owner": {"get_attr": ["first", "output"]}}}
    inner = {**template(s=string(8, {"get_param": "owner"})), "parameters": {"owner": {"type": "string"}}}
    files = {"n.yaml": json.dumps(inner)}
    denial = "owner: "
    name, answer = engine.create(template(first=late, n=nested), files=files)
    status, reason = engine.outcome(name)
    assert (status, denial in reason) == ("CREATE_FAILED", True), (reason, answer.text)
    status, reason = rolled_back(engine, name, template=template(first=late, bad=FAILS), files=files)
    assert (status, engine.lengths(name), denial in reason) == ("ROLLBACK_FAILED", [], True), reason


def test_a_rollback_to_what_was_complete_is_not_judged(engine: Heat) -> None:
    name = engine.created(template(first=string(8)))
    status, reason = rolled_back(engine, name, template=template(first=string(9), bad=FAILS))
    assert (status, engine.lengths(name)) == ("ROLLBACK_COMPLETE", [8]), reason
