"""What failed updates leave in Heat counts as part of the stack."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.commands import run
from tests.heat.doors.rig import ENGINE_DOOR, Heat, heats, wait
from tests.heat.doors.templates import string, template

RULES = """\
@deny("count", "{n} strings are alive", hint="5 are enough")
many(n) :- n = count{ s : os:heat:random_string(_id=s) }, n > 5.

@record("left", "{s} is left over")
left(s) :- heat:leftover(id=s).
"""
WHY = "The policies deny this stack: count: {} strings are alive at resources.s0 (5 are enough)"


OPTIONS = {"decision_log": "{folder}/decisions.jsonl", "reload_seconds": "0"}
heat = heats("convergence", "legacy", resources=ENGINE_DOOR, rules=RULES, options=OPTIONS)


def alive(heat: Heat, name: str) -> int:
    """The number of strings of a stack in Heat's database."""
    query = """SELECT count(*) FROM resource WHERE nova_instance IS NOT NULL AND name LIKE 's%'
        AND stack_id IN (SELECT id FROM stack WHERE id = :id OR owner_id = :id)"""
    with closing(sqlite3.connect(heat.folder / "heat.db")) as database:
        [number] = database.execute(query, {"id": heat.stack(name)["id"]}).fetchone()
    return int(number)


def five(generation: str, number: int = 5, fail: bool = False) -> dict[str, Any]:
    """Strings of a generation, and a resource that waits for them. Heat deletes what they replace after that."""
    strings = {f"s{at}": string(salt=generation) for at in range(number)}
    last = {"type": "OS::Heat::TestResource", "properties": {"value": generation, "fail": fail}}
    return template(**strings, last={**last, "depends_on": sorted(strings)})


def is_convergence(heat: Heat) -> bool:
    return "convergence_engine = True" in (heat.folder / "heat.conf").read_text()


def refused(heat: Heat, name: str, body: dict[str, Any]) -> str:
    """The reason why an update is refused, without the decision's id."""
    answer = heat.on(name, "PUT", template=body)
    if answer.status_code == 400:
        text: str = answer.json()["error"]["message"]
        return text.split(" [decision ")[0]
    assert answer.status_code == 202, answer.text
    status, why = heat.outcome(name)
    return why if status == "UPDATE_FAILED" else status


def test_an_update_that_adds_to_what_failed_ones_left_is_denied(heat: Heat) -> None:
    name = heat.created(five("a"))
    assert heat.updated(name, five("b", fail=True))[0] == "UPDATE_FAILED"
    assert alive(heat, name) == 10
    for _ in range(2):
        assert refused(heat, name, five("c", fail=True)) == WHY.format(15)
    assert alive(heat, name) == 10


def test_check_sees_what_the_api_shows_of_it(
    heat: Heat, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = heat.created(five("a"))
    assert heat.updated(name, five("b", fail=True))[0] == "UPDATE_FAILED"
    heat.login(monkeypatch)
    code, out, _ = run(capsys, "check", "--stack", name, "--rules", heat.folder / "rules", "--format", "json")
    left = {row["row"][0].partition("*")[0] for row in json.loads(out)["violations"] if row["policy"] == "left"}
    shown = {f"{name}/s{at}" for at in range(5)} if is_convergence(heat) else set()
    assert (code, left) == (bool(shown), shown)


def test_an_update_that_only_makes_good_what_failed_passes_and_nothing_is_left_over_then(heat: Heat) -> None:
    name = heat.created(five("a"))
    assert heat.updated(name, five("b", fail=True))[0] == "UPDATE_FAILED"
    assert heat.updated(name, five("b"))[0] == "UPDATE_COMPLETE"
    assert alive(heat, name) == 5
    assert heat.updated(name, five("c"))[0] == "UPDATE_COMPLETE"
    assert alive(heat, name) == 5


def test_what_is_left_over_does_not_stop_an_update_that_takes_strings_away(heat: Heat) -> None:
    name = heat.created(five("a"))
    assert heat.updated(name, five("b", fail=True))[0] == "UPDATE_FAILED"
    assert heat.updated(name, five("b", number=2))[0] == "UPDATE_COMPLETE"
    assert alive(heat, name) == 2


FAILS = {"type": "OS::Heat::TestResource", "properties": {"fail": True}}


def nest(old: int, name: str, new: int, **more: Any) -> dict[str, Any]:
    """A root of two nested stacks of strings, the old one `a`. It waits for what fails, and that for the new one."""
    files = {f"{number}.yaml": json.dumps(five(name, number)) for number in (old, new)}
    nested = {"a": {"type": f"{old}.yaml", "depends_on": list(more)}, name: {"type": f"{new}.yaml"}}
    return {"template": template(**nested, **{key: {**FAILS, "depends_on": name} for key in more}), "files": files}


def test_what_failed_updates_leave_in_nested_stacks_that_they_did_not_reach_is_counted(heat: Heat) -> None:
    name = heat.created(template(a={"type": "5.yaml"}), files={"5.yaml": json.dumps(five("b"))})
    assert heat.updated(name, **nest(0, "b", 5, bad=FAILS))[0] == "UPDATE_FAILED"
    assert alive(heat, name) == 10
    for _ in range(2):
        answer = heat.on(name, "PUT", **nest(0, "c", 5, bad=FAILS))
        assert "15 strings are alive" in answer.text + heat.ended(name)[1]
        assert alive(heat, name) == 10
    assert heat.updated(name, **nest(0, "b", 5))[0] == "UPDATE_COMPLETE"
    assert alive(heat, name) == 5
    assert heat.updated(name, **nest(0, "c", 5))[0] == "UPDATE_COMPLETE"
    assert alive(heat, name) == 5


def test_what_an_update_that_goes_on_did_not_reach_is_counted(heat: Heat) -> None:
    slow = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": 20}}}
    name = heat.created(template(a={"type": "5.yaml"}), files={"5.yaml": json.dumps(five("b"))})
    assert heat.on(name, "PUT", **nest(0, "b", 5, slow=slow)).status_code == 202
    wait(lambda: alive(heat, name) == 10, heat.log)
    answer = heat.on(name, "PUT", **nest(0, "c", 5, slow=slow))
    assert answer.status_code == (400 if is_convergence(heat) else 409)
    assert ("15 strings are alive" in answer.text) == is_convergence(heat)


def test_an_update_after_one_that_failed_within_the_rules_may_replace_all(heat: Heat) -> None:
    name = heat.created(**nest(3, "b", 0))
    assert heat.updated(name, **nest(3, "b", 1, bad=FAILS))[0] == "UPDATE_FAILED"
    assert heat.updated(name, **nest(0, "c", 3))[0] == "UPDATE_COMPLETE"
    assert alive(heat, name) == 3


def test_a_nested_stack_that_a_failed_update_did_not_reach_counts_as_it_is(heat: Heat) -> None:
    def body(first: int, **more: Any) -> dict[str, Any]:
        files = {f"{number}.yaml": json.dumps(five("a", number)) for number in (first, 2)}
        nested = {"a": {"type": f"{first}.yaml", "depends_on": list(more)}, "b": {"type": "2.yaml"}}
        return {"template": template(**nested, **more), "files": files}

    name = heat.created(**body(3))
    assert heat.updated(name, **body(1, fails=FAILS))[0] == "UPDATE_FAILED"
    [inner] = [stack for stack in heat.list_stacks() if stack["stack_name"].startswith(f"{name}-b-")]
    heat.ask("PUT", f"stacks/{inner['stack_name']}/{inner['id']}", template=five("a", 4))
    heat.ended(inner["stack_name"])
    assert heat.lengths(name) == [8] * 5


def test_what_a_failed_update_did_not_build_does_not_count(heat: Heat) -> None:
    def early(name: str, number: int) -> dict[str, Any]:
        body = nest(0, name, number, bad=FAILS)
        body["template"]["resources"][name]["depends_on"] = "bad"
        del body["template"]["resources"]["bad"]["depends_on"]
        return body

    name = heat.created(**nest(3, "b", 0))
    assert heat.updated(name, **early("c", 3))[0] == "UPDATE_FAILED"
    assert alive(heat, name) == 3
    assert heat.updated(name, **nest(0, "c", 4))[0] == "UPDATE_COMPLETE"
    assert alive(heat, name) == 4


def test_a_replacement_of_what_violated_new_policies_passes_after_a_failed_update(heat: Heat) -> None:
    rules = heat.folder / "rules" / "rules.dl"
    name = heat.created(template(s0=string(9)))
    rules.write_text(f'{RULES}@deny("long", "{{s}} is long")\nlong(s) :- os:heat:random_string(_id=s, length=9).\n')
    assert heat.updated(name, template(s0=string(9), bad=FAILS))[0] == "UPDATE_FAILED"
    assert heat.updated(name, template(s0=string(8)))[0] == "UPDATE_COMPLETE"
    rules.write_text(RULES)


def test_parameters_of_a_failed_update_are_not_those_of_what_lives(heat: Heat) -> None:
    def sized(number: int, more: dict[str, Any]) -> dict[str, Any]:
        group = {"count": {"get_param": "number"}, "resource_def": string()}
        after = {"depends_on": "bad"} if more else {}
        resources = template(g={"type": "OS::Heat::ResourceGroup", "properties": group, **after}, **more)
        body = {**resources, "parameters": {"number": {"type": "number"}}}
        return {"template": body, "parameters": {"number": number}, "files": {"5.yaml": json.dumps(five("a"))}}

    def failing(name: str) -> dict[str, Any]:
        return sized(0, {"bad": {**FAILS, "depends_on": name}, name: {"type": "5.yaml"}})

    name = heat.created(**sized(5, {}))
    assert heat.updated(name, **failing("b"))[0] == "UPDATE_FAILED"
    assert heat.lengths(name) == [8] * 10
    answer = heat.on(name, "PUT", **failing("c"))
    assert "15 strings are alive" in answer.text + heat.ended(name)[1]


def test_what_was_built_by_a_template_that_heat_has_deleted_counts_as_the_current_one_has_it(heat: Heat) -> None:
    name = heat.created(five("a"))
    assert heat.updated(name, five("b", fail=True))[0] == "UPDATE_FAILED"
    with closing(sqlite3.connect(heat.folder / "heat.db", timeout=30)) as database, database:
        [current] = database.execute("SELECT raw_template_id FROM stack WHERE name = ?", (name,)).fetchone()
        database.execute("UPDATE stack SET prev_raw_template_id = NULL WHERE name = ?", (name,))
        database.execute(
            "DELETE FROM raw_template WHERE id < ? AND id IN (SELECT current_template_id FROM resource)", (current,)
        )
    assert refused(heat, name, five("c", fail=True)) == WHY.format(15)
