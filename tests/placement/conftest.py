"""A real Placement, started once.

These tests need its package: they run in the tox environment `placement` alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
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
