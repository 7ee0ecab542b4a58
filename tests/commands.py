"""Files, commands in this process, and a heat.conf, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from oslo_config import cfg

from datalog_gate.doors.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """The exit code of `datalog-gate`, and what it prints on stdout and on stderr."""
    code = main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """Write texts below a folder, each under its name, and return the folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def read_conf(*files: Path) -> cfg.ConfigOpts:
    """The options of Heat in these files."""
    conf = cfg.ConfigOpts()
    conf([], project="heat", default_config_files=[str(file) for file in files])
    return conf
