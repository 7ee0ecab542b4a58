"""Settings that all tests share.

No generated case has a deadline.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

import pytest

from tests.sampling import sample

if TYPE_CHECKING:
    from datalog_gate.decision_point.point import DecisionPoint

os.environ["DATALOG_GATE_FROZEN"] = "1"  # before the package is imported, here and by each command that a test runs
os.environ["XDG_CACHE_HOME"] = os.devnull  # no test reads or fills the cache of who runs it

LONG = {
    "approval", "bench", "budget", "case_analysis", "check_folder", "cloud_wide", "conformance",
    "crashes", "decision_page", "docs", "doctor", "doctor_findings", "doubts", "feasibility", "fuzz",
    "group_sizes", "heat_feed", "inventory_targets", "journal", "kind_guards", "lifting", "live_options", "log",
    "metrics", "metrics_port", "mistakes", "outcomes", "policytest", "policytest_failures", "pydatalog",
    "rack_affinity", "reconcile", "rejudge", "scan", "scan_command", "server", "services_command",
    "sql_engine", "stack_states", "store", "store_command", "yaql",
}  # fmt: skip
"""The modules that take two thirds of the time of all: engines, scans, whole commands, many processes."""
LONG_PACKS = {"vnf"}

with suppress(ImportError):  # not every environment generates cases
    from hypothesis import settings

    settings.register_profile("patient", deadline=None, max_examples=sample(100))
    settings.load_profile("patient")


with suppress(ImportError):  # nor has the package
    from datalog_gate.decision import policy_set

    policy_set._loaded = lru_cache(200)(
        policy_set._loaded.__wrapped__
    )  # many tests read the packs, between other rules


def pytest_collection_finish() -> None:
    """Spare the collector of garbage what all tests are made of: it would walk over thousands of them each time."""
    gc.freeze()


@pytest.fixture(scope="module")
def point(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> DecisionPoint:
    """A decision point with the `RULES` of the module."""
    from tests.fake_heat import point_of

    path = tmp_path_factory.mktemp("rules") / "m.dl"
    path.write_text(request.module.RULES)
    return point_of(path)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of Hypothesis as `sampled`, and those of `LONG` modules and packs as `long`. A report in XML gives
    the id of each test, by which .ci/checks.py runs it alone."""
    for item in items:
        item.user_properties.append(("id", item.nodeid))
        name, folder = item.path.stem.removeprefix("test_"), item.path.parent.name
        if (folder == "tests" and name in LONG) or (item.path.name == "test.yaml" and folder in LONG_PACKS):
            item.add_marker("long")
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("sampled")
