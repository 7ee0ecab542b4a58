"""Waiting for what another thread, process or server does."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 100.0
"""Seconds, less than a test has: so a failure says what was waited for."""


def wait(over: Callable[[], object], describe: Callable[[], str] = str, seconds: float = PATIENCE) -> None:
    """Wait until `over` holds. After `seconds` it fails with the text of `describe`."""
    begin = time.monotonic()
    while not over():
        waited = time.monotonic() - begin
        assert waited < seconds, f"it takes too long\n{describe()}"
        time.sleep(min(0.05 + waited / 20, 0.3))  # each look costs the server that is looked at
