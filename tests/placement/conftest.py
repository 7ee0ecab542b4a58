"""A real Placement and the Heats before it, each started once.

These tests need its package: they run in the tox environment `placement` alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.placement.placement_heat import PlacementHeat
    from tests.placement.rig import Cloud

collect_ignore_glob = [] if find_spec("placement") else ["test_*.py"]
if not find_spec("heat"):
    collect_ignore_glob.append("test_heat*.py")


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """An empty one: each test makes providers of its own, of classes of its own."""
    from tests.placement.rig import running

    with running(tmp_path_factory.mktemp("placement")) as cloud:
        yield cloud


@pytest.fixture(scope="session", params=["convergence", "legacy"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def granting(engine: str, cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlacementHeat]:
    """Heat with the services, and no filter."""
    from tests.placement.placement_heat import run_placement_heat

    with run_placement_heat(tmp_path_factory.mktemp(engine), cloud, engine == "convergence") as heat:
        yield heat


@pytest.fixture(scope="session")
def filtering(engine: str, cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlacementHeat]:
    """The same behind the gate's filter."""
    from tests.placement.placement_heat import run_placement_heat

    with run_placement_heat(tmp_path_factory.mktemp(engine), cloud, engine == "convergence", filtered=True) as heat:
        yield heat


@pytest.fixture
def here(granting: PlacementHeat) -> Iterator[PlacementHeat]:
    """A Heat that holds nothing in the end."""
    yield granting
    granting.empty()
    assert (granting.holdings, granting.claims) == ([], ())


@pytest.fixture
def behind(filtering: PlacementHeat) -> Iterator[PlacementHeat]:
    """The same behind the gate's filter."""
    yield filtering
    filtering.empty()
    assert (filtering.holdings, filtering.claims) == ([], ())
