"""The lifecycle plugin in Heat's legacy engine, over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.heat.doors.rig import Heat, running, wait
from tests.heat.doors.templates import CLEAN, GROUP, LONG, OF_PARAMETER, UP, denial, string, template, why

NESTED: dict[str, Any] = {
    "template": template(inner={"type": "inner.yaml"}, s=string()),
    "files": {"inner.yaml": json.dumps(CLEAN)},
}


def test_a_vetoed_creation_makes_nothing_and_a_clean_update_makes_it_good(legacy: Heat) -> None:
    name, answer = legacy.create(LONG)
    assert (answer.status_code, legacy.outcome(name), legacy.resources(name)) == (
        201, ("CREATE_FAILED", why()), {"s": "INIT_COMPLETE"},
    )  # fmt: skip
    assert _changed_by_veto(legacy, name) == {}
    assert legacy.on(name, "PUT", template=CLEAN).status_code == 202
    assert legacy.outcome(name) == ("UPDATE_COMPLETE", "Stack UPDATE completed successfully")


def test_a_vetoed_update_changes_nothing_and_a_clean_one_goes_on(legacy: Heat) -> None:
    name = legacy.created(CLEAN)
    assert legacy.on(name, "PUT", template=LONG).status_code == 202
    assert legacy.outcome(name) == ("UPDATE_FAILED", why())
    assert _changed_by_veto(legacy, name) == {}
    assert (legacy.on(name, "GET", "/template").json(), legacy.resources(name)) == (CLEAN, {"s": "CREATE_COMPLETE"})
    assert legacy.on(name, "PUT", template=template(s=string(9))).status_code == 202
    assert legacy.outcome(name) == ("UPDATE_COMPLETE", "Stack UPDATE completed successfully")


def test_each_operation_is_judged_once_and_its_end_is_reported(legacy: Heat) -> None:
    name = legacy.created(CLEAN)
    snapshot = legacy.snapshot(name)
    for operation in ("suspend", "resume", "check"):
        assert legacy.on(name, "POST", "/actions", **{operation: None}).status_code in (200, 201)
        legacy.ended(name)
    for method, path, body in (
        ("PUT", "", {"template": template(s=string(9))}),
        ("PATCH", "", {"parameters": {}}),
        ("POST", f"/snapshots/{snapshot}/restore", {}),
        ("DELETE", "", {}),
    ):
        assert legacy.on(name, method, path, **body).status_code < 300
        legacy.ended(name)
    operations = (
        "create", "snapshot", "suspend", "resume", "check", "update", "update", "restore", "delete",
    )  # fmt: skip
    assert _operations(legacy, name) == [
        (operation, event) for operation in operations for event in ("allowed", "complete")
    ]
    assert _modified(legacy, name) == []


def test_adopting_and_abandoning_are_judged(legacy: Heat) -> None:
    name = legacy.created(CLEAN)
    data = legacy.on(name, "DELETE", "/abandon").json()
    legacy.ended(name, deleted=True)
    assert _operations(legacy, name)[2:] == [("delete", "allowed"), ("delete", "complete")]
    adopted, answer = legacy.create(None, adopt_stack_data=json.dumps(data))
    assert (answer.status_code, legacy.ended(adopted)[0]) == (201, "ADOPT_COMPLETE")
    assert _operations(legacy, adopted) == [("adopt", "allowed"), ("adopt", "complete")]
    denied, _ = legacy.create(None, adopt_stack_data=json.dumps({**data, "template": LONG}))
    assert legacy.outcome(denied) == ("ADOPT_FAILED", why())


def test_a_failed_operation_is_reported_and_its_rollback_goes_on(legacy: Heat) -> None:
    name, _ = legacy.create(LONG, disable_rollback=False)
    assert (legacy.ended(name, deleted=True), _operations(legacy, name)) == (("", ""), [("create", "denied")])
    bad = template(s=string(9), d=denial("no"))
    name, _ = legacy.create(bad, disable_rollback=False)
    assert (legacy.ended(name, deleted=True), _operations(legacy, name)) == (
        ("", ""),
        [("create", "allowed"), ("create", "failed")],
    )
    name = legacy.created(CLEAN)
    legacy.on(name, "PUT", template=bad, disable_rollback=False)
    assert legacy.ended(name)[0] == "ROLLBACK_COMPLETE"
    legacy.on(name, "PUT", template=bad)
    assert legacy.ended(name)[0] == "UPDATE_FAILED"
    assert _operations(legacy, name)[2:] == [("update", "allowed"), ("update", "failed")] * 2


def test_an_operation_that_a_later_plugin_stops_is_reported_as_failed(legacy: Heat) -> None:
    name, _ = legacy.create(CLEAN, name="late-veto")
    assert legacy.ended(name) == ("CREATE_FAILED", "a later plugin stops it")
    assert _operations(legacy, name) == [("create", "allowed"), ("create", "failed")]


def test_a_nested_stack_that_is_built_is_judged_again_in_its_tree(legacy: Heat) -> None:
    name = legacy.created(**NESTED)
    inner = {"files": {"inner.yaml": json.dumps(template(s=string(10)))}}
    assert legacy.updated(name, **{**NESTED, **inner})[0] == "UPDATE_COMPLETE"
    for operation in ("suspend", "resume", "check"):
        legacy.on(name, "POST", "/actions", **{operation: None})
        legacy.ended(name)
    allowed = [operation for operation, event in _operations(legacy, name) if event == "allowed"]
    assert allowed == ["create", "create", "update", "update", "suspend", "resume", "check"]
    long, _ = legacy.create(NESTED["template"], files={"inner.yaml": json.dumps(LONG)})
    assert legacy.outcome(long) == (
        "CREATE_FAILED",
        f"The policies deny this stack: length: {long}/inner/s has 64 characters at "
        "inner.yaml:resources.s.properties.length (32 are enough)",
    )


def test_a_group_that_a_signal_scales_is_judged_in_its_tree(legacy: Heat) -> None:
    name = legacy.created(template(group=GROUP, up=UP))
    judged = ("allowed", "complete")
    assert _operations(legacy, name) == [("create", event) for event in ("allowed", *judged, "complete")]
    assert legacy.on(name, "POST", "/resources/up/signal").status_code == 200
    wait(lambda: len(_operations(legacy, name)) == 6)
    assert _operations(legacy, name)[4:] == [("update", event) for event in judged]


def test_what_a_failed_update_left_in_the_template_did_not_exist_before(legacy: Heat) -> None:
    """Heat then stores the new parameters, files and mappings beside the definitions that it has not updated."""
    name = legacy.created(OF_PARAMETER)
    bad = {"type": "OS::Heat::TestResource", "properties": {"fail": True}}
    unused = {**OF_PARAMETER, "resources": {"bad": bad, "s": {**string(), "depends_on": "bad"}}}
    assert legacy.updated(name, unused, parameters={"length": 64})[0] == "UPDATE_FAILED"
    assert legacy.on(name, "PUT", template=OF_PARAMETER, parameters={"length": 64}).status_code == 202
    assert (legacy.outcome(name), legacy.lengths(name)) == (("UPDATE_FAILED", why()), [8])
    assert legacy.updated(name, OF_PARAMETER, parameters={"length": 9})[0] == "UPDATE_COMPLETE"


def test_a_vetoed_stack_is_kept_with_its_reason_if_the_option_is_set(tmp_path: Path) -> None:
    with running(tmp_path, convergence=False, options={"keep_vetoed_stack": "true"}) as heat:
        name, _ = heat.create(LONG, disable_rollback=False)
        assert (heat.outcome(name), heat.stack(name)["disable_rollback"]) == (("CREATE_FAILED", why()), False)
        assert _changed_by_veto(heat, name) == {"disable_rollback": (False, True)}


def _operations(heat: Heat, name: str) -> list[tuple[str, str]]:
    return [(line["action"], line["what"]) for line in heat.lines("asked.jsonl", stack=name)]


def _modified(heat: Heat, name: str) -> list[Any]:
    """The operations before which a plugin before the gate's saw something else than one after it."""
    sides = [
        [{**line, "side": ""} for line in heat.lines("witness.jsonl", stack=name, side=side, when="pre")]
        for side in ("before", "after")
    ]
    return [pair for pair in zip(*sides, strict=True) if pair[0] != pair[1]]


def _changed_by_veto(heat: Heat, name: str) -> dict[str, Any]:
    """What a plugin before the gate's saw change between its two calls around the last veto."""
    before, after = heat.lines("witness.jsonl", stack=name, side="before")[-2:]
    assert (before.pop("when"), after.pop("when")) == ("pre", "post")
    return {key: (before[key], after[key]) for key in before if before[key] != after[key]}
