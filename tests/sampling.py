"""The number of cases that a sampled test tries.

These are all cases in ``tox -e slow`` and a twentieth of them elsewhere.

``@pytest.mark.sampled`` says that a test takes a sample; `conftest` gives it to each test of Hypothesis.
"""

from __future__ import annotations

import os

ALL = bool(os.environ.get("DATALOG_GATE_ALL_CASES"))


def sample(count: int) -> int:
    """How many of so many cases to try here."""
    return count if ALL else max(-(-count // 20), min(count, 3))
