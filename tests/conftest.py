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
    from pathlib import Path

    from datalog_gate.decision_point.point import DecisionPoint

os.environ["DATALOG_GATE_FROZEN"] = "1"  # before the package is imported, here and by each command that a test runs
os.environ["XDG_CACHE_HOME"] = os.devnull  # no test reads or fills the cache of who runs it

LONG = {
    "analysis/kind_guards", "analysis/lifting", "analysis/mistakes", "decision/case_analysis",
    "decision_point/cloud_wide", "decision_point/feasibility", "decision_point/live_options", "decision_point/log",
    "decision_point/metrics", "decision_point/metrics_port", "doors/cli/check_folder", "doors/cli/doctor",
    "doors/cli/scan_command", "doors/cli/services_command", "doors/cli/store_command",
    "doors/heat/stack_states", "doors/server/server", "engine/budget", "engine/doubts", "engine/pydatalog",
    "engine/sql_engine", "inventory/targets", "pages/decision_page", "policytest/failures", "policytest/policytest",
    "project/bench", "project/docs", "project/fuzz", "rack_affinity/rack_affinity", "scan/heat_feed", "scan/rejudge",
    "scan/scan", "services/approval", "services/conformance", "services/crashes", "services/journal",
    "services/outcomes", "services/reconcile", "store/store", "template/group_sizes", "template/yaql",
}  # fmt: skip
"""The modules in `tests/unit` with two thirds of the time of all: engines, scans, whole commands, many processes."""
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


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the `FILES` of the module."""
    from tests.commands import write_files

    monkeypatch.delenv("DATALOG_GATE_RULES", raising=False)
    monkeypatch.chdir(tmp_path)
    return write_files(tmp_path, request.module.FILES)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of Hypothesis as `sampled`, and those of `LONG` modules and packs as `long`. A report in XML gives
    the id of each test, by which .ci/checks.py runs it alone."""
    for item in items:
        item.user_properties.append(("id", item.nodeid))
        name = item.path.as_posix().rpartition("/tests/unit/")[2].removesuffix(".py").replace("test_", "")
        if name in LONG or (item.path.name == "test.yaml" and item.path.parent.name in LONG_PACKS):
            item.add_marker("long")
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("sampled")
