"""A server over each database under load, with reloads, restarts and deaths.

The full form is ``python -m bench.server 100000 postgresql``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.server import run_load

REQUESTS = int(os.environ.get("DATALOG_GATE_REQUESTS", "1000"))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb"])
def test_each_answer_under_load_is_correct(kind: str, tmp_path: Path) -> None:
    figures = run_load(tmp_path, REQUESTS, kind)
    print(figures)
    assert (figures["wrong"], figures["failures in the log"], figures["requests"]) == ([], 0, REQUESTS)
    assert sorted(figures["sets of rules"].values()) == [[32], [64]]
