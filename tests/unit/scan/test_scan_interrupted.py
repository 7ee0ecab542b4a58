"""A run that is killed, or whose disk is full, loses nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from datalog_gate.engine.sql.database import open_database
from datalog_gate.scan.scan_store import ScanStore

STACKS = int(os.environ.get("DATALOG_GATE_SCAN_STACKS", "150"))
"""The templates of a run that is killed: 5000 for a figure to believe in."""
KILLS = 10
BATCH = max(10, STACKS // 30)
RULES = """@deny("size", "{server} is {flavor}")
huge(server, flavor) :- os:nova:server(_id=server, flavor=flavor), is_string(flavor), starts_with(flavor, "huge").

@warn("shared", "{server} has the name {name} of {other}")
shared(server, name, other) :-
  all:os:nova:server(_id=server, name=name), all:os:nova:server(_id=other, name=name), server != other, name != null.
"""
SERVER = """heat_template_version: 2018-08-31
resources:
  vm:
    type: OS::Nova::Server
    properties: {flavor: %s, name: vm-%d}
"""
CHILD = """
import resource, sys
from datalog_gate.doors.cli.main import main
from datalog_gate.scan import scan_run
batch, limit, *arguments = sys.argv[1:]
scan_run.BATCH, scan_run.CHUNK = int(batch), 5
if int(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
sys.exit(main(arguments))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working directory with rules and templates, of which every third denies, and two each share a name."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "size.dl").write_text(RULES)
    (tmp_path / "stacks").mkdir()
    for number in range(STACKS):
        write(tmp_path, number, "huge" if number % 3 == 0 else "small")
    return tmp_path


def write(folder: Path, number: int, flavor: str) -> None:
    (folder / "stacks" / f"{number}.yaml").write_text(SERVER % (flavor, number // 2))


def start(folder: Path, store: str, limit: int = 0, day: int = 1) -> subprocess.Popen[str]:
    """Start a run in small batches with two processes, which can't write files beyond a limit of bytes."""
    scan = ["scan", "run", "--folder", "stacks", "--store", store, "--processes", "2", "--now", f"2027-03-0{day}"]
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(BATCH), str(limit), *scan],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate()
    return process.returncode, out, err


def digest(path: Path) -> str:
    with open_database(str(path)) as database:
        return ScanStore(database).digest()


@pytest.mark.slow
def test_a_run_that_is_killed_ten_times_ends_with_the_same_store(folder: Path) -> None:
    assert finish(start(folder, "whole.duckdb"))[0] == 1
    moments = random.Random(STACKS)
    killed = 0
    while killed < KILLS:
        process = start(folder, "killed.duckdb")
        try:
            process.wait(timeout=moments.uniform(0.2, max(2.5, STACKS / 100)))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        else:  # it was done: begin again
            (folder / "killed.duckdb").unlink()
        process.communicate()
    assert finish(start(folder, "killed.duckdb"))[0] == 1
    assert digest(folder / "killed.duckdb") == digest(folder / "whole.duckdb")


@pytest.mark.slow
def test_a_full_disk_resolves_nothing_and_the_next_run_goes_on(folder: Path) -> None:
    for store in ("whole.duckdb", "full.duckdb"):
        assert finish(start(folder, store))[0] == 1
    for number in range(STACKS):
        write(folder, number, "small")
    code, out, err = finish(start(folder, "full.duckdb", limit=100_000, day=2))
    assert (code, out) == (3, "")
    assert "the store full.duckdb fails" in err
    with open_database(str(folder / "full.duckdb")) as database:
        assert len(ScanStore(database).findings(policy="shared")) == STACKS
    for store in ("whole.duckdb", "full.duckdb"):
        assert finish(start(folder, store, day=2))[0] == 0
    assert digest(folder / "full.duckdb") == digest(folder / "whole.duckdb")
