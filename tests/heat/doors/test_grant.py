"""Grants in a real Heat, in both engines: what is reserved, refused and given back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.heat.doors.grounds import Ground, grant, ground, place, value
from tests.heat.doors.stacks import string, template


@pytest.fixture(scope="module", params=["convergence", "legacy"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A Heat of either engine."""
    with ground(tmp_path_factory.mktemp(request.param), convergence=request.param == "convergence") as one:
        yield one


@pytest.fixture
def here(engine: Ground) -> Iterator[Ground]:
    """The Heat, which holds nothing after the test."""
    yield engine
    engine.empty()
    assert (engine.states(), engine.held()) == ([], [])


def test_a_grant_is_reserved_before_its_scope_is_made_and_tells_the_decision(here: Ground) -> None:
    name, answer = here.heat.create(template(g=grant(scope=["s"]), s=string(), v=value(place("s"))))
    assert answer.status_code == 201
    assert here.heat.ended(name) == ("CREATE_COMPLETE", "Stack CREATE completed successfully")
    [claim] = here.claims()
    assert (claim.path, claim.state, claim.decision) == (f"{name}/g", "reserved", {"s": {"place": 1}})
    shown = here.heat.on(name, "GET", "/resources/g").json()["resource"]
    assert (shown["physical_resource_id"], shown["attributes"]) == (claim.uuid, {"decision": claim.decision})
    assert here.heat.on(name, "GET", "/resources/v").json()["resource"]["attributes"] == {"value": 1}
    events = here.events(name)
    assert events.index(("g", "CREATE_COMPLETE")) < events.index(("s", "CREATE_IN_PROGRESS"))


def test_a_refusal_fails_the_stack_with_the_reason_before_anything_in_scope_is_made(here: Ground) -> None:
    name, _ = here.heat.create(template(g=grant(), a=string(), b=string(), c=string()))
    why = "GrantError: resources.g: the service edge refuses this: the edge has 2 places left, and 3 are asked for"
    status, reason = here.heat.ended(name)
    assert (status, reason.removeprefix("Resource CREATE failed: ")) == ("CREATE_FAILED", why)
    assert here.heat.resources(name) == {"g": "CREATE_FAILED"} | dict.fromkeys("abc", "INIT_COMPLETE")
    assert here.claims() == []
