"""A run that is killed, or whose disk is full, loses nothing."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from threading import Event

import pytest

from datalog_gate.engine.sql.database import open_database
from datalog_gate.scan.scan_store import Page, ScanStore

STACKS = int(os.environ.get("DATALOG_GATE_SCAN_STACKS", "150"))
"""The templates of a run that is killed: 5000 for a figure to believe in."""
KILLS = int(os.environ.get("DATALOG_GATE_SCAN_KILLS", "10"))
BATCH = max(10, STACKS // 30)
SHOWN = 100
"""The stacks of a page that readers see."""
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
    now = str(date(2027, 3, 1) + timedelta(day - 1))
    scan = ["scan", "run", "--folder", "stacks", "--store", store, "--processes", "2", "--now", now]
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


def digest(store: str) -> str:
    with open_database(store, read_only=True) as database:
        return ScanStore(database, read_only=True).digest()


@contextmanager
def read_throughout(store: str) -> Iterator[None]:
    """Read a store twenty times a second. Errors: those of reading it, and AssertionError for a half of a batch."""
    ended = Event()

    def read_until_end() -> None:
        due = time.monotonic()
        while not ended.wait(max(0, due - time.monotonic())):
            due = max(due + 0.05, time.monotonic())
            read(store)

    with ThreadPoolExecutor(1) as readers:
        reading = readers.submit(read_until_end)
        try:
            yield
        finally:
            ended.set()
        reading.result()


def read(store: str) -> None:
    """Read the counts of a store and a page of its stacks, each of which has what was found in it, and no more."""
    with open_database(store, read_only=True) as database:
        opened = ScanStore(database, read_only=True)
        assert opened.counts()["warn", "holds", False] == STACKS
        page = opened.stacks_page(Page(limit=SHOWN), skip=random.randrange(max(1, STACKS - SHOWN)))
        assert [row for row in page if row["findings"] != 1 + (row["outcome"] == "deny")] == []


@pytest.fixture
def create(tmp_path: Path) -> Callable[[str], str]:
    """A function that names a store that does not exist, or is empty."""
    return lambda name: str(tmp_path / f"{name}.duckdb")


@pytest.mark.slow
def test_runs_that_are_killed_end_with_the_same_store(folder: Path, create: Callable[[str], str]) -> None:
    whole, killed = create("whole"), create("killed")
    for store in (whole, killed):
        assert finish(start(folder, store))[0] == 1
    moments, kills, day = random.Random(STACKS), 0, 1
    while kills < KILLS:
        day += 1
        for number in range(STACKS):
            write(folder, number, "huge" if (number + day) % 3 == 0 else "small")
        began = time.monotonic()
        assert finish(start(folder, whole, day=day))[0] == 1
        longest = time.monotonic() - began
        with read_throughout(killed):
            is_done = False
            while kills < KILLS and not is_done:
                process = start(folder, killed, day=day)
                is_done = ends(process, moments.uniform(0, longest))
                kills += not is_done
            codes = [finish(process)[0] for process in [start(folder, killed, day=day) for _ in range(2)]]
            assert sorted(codes) in ([1, 3], [1, 1])  # two at once, unless one ends before the other begins
        assert digest(killed) == digest(whole)


def ends(process: subprocess.Popen[str], seconds: float) -> bool:
    """Whether a run ends within so many seconds. Otherwise it is killed."""
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    finally:
        process.kill()
        process.communicate()
    assert code == 1
    return True


@pytest.mark.slow
@pytest.mark.parametrize("growth", [-1, 500_000], ids=["at once", "in the middle"])
def test_a_full_disk_resolves_nothing_and_the_next_run_goes_on(folder: Path, growth: int) -> None:
    whole, full = folder / "whole.duckdb", folder / "full.duckdb"
    for store in (whole, full):
        assert finish(start(folder, store.name))[0] == 1
    for number in range(STACKS):
        write(folder, number, "small")
    with read_throughout(str(full)):
        code, out, err = finish(start(folder, full.name, limit=full.stat().st_size + growth, day=2))
    assert (code, out) == (3, "")
    assert "the store full.duckdb fails" in err
    with open_database(str(full), read_only=True) as database:
        opened = ScanStore(database, read_only=True)
        assert [len(opened.findings(policy=policy)) for policy in ("size", "shared")] == [(STACKS + 2) // 3, STACKS]
    for store in (whole, full):
        assert finish(start(folder, store.name, day=2))[0] == 0
    assert digest(str(full)) == digest(str(whole))
