"""The running Heats of the tests, each started once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.heat.doors.grant_heat import GrantHeat, run_grant_heat
from tests.heat.doors.rig import ENGINE_DOOR, Heat, running
from tests.heat.doors.templates import OF_PARAMETER

RECORDED = {"create_denial": "failed_stack", "reload_seconds": "0"}


def _heat(name: str, **options: Any) -> Any:
    """A fixture: a Heat, as `running`."""

    @pytest.fixture(scope="session", name=name)
    def fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heat]:
        with running(tmp_path_factory.mktemp(name), **options) as heat:
            yield heat

    return fixture


legacy = _heat("legacy", convergence=False)
"""The legacy engine, with the lifecycle plugin alone."""
convergence = _heat("convergence", convergence=True)
"""The convergence engine, which calls no lifecycle plugin, with no filter."""
engine_door = _heat("engine_door", convergence=True, resources=ENGINE_DOOR)
"""The convergence engine with its door alone."""
filtered = _heat("filtered", convergence=True, filtered=True)
"""The convergence engine behind the filters of both APIs."""
legacy_filtered = _heat("legacy_filtered", convergence=False, filtered=True)
"""The legacy engine behind the filters of both APIs, with the lifecycle plugin."""
recorded = _heat("recorded", convergence=True, options=RECORDED, filtered=True)
"""As `filtered`, but a denied creation becomes a failed stack, and the rules may change."""
legacy_recorded = _heat("legacy_recorded", convergence=False, options=RECORDED, filtered=True)
"""As `legacy_filtered`, but a denied creation becomes a failed stack."""
custom = _heat(
    "custom", convergence=True, options={"allow_unverified_context": "False"}, flavor="custombackend", filtered=True
)
"""As `filtered`, in the flavor whose context is what the client's own headers say."""


@pytest.fixture(params=["legacy", "convergence"])
def either(request: pytest.FixtureRequest) -> Heat:
    """Each engine, without a filter."""
    heat: Heat = request.getfixturevalue(request.param)
    return heat


@pytest.fixture(scope="session")
def existing(filtered: Heat) -> str:
    """A stack of OF_PARAMETER behind the filters, which nothing that is refused may change."""
    return filtered.created(OF_PARAMETER, tags="x")


@pytest.fixture(scope="session", params=["convergence", "legacy"])
def granting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrantHeat]:
    """A Heat of either engine that has services for grants, with no filter."""
    with run_grant_heat(tmp_path_factory.mktemp(request.param), convergence=request.param == "convergence") as heat:
        yield heat


@pytest.fixture
def here(granting: GrantHeat) -> Iterator[GrantHeat]:
    """The same, which holds nothing once the stacks of the test are gone."""
    yield granting
    granting.behave("kindly")
    granting.empty()
    assert (granting.states(), granting.holdings()) == ([], [])
