"""Rollbacks and cancelled updates build nothing that is denied."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.heat.doors.rig import ENGINE_DOOR, Heat, heats, wait
from tests.heat.doors.templates import string, template

RULES = """\
@deny("evil", "{value} is evil")
evil(value) :- os:heat:value(_id=value, value="evil").

@deny("strings", "there are {number} strings", hint="5 are enough")
many(number) :- number = count { string : os:heat:random_string(_id=string) }, number > 5.
"""
DENIAL = "The policies deny this stack: evil: "
CFN = {"HeatTemplateFormatVersion": "2012-12-12"}
N = {"type": "n.yaml"}
BY_ID = {"get_resource": "n"}
VALUE = template(s={"type": "OS::Heat::Value", "properties": {"value": {"get_param": "given"}}})
VALUE["parameters"] = {"given": {"type": "string"}}
DATA = {"str_split": ['"', {"get_attr": ["w", "data"]}, 3]}
SIGNALLED = {
    "to": {"type": "OS::Heat::WaitConditionHandle"},
    "w": {"type": "OS::Heat::WaitCondition", "properties": {"handle": {"get_resource": "to"}, "timeout": 99}},
}
"""What is complete once `to` is signalled."""
FAILING = {"type": "OS::Heat::TestResource", "properties": {"fail": True}, "depends_on": ["m"]}
FILES = {
    "m.yaml": json.dumps(VALUE),
    "n.yaml": json.dumps(
        {**template(**SIGNALLED), "outputs": {"OS::stack_id": {"value": DATA}, "told": {"value": DATA}}}
    ),
}


def nested(given: Any, kind: str = "m.yaml") -> dict[str, Any]:
    """A nested stack with the value."""
    return {"type": kind, "properties": {"given": given}}


def chain(given: Any) -> dict[str, Any]:
    """A chain of one nested stack."""
    properties = {"resources": ["m.yaml"], "resource_properties": {"given": given}}
    return {"type": "OS::Heat::ResourceChain", "properties": properties}


def remote(given: Any) -> dict[str, Any]:
    """A stack of its own."""
    properties = {"template": {"get_file": "m.yaml"}, "parameters": {"given": given}}
    return {"type": "OS::Heat::Stack", "properties": properties}


def group(given: Any) -> dict[str, Any]:
    """A group of two nested stacks."""
    return {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": nested(given)}}


def scaled(given: Any) -> dict[str, Any]:
    """A group of one nested stack that may grow."""
    properties = {"min_size": 1, "max_size": 2, "resource": nested(given)}
    return {"type": "OS::Heat::AutoScalingGroup", "properties": properties}


SHAPES: dict[str, dict[str, Any]] = {
    "get_resource": template(n=N, m=nested(BY_ID)),
    "Ref": {
        **CFN,
        "Resources": {
            "n": {"Type": "n.yaml"},
            "m": {"Type": "m.yaml", "Properties": {"given": {"Ref": "n"}}},
        },
    },
    "attribute": template(n=N, m=nested({"get_attr": ["n", "told"]})),
    "output": template(n=N, m=nested({"get_attr": ["n", "OS::stack_id"]})),
    "through a value": template(
        n=N,
        v={"type": "OS::Heat::Value", "properties": {"value": BY_ID}},
        m=nested({"get_attr": ["v", "value"]}),
    ),
    "deeper": template(n=N, m=nested(BY_ID, "between.yaml")),
    "ResourceGroup": template(n=N, m=group(BY_ID)),
    "AutoScalingGroup": template(n=N, m=scaled(BY_ID)),
    "ResourceChain": template(n=N, m=chain(BY_ID)),
    "OS::Heat::Stack": template(n=N, m=remote(BY_ID)),
}
"""Where a nested stack `m` gets a value that is known only while Heat runs: what was signalled to the nested `n`."""
FILES["between.yaml"] = json.dumps({**template(m=nested({"get_param": "given"})), "parameters": VALUE["parameters"]})


engine = heats("convergence", "legacy", resources=ENGINE_DOOR, rules=RULES)


def find_path(heat: Heat, name: str, resource: str) -> str:
    """The address of the nested stack in the resource; waits for it."""
    paths: list[str] = []

    def is_there() -> bool:
        found = [stack for stack in heat.list_stacks() if stack["stack_name"].startswith(f"{name}-{resource}-")]
        paths.extend(f"stacks/{stack['stack_name']}/{stack['id']}" for stack in found)
        return bool(paths)

    wait(is_there, lambda: f"{name}: {heat.resources(name)}\n{heat.log()}")
    return paths[0]


def signal(heat: Heat, path: str, data: str) -> None:
    """Send the data to the handle `to` of the nested stack; waits for it."""
    address = f"{path}/resources/to"

    def is_there() -> bool:
        return bool(heat.ask("GET", address).json().get("resource", {}).get("resource_status") == "CREATE_COMPLETE")

    wait(is_there, heat.log)
    assert heat.ask("POST", f"{address}/signal", status="SUCCESS", id="1", data=data).status_code == 200


def read_values(heat: Heat, name: str) -> list[str]:
    """The values of all stacks of VALUE that belong to a stack."""
    values = []
    for stack in heat.list_stacks():
        if not stack["stack_name"].startswith(f"{name}-"):
            continue
        answer = heat.ask("GET", f"stacks/{stack['stack_name']}/{stack['id']}/resources/s")
        if answer.status_code == 200:
            values.append(answer.json()["resource"]["attributes"].get("value"))
    return values


def roll_back(heat: Heat, name: str, body: dict[str, Any]) -> tuple[str, str]:
    """Add a resource that fails, and have this rolled back. Return the status and reason in the end; two empty texts if
    Heat has no row of `n` any more, and then its update may never end."""
    key, failing = "resources", FAILING
    if "Resources" in body:
        key, failing = "Resources", {name.title().replace("_", ""): part for name, part in FAILING.items()}
    update = {**body, key: {**body[key], "bad": failing}}
    answer = heat.on(name, "PUT", template=update, files=FILES, disable_rollback=False)
    assert answer.status_code == 202, f"{answer.text}\n{heat.log()}"

    def is_begun() -> bool:
        return str(heat.stack(name)["stack_status"]).startswith("ROLLBACK")

    wait(
        lambda: is_begun() or "n" not in heat.resources(name),
        lambda: f"{heat.stack(name)}\n{heat.resources(name)}\n{heat.log()}",
    )
    return heat.ended(name) if is_begun() else ("", "")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_rollback_builds_no_value_that_was_signalled_meanwhile(engine: Heat, shape: str) -> None:
    body = SHAPES[shape]
    for _ in range(3):  # a slow Heat may begin its rollback twice, or not find a nested stack that it cancels
        name, answer = engine.create(body, files=FILES)
        assert answer.status_code == 201, answer.text
        path = find_path(engine, name, "n")
        signal(engine, path, "good")
        assert engine.ended(name)[0] == "CREATE_COMPLETE"
        signal(engine, path, "fine")
        status, reason = roll_back(engine, name, body)
        assert DENIAL not in reason
        if status == "ROLLBACK_COMPLETE":
            signal(engine, path, "evil")
            status, reason = roll_back(engine, name, body)
            if status:
                break
    assert (status, DENIAL in reason) == ("ROLLBACK_FAILED", True), f"{reason}\n{engine.log()}"
    assert "evil" not in read_values(engine, name)


def make_body(x: dict[str, Any], y: int, **more: Any) -> dict[str, Any]:
    """A root with nested stacks of strings, `y` first."""
    resources = {"x": {"type": "x.yaml", "depends_on": "y"}, "y": {"type": "y.yaml"}}
    files = {"x.yaml": json.dumps(template(**x)), "y.yaml": json.dumps(template(**strings(y)))}
    return {"template": template(**resources, **more), "files": files}


def strings(number: int) -> dict[str, Any]:
    """So many strings."""
    return {f"s{at}": string() for at in range(number)}


def read_resources(heat: Heat, path: str) -> list[tuple[str, str]]:
    """The names and statuses of the resources of a stack that are not deleted, and of those in it."""
    listed = heat.ask("GET", f"{path}/resources?nested_depth=2").json()["resources"]
    resources = [(resource["resource_name"], resource["resource_status"]) for resource in listed]
    return sorted((name, status) for name, status in resources if status != "DELETE_COMPLETE")


WAITING = [("s0", "CREATE_COMPLETE"), ("to", "CREATE_COMPLETE"), ("w", "CREATE_IN_PROGRESS")]
"""The resources of a stack that waits for a signal."""


def cancel(heat: Heat, path: str, action: str) -> str:
    """Cancel the update of a stack once it waits for a signal. Return how it ends."""

    def show() -> str:
        return str(heat.ask("GET", path).json()["stack"]["stack_status"])

    wait(lambda: read_resources(heat, path) == WAITING, lambda: f"{read_resources(heat, path)}\n{heat.log()}")
    assert heat.ask("POST", f"{path}/actions", **{action: None}).status_code == 200
    wait(lambda: show() != "UPDATE_IN_PROGRESS", lambda: f"{show()}: {read_resources(heat, path)}")
    # convergence deletes nothing that still waits
    heat.ask("POST", f"{path}/resources/to/signal", status="SUCCESS", id="1", data="go")
    wait(lambda: not show().endswith("IN_PROGRESS"), lambda: f"{show()}: {read_resources(heat, path)}")
    return show()


def count_strings(heat: Heat, name: str) -> int:
    """The number of strings of a tree."""
    resources = read_resources(heat, f"stacks/{name}/{heat.stack(name)['id']}")
    return len([resource for resource, status in resources if resource.startswith("s")])


def begin_rollback(heat: Heat, beside: int) -> tuple[str, str]:
    """Begin the rollback of a new stack, up to the nested stack in it that waits for a signal, or to its end. Return
    the name, and the address of the nested stack."""
    name, _ = heat.create(**make_body({**strings(1), **SIGNALLED}, beside))
    signal(heat, path := find_path(heat, name, "x"), "go")
    assert heat.ended(name)[0] == "CREATE_COMPLETE"
    update = make_body(strings(3), 2, bad={**FAILING, "depends_on": "x"})
    assert heat.on(name, "PUT", **update, disable_rollback=False).status_code == 202
    wait(lambda: heat.stack(name)["stack_status"].startswith("ROLLBACK"), heat.log)
    wait(
        lambda: read_resources(heat, path) == WAITING or heat.stack(name)["stack_status"] != "ROLLBACK_IN_PROGRESS",
        lambda: f"{read_resources(heat, path)}\n{heat.log()}",
    )
    return name, path


CANCELLED = [
    ("cancel_update", 2, "ROLLBACK_COMPLETE", 5),
    ("cancel_update", 4, "ROLLBACK_FAILED", 5),
    ("cancel_without_rollback", 4, "UPDATE_FAILED", 5),
]
"""How a nested stack is cancelled, the strings beside it then, how it ends, and the strings of the tree then."""


@pytest.mark.parametrize(("action", "beside", "status", "number"), CANCELLED)
def test_a_nested_stack_that_is_cancelled_during_an_update_is_judged_in_its_tree(
    engine: Heat, action: str, beside: int, status: str, number: int
) -> None:
    name = engine.created(**make_body(strings(3), 2))
    update = make_body({**strings(1), **SIGNALLED}, beside)
    assert engine.on(name, "PUT", **update).status_code == 202
    ended = cancel(engine, find_path(engine, name, "x"), action)
    assert (ended, count_strings(engine, name)) == (status, number)


@pytest.mark.parametrize(("action", "beside", "status", "number"), CANCELLED)
def test_a_nested_stack_that_is_cancelled_during_a_rollback_of_the_root_is_judged_in_its_tree(
    engine: Heat, action: str, beside: int, status: str, number: int
) -> None:
    name, path = begin_rollback(engine, beside)
    while "cancelled" in engine.stack(name)["stack_status_reason"]:  # a slow Heat may begin its rollback twice
        name, path = begin_rollback(engine, beside)
    ended = cancel(engine, path, action)
    assert (ended, count_strings(engine, name)) == (status, number)
