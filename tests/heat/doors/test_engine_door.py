"""The door in Heat's convergence engine, without any filter, over HTTP."""

from __future__ import annotations

import importlib.util
import inspect
import json
import multiprocessing
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import heat
import pytest
from heat.engine.stack import Stack

from datalog_gate.decision_point.engine_start import LIVE, PROBE, find_start
from datalog_gate.doors.cli.doctor.cloud_access import probe_engine
from tests.heat.doors import rig
from tests.heat.doors.rig import ENGINE_DOOR, HERE, PROJECT, RESOURCES, Heat, heats, running, wait
from tests.heat.doors.templates import CLEAN, GROUP, LONG, OF_PARAMETER, UP, string, template, why
from tests.heat.doors.test_rollbacks import SIGNALLED, signal

PATCH = Path(__file__).parents[3] / "contrib" / "heat.patch"
MODULE = RESOURCES.parent / "engine" / "datalog_gate_engine_door.py"
NESTED: dict[str, Any] = {
    "template": template(inner={"type": "inner.yaml"}, s=string()),
    "files": {"inner.yaml": json.dumps(CLEAN)},
}
CONTAINER = """\
from heat.engine import properties, resource

class Container(resource.Resource):
    properties_schema = {"name": properties.Schema(properties.Schema.STRING)}

    def physical_resource_name(self):
        return self.properties["name"]

    def handle_create(self):
        raise ValueError("it is full")

def resource_mapping():
    return {"Container": Container}
"""
CREATED = ("CREATE_COMPLETE", "Stack CREATE completed successfully")


OPTIONS = {"reload_seconds": "0", "decision_log": "{folder}/decisions.jsonl"}
engine = heats("convergence", resources=ENGINE_DOOR, options=OPTIONS)


@contextmanager
def changed(heat: Heat, old: str, new: str) -> Iterator[None]:
    """The rules with another text in them, for the time of the context."""
    path = heat.folder / "rules" / "doors.dl"
    text = path.read_text()
    path.write_text(text.replace(old, new))
    try:
        yield
    finally:
        path.write_text(text)


def test_a_stack_that_was_denied_is_made_good_by_an_update_and_never_by_the_same_again(engine: Heat) -> None:
    name, _ = engine.create(LONG)
    engine.ended(name)
    assert engine.on(name, "PUT", template=LONG).status_code == 400
    assert engine.lengths(name) == []
    assert engine.on(name, "PUT", template=CLEAN).status_code == 202
    assert engine.outcome(name) == ("UPDATE_COMPLETE", "Stack UPDATE completed successfully")


def test_what_is_allowed_is_built_and_each_stack_of_it_is_judged_in_its_tree(engine: Heat) -> None:
    name, _ = engine.create(**NESTED)
    assert (engine.outcome(name), engine.lengths(name)) == (CREATED, [8, 8])
    records = [line for line in engine.lines("decisions.jsonl", kind="decision") if line["stack_name"] == name]
    assert [(line["door"], line["action"], line["verdict"]) for line in records] == [
        ("engine", "create", "allowed")
    ] * 2
    held = [list(line["inputs"]["definition"].get("held", {}).get("stacks", {})) for line in records]
    assert held == [[], [f"{name}/inner"]]


def test_a_denied_update_is_refused_each_time_and_changes_nothing(engine: Heat) -> None:
    name, _ = engine.create(OF_PARAMETER)
    engine.ended(name)
    before = engine.stack(name)
    for _ in range(2):
        answer = engine.on(name, "PATCH", parameters={"length": 64})
        assert (answer.status_code, answer.json()["error"]["message"].split(" [decision")[0]) == (400, why())
    assert (engine.stack(name), engine.lengths(name)) == (before, [8])


TAGGED = """
@deny("tag", "{tag}") tagged(tag) :- heat:tag(value=tag), heat:resource(name="inner"), tag != "a".
@deny("old", "{tag}") was_tagged(tag) :- old:heat:tag(value=tag), tag = "a", not heat:tag(value="b").
"""


def test_rules_read_the_tags_that_heat_will_store_also_for_nested_stacks(engine: Heat) -> None:
    with changed(engine, "// What", TAGGED + "// What"):
        name, _ = engine.create(**NESTED, tags="a")
        assert engine.outcome(name) == CREATED
        for answer, refused in [
            (engine.on(name, "PATCH", tags="a,c"), "tag: c"),
            (engine.on(name, "PUT", template=CLEAN), "old: a"),
        ]:
            assert (answer.status_code, refused in answer.json()["error"]["message"]) == (400, True)
        assert engine.on(name, "PUT", template=CLEAN, tags="b").status_code == 202
        assert (engine.ended(name)[0], engine.stack(name)["tags"]) == ("UPDATE_COMPLETE", ["b"])


def test_a_rollback_goes_on_whatever_the_policies_say_of_what_was_there(engine: Heat) -> None:
    def body(length: int, **more: Any) -> dict[str, Any]:
        return {
            "template": template(inner={"type": "inner.yaml"}, **more),
            "files": {"inner.yaml": json.dumps(template(s=string(length)))},
            "disable_rollback": False,
        }

    name, _ = engine.create(**body(8))
    assert engine.outcome(name) == CREATED
    fails = {"type": "OS::Heat::TestResource", "properties": {"fail": True}, "depends_on": "inner"}
    with changed(engine, "length > 32", "length > 6"):
        assert engine.on(name, "PUT", **body(4, bad=fails)).status_code == 202
        wait(lambda: engine.stack(name)["stack_status"] == "ROLLBACK_COMPLETE", lambda: str(engine.stack(name)))
    wait(lambda: engine.lengths(name) == [8], lambda: str(engine.lengths(name)))  # those of the nested stack come later


def test_a_rollback_of_the_root_opens_no_way_into_a_nested_stack(engine: Heat) -> None:
    """Neither while Heat rolls the nested stack back nor while it waits for others."""
    waits = {"create": 0, "update": {"get_param": "seconds"}}
    properties = {"value": {"get_param": "value"}, "action_wait_secs": waits}
    slow = {"type": "OS::Heat::TestResource", "properties": properties}
    declared = {"value": {"type": "string"}, "seconds": {"type": "number"}, **OF_PARAMETER["parameters"]}
    changing = {**template(slow=slow, **OF_PARAMETER["resources"]), "parameters": declared}

    def body(value: str, seconds: int, **more: Any) -> dict[str, Any]:
        nested = {"type": "changing.yaml", "properties": {"value": value, "seconds": seconds}}
        files = {"changing.yaml": json.dumps(changing), "still.yaml": json.dumps(OF_PARAMETER)}
        return {
            "template": template(changing=nested, still={"type": "still.yaml"}, **more),
            "files": files,
            "disable_rollback": False,
        }

    name = engine.created(**body("a", 8))
    fails = {"type": "OS::Heat::TestResource", "properties": {"fail": True}, "depends_on": "changing"}
    assert engine.on(name, "PUT", **body("b", 0, bad=fails)).status_code == 202
    wait(lambda: engine.stack(name)["stack_status"] == "ROLLBACK_IN_PROGRESS", lambda: str(engine.stack(name)))
    wait(lambda: engine.resources(name)["changing"] == "UPDATE_IN_PROGRESS", lambda: str(engine.resources(name)))
    nested = [stack for stack in engine.list_stacks() if stack["stack_name"].startswith(f"{name}-")]
    codes = []
    for stack in nested:
        path = f"stacks/{stack['stack_name']}/{stack['id']}"
        codes.append(engine.ask("PUT", path, template=LONG).status_code)
        codes.append(engine.ask("PATCH", path, parameters={"length": 64}).status_code)
    assert (engine.stack(name)["stack_status"], codes) == ("ROLLBACK_IN_PROGRESS", [400] * 4)
    engine.ended(name)  # a slow Heat may begin its rollback twice, which cancels the nested one
    assert engine.lengths(name) == [8, 8]


def test_events_that_resources_forge_make_no_refused_state_one_to_return_to(tmp_path: Path) -> None:
    """A user may give resources the id of their stack: by `external_id`, or as the name of a container of Swift, of
    which this Heat has none."""
    (tmp_path / "container.py").write_text(CONTAINER)
    with running(tmp_path, convergence=True, resources=f"{ENGINE_DOOR},{tmp_path}") as heat:
        name, _ = heat.create(LONG)
        heat.ended(name)
        complete = {**string(), "external_id": heat.stack(name)["id"]}
        begun = {"type": "Container", "properties": {"name": heat.stack(name)["id"]}, "depends_on": ["s", "complete"]}
        body = template(s=string(), complete=complete, begun=begun)
        assert heat.on(name, "PUT", template=body, disable_rollback=False).status_code == 202
        wait(lambda: heat.stack(name)["stack_status"].startswith("ROLLBACK"), lambda: str(heat.stack(name)))
        status, reason = heat.outcome(name)
        assert (status, reason[: len(why())], heat.lengths(name)) == ("ROLLBACK_FAILED", why(), [8])


def test_a_group_that_a_signal_scales_during_a_rollback_of_the_root_is_judged(engine: Heat) -> None:
    def body(value: str, seconds: int, **more: Any) -> dict[str, Any]:
        properties = {"value": value, "action_wait_secs": {"create": 0, "update": seconds}}
        slow = {"type": "OS::Heat::TestResource", "properties": properties, "depends_on": "group"}
        return {"template": template(group=GROUP, up=UP, slow=slow, **more), "disable_rollback": False}

    name = engine.created(**body("a", 8))
    fails = {"type": "OS::Heat::TestResource", "properties": {"fail": True}, "depends_on": "slow"}
    assert engine.on(name, "PUT", **body("b", 0, bad=fails)).status_code == 202
    wait(lambda: engine.stack(name)["stack_status"] == "ROLLBACK_IN_PROGRESS", lambda: str(engine.stack(name)))
    wait(lambda: engine.resources(name)["slow"] == "UPDATE_IN_PROGRESS", lambda: str(engine.resources(name)))
    with changed(engine, "length > 32", "length > 6"):
        assert engine.on(name, "POST", "/resources/up/signal").status_code == 200
        engine.ended(name)  # a slow Heat may begin its rollback twice, and these rules deny the group as it is
        assert engine.lengths(name) == [8]


def test_two_groups_of_a_tree_that_grow_at_once_are_judged_one_after_the_other(tmp_path: Path) -> None:
    group: dict[str, Any] = {**GROUP, "properties": {**GROUP["properties"], "resource": string(20), "min_size": 2}}
    del group["properties"]["desired_capacity"]
    scaled = {"auto_scaling_group_id": {"get_resource": "second"}}
    more = {"type": UP["type"], "properties": {**UP["properties"], **scaled}}
    with running(tmp_path, convergence=True, resources=ENGINE_DOOR, rules=HERE / "engine_rules") as heat:
        name = heat.created(template(group=group, second=group, up=UP, more=more))
        with ThreadPoolExecutor() as threads:
            answers = threads.map(lambda policy: heat.on(name, "POST", f"/resources/{policy}/signal"), ("up", "more"))
            assert [answer.status_code for answer in answers] == [200, 200]
        wait(lambda: "all strings together have 120 characters" in heat.log(), heat.log)
        wait(lambda: len(heat.lengths(name)) == 5, heat.log)


@pytest.mark.parametrize(
    ("condition", "begin", "errors"),
    [
        ("1 / 0 = length", "The policies could not be evaluated: length could not be evaluated: /(1, 0): ", 1),
        ("1 / (length - 8) = 0", "The policies can't judge this stack: length could not be evaluated: /(1, 0): ", 0),
    ],
)
def test_where_no_policy_can_be_evaluated_nothing_is_built(
    engine: Heat, condition: str, begin: str, errors: int
) -> None:
    with changed(engine, "length > 32", condition):
        name, _ = engine.create(CLEAN)
        status, reason = engine.outcome(name)
    assert (status, reason[: len(begin)]) == ("CREATE_FAILED", begin)
    lines = [line for line in engine.log().splitlines() if " ERROR " in line and name in line and "datalog" in line]
    assert len(lines) == errors, engine.log()


LOCK = """INSERT INTO stack_lock (stack_id, engine_id, created_at)
    SELECT ?, engine_id, created_at FROM service WHERE deleted_at IS NULL LIMIT 1"""


def test_an_update_waits_for_the_lock_that_heat_holds_on_the_root_and_is_in_conflict_then(engine: Heat) -> None:
    name = engine.created(template(s=string()))
    lock = (engine.stack(name)["id"], "an engine that died")
    longer = template(s=string(9))
    with closing(sqlite3.connect(engine.folder / "heat.db", timeout=30)) as database:
        with database:
            database.execute(LOCK, lock[:1])
        answer = engine.on(name, "PUT", template=longer)
        assert (answer.status_code, answer.json()["error"]["type"]) == (409, "ActionInProgress")
        assert engine.lengths(name) == [8]
        with database:
            database.execute("UPDATE stack_lock SET engine_id = ?2 WHERE stack_id = ?1", lock)
    assert engine.updated(name, longer)[0] == "UPDATE_COMPLETE"
    assert engine.lengths(name) == [9]


def test_an_update_that_completes_while_its_rollback_waits_is_not_rolled_back(engine: Heat) -> None:
    """Heat deletes the older template then, so a stack that is rolled back to it can't be loaded any more."""
    name = engine.created(template(s=string()))
    key = (engine.stack(name)["id"],)
    assert engine.on(name, "PUT", template=template(**SIGNALLED)).status_code == 202
    wait(lambda: engine.resources(name).get("w") == "CREATE_IN_PROGRESS", engine.log)
    with closing(sqlite3.connect(engine.folder / "heat.db", timeout=30, isolation_level=None)) as database:
        database.execute(LOCK, key)
        assert engine.on(name, "POST", "/actions", cancel_update=None).status_code == 200
        prior = "SELECT prev_raw_template_id FROM stack WHERE id = ?"
        wait(lambda: database.execute(prior, key).fetchone() == (None,), engine.log)
        signal(engine, f"stacks/{name}/{key[0]}", "go")
        assert engine.ended(name)[0] == "UPDATE_COMPLETE"
        database.execute("DELETE FROM stack_lock WHERE stack_id = ?", key)
    wait(lambda: f"{name} is not rolled back" in engine.log(), engine.log)
    assert engine.ended(name)[0] == "UPDATE_COMPLETE"
    assert engine.updated(name, CLEAN)[0] == "UPDATE_COMPLETE"


def test_an_engine_records_its_start_and_answers_the_doctors_probe(
    engine: Heat, monkeypatch: pytest.MonkeyPatch
) -> None:
    [record] = engine.lines("decisions.jsonl", kind="engine_started")
    digest = sha256(inspect.getsource(Stack.converge_stack).encode()).hexdigest()
    assert (record["process"], record["heat"], record["wrapped"]) == (engine.process, version("openstack-heat"), digest)
    assert find_start(engine.process, [record]) == record
    monkeypatch.setenv("OS_AUTH_TYPE", "none")
    monkeypatch.setenv("OS_ENDPOINT", f"{engine.url}/v1/{PROJECT}")
    assert str(probe_engine()) == f"ok[probe] the engine that was asked answers: {LIVE}"
    wait(lambda: engine.stack(PROBE) == {})


def test_rules_that_break_before_the_first_stack_leave_those_of_the_start_in_force(tmp_path: Path) -> None:
    with running(tmp_path, convergence=True, resources=ENGINE_DOOR) as heat:
        (tmp_path / "rules" / "doors.dl").write_text("@deny(")
        name, _ = heat.create(LONG)
        assert heat.outcome(name) == ("CREATE_FAILED", why())
        assert heat.outcome(heat.create(CLEAN)[0]) == CREATED


@pytest.mark.parametrize("convergence", [True, False])
def test_types_that_the_operator_maps_are_judged_as_what_they_are(tmp_path: Path, convergence: bool) -> None:
    (tmp_path / "of_operator.yaml").write_text(json.dumps(OF_PARAMETER))
    gone = f"file://{tmp_path}/gone.yaml"
    mappings = {"Old::*": "OS::Heat::*", "My::String": f"file://{tmp_path}/of_operator.yaml", "My::Gone": gone}
    kinds = ["Old::RandomString", *(["My::String"] if convergence else [])]  # the legacy engine can't store such a file
    with running(tmp_path, convergence, resources=ENGINE_DOOR, mappings=mappings) as heat:
        for kind in kinds:
            name = heat.created(template(s={"type": kind, "properties": {"length": 9}}))
            assert heat.lengths(name) == [9]
            name, _ = heat.create(template(s={"type": kind, "properties": {"length": 64}}))
            status, reason = heat.outcome(name)
            assert (status, heat.lengths(name), reason[:37]) == ("CREATE_FAILED", [], why()[:37])
        assert heat.create(template(s={"type": "My::Gone"}))[1].status_code == 400  # Heat itself can't fetch it


def test_an_engine_of_another_shape_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stack, "converge_stack", lambda self, template, action: None)  # noqa: ARG005
    spec = importlib.util.spec_from_file_location("door", MODULE)
    assert spec
    assert spec.loader
    with pytest.raises(RuntimeError) as error:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert str(error.value) == (
        f"datalog_gate: openstack-heat {version('openstack-heat')} is not known to the engine's door: "
        "Stack.converge_stack takes self, template, action instead of "
        "self, template, action, new_stack, pre_converge, new_traversal_id, abandon"
    )


def test_a_patched_heat_asks_the_plugin_under_convergence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The patch needs no module in `plugin_dirs`."""
    shutil.copytree(Path(heat.__file__).parent, tmp_path / "patched" / "heat", ignore=shutil.ignore_patterns("*.pyc"))
    subprocess.run(["git", "apply", str(PATCH)], cwd=tmp_path / "patched", check=True)
    monkeypatch.syspath_prepend(tmp_path / "patched")
    monkeypatch.setattr(rig, "PROCESSES", multiprocessing.get_context("spawn"))
    (tmp_path / "run").mkdir()
    with running(tmp_path / "run", convergence=True) as patched:
        name, _ = patched.create(LONG)
        assert patched.outcome(name) == ("CREATE_FAILED", why())
        name = patched.created(OF_PARAMETER)
        answer = patched.on(name, "PATCH", parameters={"length": 64})
        assert (answer.status_code, patched.lengths(name)) == (400, [8])
        assert patched.on(name, "PATCH", parameters={"length": 9}).status_code == 202
        assert patched.outcome(name)[0] == "UPDATE_COMPLETE"
