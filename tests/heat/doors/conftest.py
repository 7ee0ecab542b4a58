"""The running Heats of the tests, each started once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.heat.doors.grant_heat import GrantHeat, run_grant_heat
from tests.heat.doors.rig import HERE, Heat, running
from tests.heat.doors.templates import OF_PARAMETER

API, CFN = "datalog_gate", "datalog_gate_cfn"
RECORDED = {"create_denial": "failed_stack", "reload_seconds": "0"}


@pytest.fixture(scope="session")
def legacy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heat]:
    """The legacy engine, with the lifecycle plugin alone."""
    with running(tmp_path_factory.mktemp("legacy"), convergence=False) as heat:
        yield heat


@pytest.fixture(scope="session")
def convergence(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heat]:
    """The convergence engine, which calls no lifecycle plugin, with no filter."""
    with running(tmp_path_factory.mktemp("convergence"), convergence=True) as heat:
        yield heat


@pytest.fixture(scope="session")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heat]:
    """The convergence engine behind the filters of both APIs."""
    with running(tmp_path_factory.mktemp("filtered"), convergence=True, api_filters=API, cfn_filters=CFN) as heat:
        yield heat


@pytest.fixture(scope="session")
def existing(filtered: Heat) -> str:
    """A stack of OF_PARAMETER behind the filters, which nothing that is refused may change."""
    return filtered.created(OF_PARAMETER, tags="x")


@pytest.fixture(scope="session")
def legacy_filtered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heat]:
    """The legacy engine behind the filters of both APIs, with the lifecycle plugin."""
    with running(
        tmp_path_factory.mktemp("legacy_filtered"), convergence=False, api_filters=API, cfn_filters=CFN
    ) as heat:
        yield heat


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heat]:
    """As `filtered`, but a denied creation becomes a failed stack, and the rules, in the folder `rules`, may change."""
    folder = tmp_path_factory.mktemp("recorded")
    rules = shutil.copytree(HERE / "rules", folder / "rules")
    with running(folder, convergence=True, rules=rules, options=RECORDED, api_filters=API, cfn_filters=CFN) as heat:
        yield heat


@pytest.fixture(scope="session")
def legacy_recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heat]:
    """As `legacy_filtered`, but a denied creation becomes a failed stack."""
    folder = tmp_path_factory.mktemp("legacy_recorded")
    with running(folder, convergence=False, options=RECORDED, api_filters=API, cfn_filters=CFN) as heat:
        yield heat


@pytest.fixture(scope="session")
def custom(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heat]:
    """As `filtered`, in the flavor whose context is what the client's own headers say."""
    folder, options = tmp_path_factory.mktemp("custom"), {"allow_unverified_context": "False"}
    with running(
        folder, convergence=True, options=options, flavor="custombackend", api_filters=API, cfn_filters=CFN
    ) as heat:
        yield heat


@pytest.fixture(scope="session", params=["convergence", "legacy"])
def granting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrantHeat]:
    """A Heat of either engine that has services for grants, with no filter."""
    with run_grant_heat(tmp_path_factory.mktemp(request.param), convergence=request.param == "convergence") as heat:
        yield heat


@pytest.fixture
def here(granting: GrantHeat) -> Iterator[GrantHeat]:
    """The same, which holds nothing once the stacks of the test are gone."""
    yield granting
    granting.empty()
    assert (granting.states(), granting.holdings()) == ([], [])
