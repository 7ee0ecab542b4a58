"""The host of the commands' tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from datalog_gate.decision_point.engine_start import running_engines
from datalog_gate.doors.cli.doctor import engines


@pytest.fixture(autouse=True)
def only_own_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the doctor see the engines that a test starts. The host may run others."""

    def list_engines(heat_conf: Path) -> Iterator[int]:
        for process in running_engines(heat_conf):
            if f"PPid:\t{os.getpid()}\n" in Path(f"/proc/{process}/status").read_text():
                yield process

    monkeypatch.setattr(engines, "running_engines", list_engines)
