"""The API filter before Heat's convergence engine, over HTTP.

Every operation with a violating stack is refused and leaves nothing in Heat; a clean stack is built. The stack that
records a denial failed for its reason and can be corrected, in both engines.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from heatclient.exc import HTTPForbidden

from tests.heat.doors.rig import Heat
from tests.heat.doors.templates import (
    CLEAN,
    LONG,
    OF_PARAMETER,
    denial,
    refusal,
    string,
    template,
    why,
    without_policies,
)


def test_a_snapshot_from_before_the_policy_is_not_restored(recorded: Heat) -> None:
    with without_policies(recorded):
        name = recorded.created(LONG)
        snapshot = recorded.snapshot(name)
        recorded.on(name, "PUT", template=CLEAN)
        assert (recorded.ended(name)[0], recorded.lengths(name)) == ("UPDATE_COMPLETE", [8])
    before = recorded.list_stacks()
    assert refusal(recorded.on(name, "POST", f"/snapshots/{snapshot}/restore")) == (403, why())
    with pytest.raises(HTTPForbidden, match=re.escape(f"ERROR: {why()}")):
        recorded.client().stacks.restore(f"{name}/{recorded.stack(name)['id']}", snapshot)
    assert (recorded.list_stacks(), recorded.lengths(name)) == (before, [8])


def test_clean_stacks_pass_in_each_operation_and_end_complete(filtered: Heat) -> None:
    name, answer = filtered.create(OF_PARAMETER)
    assert (answer.status_code, filtered.ended(name)[0], filtered.lengths(name)) == (201, "CREATE_COMPLETE", [8])
    snapshot = filtered.snapshot(name)
    updates: list[tuple[str, str, dict[str, Any], int]] = [
        ("PUT", "", {"template": OF_PARAMETER, "parameters": {"length": 9}}, 9),
        ("PATCH", "", {"parameters": {"length": 10}}, 10),
        ("PUT", "", {"template": OF_PARAMETER, "existing": True, "parameters": {"length": 11}}, 11),
        ("PATCH", "", {"existing": True, "environment": {"parameters": {"length": 12}}}, 12),
        ("POST", f"/snapshots/{snapshot}/restore", {}, 8),
    ]
    for method, path, body, length in updates:
        assert filtered.on(name, method, path, **body).status_code == 202
        wanted_status = "RESTORE_COMPLETE" if path else "UPDATE_COMPLETE"
        assert (filtered.ended(name)[0], filtered.lengths(name)) == (wanted_status, [length])
    for method, path, body in (
        ("PUT", "/preview", {"template": CLEAN}), ("PATCH", "/preview", {"parameters": {"length": 9}}),
    ):  # fmt: skip
        assert filtered.on(name, method, path, **body).status_code == 200
    for path, body in (("stacks/preview", {"stack_name": "p", "template": CLEAN}), ("validate", {"template": CLEAN})):
        assert filtered.ask("POST", path, **body).status_code == 200
    data = filtered.on(name, "DELETE", "/abandon").json()
    filtered.ended(name, deleted=True)
    adopted, answer = filtered.create(None, adopt_stack_data=json.dumps(data))
    assert (answer.status_code, filtered.ended(adopted)[0]) == (201, "ADOPT_COMPLETE")


@pytest.mark.parametrize("engine", ["recorded", "legacy_recorded"])
def test_a_clean_update_repairs_the_failed_stack_of_a_denied_creation(
    engine: str, request: pytest.FixtureRequest
) -> None:
    heat: Heat = request.getfixturevalue(engine)
    name, answer = heat.create(LONG, disable_rollback=False, tags="a,b", timeout_mins=7)
    failed = f"Resource CREATE failed: DeniedError: resources.denial: {why()}"
    assert (answer.status_code, heat.outcome(name)) == (201, ("CREATE_FAILED", failed))
    stack = heat.stack(name)
    assert (stack["tags"], stack["timeout_mins"], heat.lengths(name)) == (["a", "b"], 7, [])
    assert refusal(heat.on(name, "PUT", template=LONG)) == (403, why())
    assert heat.outcome(name) == ("CREATE_FAILED", failed)
    assert (heat.updated(name, CLEAN)[0], heat.resources(name)) == ("UPDATE_COMPLETE", {"s": "CREATE_COMPLETE"})


@pytest.mark.parametrize("engine", ["legacy", "convergence"])
def test_a_recorded_denial_may_be_denied_again_and_deleted(engine: str, request: pytest.FixtureRequest) -> None:
    heat: Heat = request.getfixturevalue(engine)
    name, _ = heat.create(template(denied=denial("one")))
    heat.ended(name)
    assert heat.on(name, "PUT", template=template(denied=denial("another"))).status_code == 202
    replaced = "Resource CREATE failed: " if engine == "convergence" else ""
    assert heat.ended(name) == ("UPDATE_FAILED", f"{replaced}DeniedError: resources.denied: another")
    heat.on(name, "DELETE")
    assert heat.ended(name, deleted=True) == ("", "")


@pytest.mark.parametrize("engine", ["legacy", "convergence"])
def test_a_recorded_reason_may_have_any_characters(engine: str, request: pytest.FixtureRequest) -> None:
    heat: Heat = request.getfixturevalue(engine)
    name, _ = heat.create(template(denied=denial("%s %(x)s {y} : \n\x1b é \U0001f600 \ud800" + "x" * 3000)))
    status, why = heat.ended(name)
    reason = why.removeprefix("Resource CREATE failed: DeniedError: resources.denied: ")
    assert (status, reason) == ("CREATE_FAILED", "%s %(x)s {y} : ?? é ? ?" + "x" * (2000 - 23))


def test_a_value_of_a_wrong_kind_is_a_400_without_an_alert(filtered: Heat) -> None:
    with filtered.unchanged():
        reason = "length could not be evaluated: '0x40' > 32: string and number can't be ordered"
        texts = [template(s=string("0x40")), json.dumps(template(s=string("0x40")))]
        answers = [refusal(filtered.create(text)[1]) for text in texts]
    assert [(code, message.partition(" at ")[0]) for code, message in answers] == [
        (400, f"The policies can't judge this stack: {reason}")
    ] * 2
    assert " ERROR datalog_gate" not in filtered.log()
