"""A Heat behind a Keystone, started once.

These tests need the packages of both: they run in the tox environment `keystone` alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.keystone.rig import Cloud

collect_ignore_glob = [] if find_spec("heat") and find_spec("keystone") else ["test_*.py"]


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Both of them, with users of several roles."""
    from tests.keystone.rig import running

    with running(tmp_path_factory.mktemp("cloud")) as cloud:
        yield cloud
