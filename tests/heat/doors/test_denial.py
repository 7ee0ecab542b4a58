"""The record of a denied creation, in both engines.

The stack failed for its reason and can be corrected.
"""

from __future__ import annotations

import pytest

from tests.heat.doors.rig import Heat
from tests.heat.doors.templates import denial, template


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
