"""Judge updates as changes in a real Heat.

What was wrong before an update stops nothing and what is new does, at the filter before the convergence engine and in
the plugin of the legacy one. A refused stack never exists.
"""

from __future__ import annotations

import json
from typing import Any

from tests.heat.doors.rig import Heat, heats, wait
from tests.heat.doors.templates import CLEAN, LONG, refusal, string, template, why, without_policies

WITH_CLEAN = template(s=string(64), t=string())
WITH_LONG = template(s=string(64), t=string(64))
NESTED: dict[str, Any] = {"template": template(inner={"type": "inner.yaml"}), "files": {"inner.yaml": json.dumps(LONG)}}


heat = heats("filter", "plugin", options={"reload_seconds": "0", "decision_log": "{folder}/decisions.jsonl"})


def test_an_update_passes_with_what_was_wrong_before_and_no_more(heat: Heat) -> None:
    name = _made_before(heat, {"template": LONG})
    assert (heat.updated(name, WITH_CLEAN)[0], heat.lengths(name)) == ("UPDATE_COMPLETE", [8, 64])
    passed = ("allow_with_warnings", {"s has 64 characters": "preexisting"})
    refused = ("deny", {"s has 64 characters": "preexisting", "t has 64 characters": "introduced"})
    reason = why("length: t has 64 characters", resource="t")
    assert _refused(heat, name, template=WITH_LONG) == reason
    wait(lambda: len(_changes(heat, name)) == 2)  # the log is written beside
    assert _changes(heat, name) == [passed, refused]


def test_what_is_wrong_in_a_nested_stack_was_there_too(heat: Heat) -> None:
    name = _made_before(heat, NESTED)
    more = {**NESTED, "template": template(inner={"type": "inner.yaml"}, t=string())}
    assert heat.updated(name, **more)[0] == "UPDATE_COMPLETE"
    wait(lambda: len(_changes(heat, name)) == 1)
    assert _changes(heat, name) == [("allow_with_warnings", {"s has 64 characters": "preexisting"})]


def test_what_was_refused_was_not_there(heat: Heat) -> None:
    name, answer = heat.create(LONG)
    if answer.status_code == 403:  # there is no stack
        return
    assert heat.outcome(name) == ("CREATE_FAILED", why())
    for _ in range(2):
        assert _refused(heat, name, template=LONG) == why()
    assert (heat.updated(name, CLEAN)[0], heat.lengths(name)) == ("UPDATE_COMPLETE", [8])


def _made_before(heat: Heat, body: dict[str, Any]) -> str:
    """A stack from before there was a policy."""
    with without_policies(heat):
        return heat.created(body["template"], **{key: value for key, value in body.items() if key != "template"})


def _refused(heat: Heat, name: str, **body: Any) -> str:
    """Why the door refuses an update, in its own way."""
    answer = heat.on(name, "PUT", **body)
    if answer.status_code == 202:
        status, reason = heat.outcome(name)
        assert status == "UPDATE_FAILED"
        return reason
    return refusal(answer)[1]


def _changes(heat: Heat, name: str) -> list[tuple[str, dict[str, str]]]:
    """The outcome of each update of the root stack, and what changes by it, as the decision log has it."""
    return [
        (
            line["decision"]["outcome"],
            {violation["message"]: violation["change"] for violation in line["decision"]["violations"]},
        )
        for line in heat.lines("decisions.jsonl", kind="decision")
        if (line["action"], line["stack_name"], line["stack_id"]) == ("update", name, heat.stack(name)["id"])
    ]
