"""Bodies that take too much work to read are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.wsgi import wrap
from tests.fake_heat import Client, FakeHeat, point_of
from tests.unit.doors.wsgi.test_update import STORED

READING = "The stack can't be read: "
TOO_MUCH = "too much work to read: more than 2,000,000 steps"
TOO_DEEP = "the references of the template are nested too deeply"
QUERY = {"yaql": {"expression": "$.data.select($ + 1).sum()", "data": list(range(50))}}


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"type": kind, "properties": properties}


VALUE = resource("OS::Heat::Value", value="x")
ASKING = resource("OS::Heat::Value", value=QUERY)
STEPS = {f"T{at}": f"T{at + 1}" for at in range(300)}
NESTED = {"heat_template_version": "2018-08-31", "resources": {"a": VALUE}}
VALUES = {f"r{at}": VALUE for at in range(5000)}
MANY = {"g": resource("OS::Heat::ResourceGroup", count=3000, resource_def=resource("n.yaml"))}
HOOKS = {f"q{at}[x]": {"hooks": "pre-create"} for at in range(10_000)}
OWN = {f"r{at}": {"T0": "T1"} for at in range(5000)}
DEFAULTS = json.dumps({"parameter_defaults": {f"p{at}": "x" for at in range(10_000)}})
GROWING = json.dumps({"parameter_defaults": {"p": "x" * 1000}, "parameter_merge_strategies": {"default": "merge"}})

ALLOWED = [{"allowed_values": [str(at) for at in range(20_000)]}]
WORDS = {f"k{at:04}": "x" for at in range(1000)}
LATE = {"get_attr": ["s", "addresses"]}
CALLS = {
    "unknowns of `repeat`": {"repeat": {"for_each": {"x": ["a"] * 9000}, "template": {"x": [LATE, "x"]}}},
    "unknown texts": {"list_join": [",", ["x"] * 9000 + [LATE]]},
    "names that are replaced": {"str_replace": {"template": " ".join(WORDS) * 9, "params": WORDS}},
    "pairs that are compared": {"filter": [[[at] for at in range(300)], [[-at] for at in range(1, 301)]]},
}
MEMBERS = {what: resource("OS::Heat::Value", value=call) for what, call in CALLS.items()} | {
    "names in `depends_on`": VALUE | {"depends_on": ["s"] * 9000}
}


def body(resources: dict[str, Any], registry: dict[str, Any], **more: Any) -> dict[str, Any]:
    template = {"heat_template_version": "2018-08-31", "resources": resources}
    template["parameters"] = {"p": {"type": "string", "default": ""}}
    files = {"n.yaml": json.dumps(NESTED), "e.yaml": DEFAULTS, "g.yaml": GROWING}
    return {"template": template, "environment": {"resource_registry": registry}, "files": files, **more}


def named(kind: str, number: int = 5000) -> dict[str, Any]:
    return {f"r{at}": resource(kind) for at in range(number)}


READ = {
    "a chain, resolved once": body(named("T0"), STEPS),
    "unused wildcards": body(named("T0"), STEPS | {f"Z{at}*": "Q*" for at in range(10_000)}),
    "wildcards that branch": body(
        {"r": resource("T00a")},
        {f"T{at:02}{end}": f"T{at + 1:02}{end}" for at in range(60) for end in ("*", "a", "a*")},
    ),
    "a file named often": body({"r": VALUE}, {}, environment_files=["e.yaml"] * 3),
    "a hook named often": body(VALUES, {"resources": {"*": {"hooks": ["pre-create"] * 30_000}}}),
    "many allowed values": body({"r": VALUE}, {}) | {
        "template": NESTED | {"parameters": {"q": {"type": "string", "constraints": ALLOWED}}}
    },
    "a query in each resource": body({f"r{at}": ASKING for at in range(9)}, {}),
}  # fmt: skip
REFUSED = {
    "a long chain": (body({"r": resource("T0")}, {f"T{at}": f"T{at + 1}" for at in range(8000)}), TOO_DEEP),
    "a chain for each resource": (body(named("T0"), STEPS | {"resources": OWN}), TOO_MUCH),
    "chains with wildcards": (body(named("T0"), STEPS | {f"{key}*": f"{key}x*" for key in STEPS}), TOO_DEEP),
    "a wildcard that grows": (body({"r": resource("A")}, {"A*": "AA*"}), TOO_DEEP),
    "patterns of resources": (body(VALUES, {"resources": HOOKS}), f"resources.r0: {TOO_MUCH}"),
    "patterns in nested stacks": (body(MANY, {"resources": {"*": HOOKS}}), f"resources.g: {TOO_MUCH}"),
    "a file named too often": (body({"r": VALUE}, {}, environment_files=["e.yaml"] * 1500), TOO_MUCH),
    "a text that grows": (body({"r": VALUE}, {}, environment_files=["g.yaml"] * 50_000), TOO_MUCH),
    "queries": (body({f"r{at}": ASKING for at in range(1000)}, {}), f"resources.r39: {TOO_MUCH}"),
    "wildcards that are removed": (body({"r": VALUE}, STEPS | {f"{at}*": None for at in range(9000)}), TOO_MUCH),
}  # fmt: skip


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Client:
    rules: Path = tmp_path_factory.mktemp("rules")
    (rules / "m.dl").write_text('@deny("p", "{s}")\np(s) :- heat:stack(id=s, name="never").\n')
    heat = FakeHeat(json.loads(json.dumps(STORED)))
    return Client(wrap(heat, point=point_of(rules), settings=Settings(body_limit=1_000_000)), heat)


@pytest.mark.parametrize("content", READ.values(), ids=READ)
def test_what_is_resolved_or_parsed_once_is_read(door: Client, content: dict[str, Any]) -> None:
    assert door.ask("POST", "/v1/p/stacks", {"stack_name": "web", **content}) == (201, "")


@pytest.mark.slow
@pytest.mark.parametrize("definition", MEMBERS.values(), ids=MEMBERS)
def test_too_much_work_in_each_member_is_refused(door: Client, definition: dict[str, Any]) -> None:
    inner = NESTED | {"resources": {"s": resource("OS::Nova::Server"), "a": definition}}
    group = resource("OS::Heat::ResourceGroup", count=70, resource_def=resource("n.yaml"))
    content = {"stack_name": "web", **body({"g": group}, {}), "files": {"n.yaml": json.dumps(inner)}}
    assert door.ask("POST", "/v1/p/stacks", content) == (400, f"{READING}n.yaml:resources.a: {TOO_MUCH}")


@pytest.mark.slow
@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED)
def test_too_much_work_is_refused(door: Client, content: dict[str, Any], message: str) -> None:
    assert door.ask("POST", "/v1/p/stacks", {"stack_name": "web", **content}) == (400, READING + message)


def test_an_update_counts_what_its_door_parses_and_merges(door: Client) -> None:
    assert door.update(files={"e.yaml": DEFAULTS}, environment_files=["e.yaml"] * 1500) == (400, READING + TOO_MUCH)
