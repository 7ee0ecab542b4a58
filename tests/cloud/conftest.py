"""A whole OpenStack, started once, or one that runs already.

With `OS_AUTH_URL` in the environment the tests take the cloud of these credentials, which have to be an admin's. What
needs other options or other rules than that cloud has is skipped, unless it is one of examples/cloud, whose openrc says
so. These tests need many packages: they run in the tox environment `cloud` alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cloud.rig import Cloud

collect_ignore_glob = [] if find_spec("nova") and find_spec("openstack") else ["test_*.py"]


def pytest_keyboard_interrupt() -> None:
    """Stop a cloud at once: what fixtures delete in it may take longer than whoever interrupts waits."""
    if "tests.cloud.rig" in sys.modules:
        sys.modules["tests.cloud.rig"].stop_started()


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """The cloud, with two projects of these tests in it."""
    from tests.cloud.rig import connected, started

    if os.environ.get("OS_AUTH_URL"):
        with connected() as cloud:
            yield cloud
    else:
        with started(tmp_path_factory.mktemp("cloud") / "cloud"), connected() as cloud:
            yield cloud


@pytest.fixture(scope="module", params=["convergence", "legacy"])
def engine(cloud: Cloud, request: pytest.FixtureRequest) -> Iterator[Cloud]:
    """A cloud of examples/cloud with each engine."""
    if cloud.folder is None:
        pytest.skip("it needs the licence of examples/cloud, and changes the engine")
    if request.param == "convergence":
        yield cloud
    else:
        with cloud.options("[DEFAULT]\nconvergence_engine = false\n", "heat-engine"):
            yield cloud


@pytest.fixture
def own_cloud(cloud: Cloud) -> Cloud:
    """The cloud, if it is one of examples/cloud, whose options and rules a test may change."""
    if cloud.folder is None:
        pytest.skip("it changes options or rules, and this cloud is not one of examples/cloud")
    return cloud
