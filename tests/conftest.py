"""Settings that all tests share.

No generated case has a deadline.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pytest

from tests.sampling import sample

with suppress(ImportError):  # not every environment generates cases
    from hypothesis import settings

    settings.register_profile("patient", deadline=None, max_examples=sample(100))
    settings.load_profile("patient")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of Hypothesis as `sampled`."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("sampled")
