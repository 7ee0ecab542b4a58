"""What Heat built is what was judged, for generated stacks.

Each life of a stack, its creation and a few operations after it, goes through the filter and the engine's door into a
real Heat. Then Heat's database is compared, resource by resource, with the stacks that the doors judged, as their log
has them. `DATALOG_GATE_BUILT` is the number of lives in each engine, `DATALOG_GATE_SEED` where they begin.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.decision_point.operation import CLOSED
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Resource, Stack
from tests.heat.doors.rig import ENGINE_DOOR, Heat, running, wait
from tests.heat.doors.templates import template
from tests.heat.test_generated import ANY, PARAMETERS, VALUES_OF_TYPE, fitted, truths

T = TypeVar("T")
LIVES = int(os.environ.get("DATALOG_GATE_BUILT", "16"))
SEED = int(os.environ.get("DATALOG_GATE_SEED", "1"))
SHARD, TOGETHER = 240, 8
"""How many lives one Heat sees, and how many at once."""
RULES = """\
@deny("length", "{string} has {length} characters")
long(string, length) :- os:heat:random_string(_id=string, length=length), length > 40.
"""
STRING, GROUP, SCALED = "OS::Heat::RandomString", "OS::Heat::ResourceGroup", "OS::Heat::AutoScalingGroup"
VERSION = "2018-08-31"
VALUES = ("one", "two")
"""The resources to which functions of the template refer."""
NAMES = ("s", "t", "x.y", "parameters")
ODD = ("a b", "ä:[1]", "?+", "x'y")
"""Names that nothing may have that nests."""
REPLACED = {"<%a%>": {"get_param": "number"}, "b": {"get_attr": ["one", "value"]}}
LISTED = {"repeat": {"template": "<%a%>", "for_each": {"<%a%>": {"get_param": "items"}}}}
TEXTS = st.sampled_from(["a", "", "%index%", "<%a%>"]) | st.sampled_from(
    [
        {"get_param": "text"},
        {"get_param": ["data", "k"]},
        {"get_param": ["items", 0]},
        {"get_resource": "one"},
        {"get_attr": ["two", "value"]},
        {"get_attr": ["one", "value", "a"]},
        {"get_file": "note.txt"},
        {"list_join": [",", {"get_param": "items"}, ["z"]]},
        {"list_join": ["", LISTED]},
        {"str_replace": {"template": "<%a%>-b", "params": REPLACED}},
        {"str_split": [",", {"get_param": "text"}, 0]},
        {"digest": ["md5", {"get_param": "text"}]},
        {"if": ["maybe", "x", {"get_param": "text"}]},
        {"yaql": {"expression": "$.data.items.len()", "data": {"items": {"get_param": "items"}}}},
    ]
)
SIZES = st.sampled_from([5, 7, 9, " 08", 6.0, {"get_param": "number"}, *[8] * 14, 64]) | st.builds(
    lambda truth, first, second: {"if": [truth, first, second]}, truths(), st.just(8), st.sampled_from([9, 9, 9, 64])
)
COUNTS = st.sampled_from([0, 1, 1, 2, 3, {"get_param": "number"}])
REGISTRY: dict[str, Any] = {
    "My::S": STRING,
    "My::N": "n.yaml",
    "My::*": "OS::Heat::*",
    "Other::*": "My::*",
    "resources": {"s": {"OS::Heat::None": STRING}, "a*": {"x.y": {"OS::Heat::None": "My::S"}}},
}
KINDS = (STRING, STRING, "My::S", "My::RandomString", "Other::S", "OS::Heat::None")


def member(nested: bool) -> st.SearchStrategy[dict[str, Any]]:
    """The definition of a group's member."""
    strings = st.builds(
        lambda length, salt: {"type": STRING, "properties": {"length": length, "salt": salt}},
        SIZES,
        TEXTS,
    )
    inner = st.builds(
        lambda size, metadata: {"type": "n.yaml", "properties": {"size": size}, "metadata": metadata},
        SIZES,
        st.sampled_from([{}, {"length": 7}]),
    )
    return strings if nested else strings | inner


@st.composite
def templates(draw: st.DrawFn, nested: bool = False) -> dict[str, Any]:
    """A template of types that need no cloud; one that is nested takes `size`, and may look at who nests it."""
    resources: dict[str, Any] = {}
    for name in VALUES[: draw(st.integers(0, 2))]:
        resources[name] = {
            "type": "OS::Heat::Value",
            "properties": {"value": fitted(draw(TEXTS | TEXTS | TEXTS | ANY), VERSION, list(resources))},
        }
    known = list(resources)
    sizes = SIZES | st.just({"get_param": "size"}) if nested else SIZES
    for name in draw(st.lists(st.sampled_from(NAMES + ODD), min_size=1, max_size=3, unique=True)):
        match draw(st.integers(0, 1 if nested or name in ODD else 6)):
            case 0 | 1 | 2:
                properties = {"length": draw(sizes), "salt": draw(TEXTS)}
                resources[name] = {"type": draw(st.sampled_from(KINDS)), "properties": properties}
            case 3:
                properties = {"count": draw(COUNTS), "resource_def": draw(member(nested))}
                if draw(st.integers(0, 3)) == 0:
                    properties["removal_policies"] = [
                        {"resource_list": draw(st.lists(st.sampled_from("012"), max_size=2))}
                    ]
                resources[name] = {"type": GROUP, "properties": properties}
            case 4:
                properties = {"min_size": 1, "max_size": 4, "resource": draw(member(nested))}
                if draw(st.booleans()):
                    properties["desired_capacity"] = draw(st.integers(1, 3))
                resources[name] = {"type": SCALED, "properties": properties}
                grown = {"auto_scaling_group_id": {"get_resource": name}, "adjustment_type": "change_in_capacity"}
                resources["up"] = {"type": "OS::Heat::ScalingPolicy", "properties": {**grown, "scaling_adjustment": 1}}
            case _:
                kind = draw(st.sampled_from(["n.yaml", "My::N"]))
                resources[name] = {"type": kind, "properties": {"size": draw(sizes)}, "metadata": {"length": 6}}
        if draw(st.integers(0, 3)) == 0:
            resources[name]["condition"] = draw(st.sampled_from(["ever", "never", "maybe"]))
        resources[name]["properties"] = fitted(resources[name]["properties"], VERSION, known)
    conditions = {"ever": True, "never": {"equals": ["a", "b"]}, "maybe": draw(truths())}
    body = {**template(**resources), "parameters": dict(PARAMETERS), "conditions": conditions}
    if nested:
        body["parameters"]["size"] = {"type": draw(st.sampled_from(["number", "string", "json"])), "default": 8}
        expression = {"expression": "$.data.get(length, 8)", "data": {"resource_facade": "metadata"}}
        facade = {"type": STRING, "properties": {"length": {"yaql": expression}}}
        body["resources"] |= {"f": facade} if draw(st.booleans()) else {}
    return body


BODIES = st.builds(
    lambda body, inner, values, registry: {
        "template": body,
        "files": {"n.yaml": json.dumps(inner), "note.txt": "a note"},
        "environment": {"parameters": values, "resource_registry": REGISTRY if registry else {"My::*": "OS::Heat::*"}},
    },
    templates(),
    templates(nested=True),
    st.fixed_dictionaries({}, optional=VALUES_OF_TYPE),
    st.integers(0, 4),
)
STEPS = st.sampled_from(["PUT", "PUT", "PATCH", "signal", "nested", "restore", "adopt"])
Life = tuple[dict[str, Any], Sequence[tuple[str, dict[str, Any]]]]
"""The creation of a stack, and operations with other bodies."""
LIFE = st.tuples(BODIES, st.lists(st.tuples(STEPS, BODIES), min_size=1, max_size=3))


@dataclass(frozen=True)
class Row:
    """A root or nested stack of Heat at its path, with the last action on it and how that went."""

    path: str
    action: str
    status: str
    resources: Mapping[str, tuple[str, str, Any]]
    """The id, status and properties of what was built, by name."""


def live(heat: Heat, life: Life) -> tuple[str, list[str]]:
    """The name of the stack that lived this life, and what answers or reasons were wrong."""
    body, steps = life
    name, answer = heat.create(**body)
    answers = [answer]
    reasons = [heat.ended(name)[1]]
    for step, other in steps:
        stack = heat.stack(name)
        if not stack:
            break
        match step:
            case "PUT":
                answers.append(heat.on(name, "PUT", **other))
            case "PATCH":
                answers.append(heat.on(name, "PATCH", environment={"parameters": other["environment"]["parameters"]}))
            case "signal":
                answers.append(heat.on(name, "POST", "/resources/up/signal", alarm="now"))
                wait(lambda: not any("IN_PROGRESS" in row["stack_status"] for row in tree(heat, name)))
            case "nested":
                for row in tree(heat, name)[:1]:
                    path = f"stacks/{row['stack_name']}/{row['id']}"
                    answers.append(heat.ask("PUT", path, template=json.loads(other["files"]["n.yaml"])))
                    heat.ended(row["stack_name"])
            case "restore":
                saved = heat.snapshot(name)
                answers.append(heat.on(name, "PUT", **other))
                reasons.append(heat.ended(name)[1])
                if heat.stack(name):
                    answers.append(heat.on(name, "POST", f"/snapshots/{saved}/restore"))
            case _:
                answers.append(heat.on(name, "DELETE", "/abandon"))
                if answers[-1].status_code == 200:
                    wait(lambda: not heat.stack(name))
                    data = json.dumps(answers[-1].json())
                    files = {"files": body["files"], "timeout_mins": 5}
                    answers.append(heat.ask("POST", "stacks", stack_name=name, adopt_stack_data=data, **files))
        reasons.append(heat.ended(name)[1])
    wrong = [answer.text for answer in answers if answer.status_code >= 500 and "[decision" in answer.text]
    wrong += [text for text in (*(answer.text for answer in answers), *reasons) if "The gate and Heat differ" in text]
    return name, wrong


def tree(heat: Heat, name: str) -> list[dict[str, Any]]:
    """The nested stacks of a stack."""
    return [row for row in heat.list_stacks() if row["stack_name"].startswith(f"{name}-")]


def read_rows(folder: Path) -> dict[str, Row]:
    """All stacks that Heat holds, by id."""
    with closing(sqlite3.connect(f"file:{folder}/heat.db?mode=ro", uri=True)) as database:
        stacks = {
            row[0]: row[1:]
            for row in database.execute(
                "SELECT id, name, owner_id, parent_resource_name, action, status FROM stack WHERE deleted_at IS NULL"
            )
        }
        resources: dict[str, dict[str, tuple[str, str, Any]]] = defaultdict(dict)
        for stack, name, built, status, data in database.execute(
            "SELECT stack_id, resource.name, nova_instance, status, data FROM resource "
            "LEFT JOIN resource_properties_data AS properties ON rsrc_prop_data_id = properties.id "
            "WHERE nova_instance IS NOT NULL AND action NOT IN ('DELETE', 'INIT')"
        ):
            resources[stack][name] = built, status, json.loads(data) if data else {}
    rows: dict[str, Row] = {}
    for key in stacks:
        names, at = [], key
        while at in stacks and stacks[at][1]:
            names.append(stacks[at][2])
            at = stacks[at][1]
        if at in stacks and None not in names:
            action, status = stacks[key][3:]
            rows[key] = Row("/".join([stacks[at][0], *names[::-1]]), action, status, resources[key])
    return rows


def read_judged(heat: Heat) -> dict[str, list[Stack]]:
    """The trees that were allowed for each stack of Heat, by its id, the last one first."""
    judged: dict[str, list[Stack]] = defaultdict(list)
    for record in heat.lines("decisions.jsonl", kind="decision", verdict="allowed"):
        if record["door"] != "api" and "inputs" in record and record["action"] in CLOSED:
            definition = StackDefinition.from_json(record["inputs"]["definition"])
            judged[record["stack_id"]].insert(0, definition.stack(record["stack_name"], SHIPPED, undeclared=True))
    return judged


def differences(row: Row, judged: Sequence[Stack], ids: Mapping[str, str]) -> Iterator[str]:
    """What Heat built of a stack and nobody judged so. `ids` has the path of each resource, by the id Heat gave it.
    Where the last operation failed, a resource may be as an earlier one left it."""
    trees = judged[:1] if row.status == "COMPLETE" else judged
    stacks = [stack for tree in trees for stack in tree.walk() if stack.id == row.path]
    for name, (_, status, properties) in row.resources.items():
        resources = [resource for stack in stacks for resource in stack.resources if resource.name == name]
        if not stacks:
            yield f"{row.path}/{name} was built and not judged"
        elif not resources:
            yield f"{row.path}/{name} was built, and is unknown to the gate"
        elif status == "COMPLETE":
            wrong = [list(_property_differences(row, resource, properties, ids)) for resource in resources]
            yield from min(wrong, key=len)


def _property_differences(
    row: Row, resource: Resource, properties: Mapping[str, Any], ids: Mapping[str, str]
) -> Iterator[str]:
    for key, value in resource.properties.items():
        if resource.type == "OS::Heat::None":  # which stores nothing
            continue
        built = properties.get(key)
        if row.action == "ADOPT" and built is None:  # read from attributes before the resource that has these has any
            continue
        if not _alike(value, built, ids):
            yield f"{resource.id.path}.{key} is {built!r}, and was judged as {value!r}"


def _alike(judged: Any, built: Any, ids: Mapping[str, str]) -> bool:
    match judged:
        case Unknown():
            return True
        case ResourceId():
            return ids.get(str(built)) == judged.path or built == judged.name
        case dict() if isinstance(built, dict):
            return all(_alike(value, built.get(key), ids) for key, value in judged.items())
        case list() if isinstance(built, list) and len(judged) == len(built):
            return all(_alike(value, other, ids) for value, other in zip(judged, built, strict=True))
    return bool(judged == built or str(judged) == str(built))


def generate(strategy: st.SearchStrategy[T], number: int, first_seed: int) -> list[T]:
    """Generate so many examples of what is tried on one Heat."""
    generated: list[T] = []

    @seed(first_seed)
    @settings(max_examples=number, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(strategy)
    def collect(example: T) -> None:
        generated.append(example)

    collect()
    return generated


@pytest.mark.parametrize("engine", ["convergence", "legacy"])
@pytest.mark.parametrize("shard", range(-(-LIVES // SHARD)))
def test_what_heat_built_was_judged(
    tmp_path: Path, engine: str, shard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"decision_log": str(tmp_path / "decisions.jsonl"), "decision_log_bytes": "4000000000"}
    generated = generate(LIFE, min(LIVES - shard * SHARD, SHARD), SEED + shard)
    counts: Counter[str] = Counter(lives=len(generated))
    bodies: dict[str, Life] = {}
    with running(
        tmp_path, engine == "convergence", rules=RULES, options=options, filtered=True, resources=ENGINE_DOOR
    ) as heat:
        with ThreadPoolExecutor(TOGETHER) as threads:
            for life, (name, wrong) in zip(generated, threads.map(partial(live, heat), generated), strict=True):
                assert wrong == [], f"{name}: {json.dumps(life)}"
                bodies[name] = life
                counts[heat.stack(name).get("stack_status", "none")] += 1
        judged, rows = read_judged(heat), read_rows(tmp_path)
    ids = {built: f"{row.path}/{name}" for row in rows.values() for name, (built, _, _) in row.resources.items()}
    counts["resources"] = len(ids)
    with capsys.disabled():
        print(f"\n{engine}, seed {SEED + shard}: {dict(counts)}")
    assert len(ids) >= len(generated) // 2
    found = [difference for key, row in rows.items() for difference in differences(row, judged.get(key, []), ids)]
    assert found == [], json.dumps([bodies.get(difference.partition("/")[0]) for difference in found[:1]])
    lengths = [properties.get("length") for row in rows.values() for _, _, properties in row.resources.values()]
    assert [length for length in lengths if length and float(length) > 40] == []
