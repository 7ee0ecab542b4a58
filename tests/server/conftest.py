"""A policy server behind a Keystone, started once."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.server.rig import Site

NEEDED = ("keystone", "openstackclient", "heatclient")
"""What tox -e server installs."""
collect_ignore_glob = [] if all(map(find_spec, NEEDED)) else ["test_*.py"]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Both of them, with users of several roles and scopes."""
    from tests.server.rig import running

    with running(tmp_path_factory.mktemp("site")) as site:
        yield site
