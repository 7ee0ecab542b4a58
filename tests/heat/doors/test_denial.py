"""The record of a denied creation, in both engines.

The stack failed for its reason and can be corrected.
"""

from __future__ import annotations

import pytest

from tests.heat.doors.rig import Heat
from tests.heat.doors.templates import CLEAN, denial, template

REASON = "flavor: web takes m1.huge (take m1.small) [decision 4ceb31]"


@pytest.mark.parametrize("engine", ["legacy", "convergence"])
def test_a_recorded_denial_fails_with_its_reason_and_a_clean_update_replaces_it(
    engine: str, request: pytest.FixtureRequest
) -> None:
    heat: Heat = request.getfixturevalue(engine)
    name, answer = heat.create(template(denied=denial(REASON)))
    failed = "CREATE_FAILED", f"Resource CREATE failed: DeniedError: resources.denied: {REASON}"
    assert (answer.status_code, heat.ended(name)) == (201, failed)
    assert heat.on(name, "PUT", template=CLEAN).status_code == 202
    assert (heat.ended(name)[0], heat.resources(name)) == ("UPDATE_COMPLETE", {"s": "CREATE_COMPLETE"})


@pytest.mark.parametrize("engine", ["legacy", "convergence"])
def test_a_recorded_denial_may_be_denied_again_and_be_deleted(engine: str, request: pytest.FixtureRequest) -> None:
    heat: Heat = request.getfixturevalue(engine)
    name, _ = heat.create(template(denied=denial("one")))
    heat.ended(name)
    assert heat.on(name, "PUT", template=template(denied=denial("another"))).status_code == 202
    replaced = "Resource CREATE failed: " if engine == "convergence" else ""
    assert heat.ended(name) == ("UPDATE_FAILED", f"{replaced}DeniedError: resources.denied: another")
    heat.on(name, "DELETE")
    assert heat.ended(name, deleted=True) == ("", "")


@pytest.mark.parametrize("engine", ["legacy", "convergence"])
def test_a_recorded_reason_may_hold_any_characters(engine: str, request: pytest.FixtureRequest) -> None:
    heat: Heat = request.getfixturevalue(engine)
    name, _ = heat.create(template(denied=denial("%s %(x)s {y} : \n\x1b é \U0001f600 \ud800" + "x" * 3000)))
    status, why = heat.ended(name)
    reason = why.removeprefix("Resource CREATE failed: DeniedError: resources.denied: ")
    assert (status, reason) == ("CREATE_FAILED", "%s %(x)s {y} : ?? é ? ?" + "x" * (2000 - 23))
