"""The Heats of the tests, each started once for those that ask for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.heat.doors.rig import Heat, running


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
    """The convergence engine behind the API filter."""
    with running(tmp_path_factory.mktemp("filtered"), convergence=True, api_filters="datalog_gate") as heat:
        yield heat


@pytest.fixture(scope="session")
def legacy_filtered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heat]:
    """The legacy engine behind the API filter, with the lifecycle plugin."""
    with running(tmp_path_factory.mktemp("legacy_filtered"), convergence=False, api_filters="datalog_gate") as heat:
        yield heat
