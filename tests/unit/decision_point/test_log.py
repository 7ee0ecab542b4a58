"""The decision log with threads, forks and other processes."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.decision_point.log import SCHEMA, DecisionLog, read_log

FORK = multiprocessing.get_context("fork")


def record(**more: object) -> dict[str, object]:
    return {"schema": SCHEMA, "kind": "n", **more}


def read_entries(path: Path) -> list[object]:
    """The records without schema and kind, and a word for each broken line."""
    return [
        "broken"
        if isinstance(entry, Diagnostic)
        else {key: entry[key] for key in entry if key not in ("schema", "kind")}
        for entry in read_log(path)
    ]


def _writes(log: DecisionLog, of: int, count: int) -> None:
    for number in range(count):
        log.write(record(of=of, n=number, text="x" * number))
    log.flush(20.0)


def _write_from_two_processes(path: Path, limit: int, count: int) -> None:
    logs = [DecisionLog(str(path), limit) for _ in range(2)]
    children = [FORK.Process(target=_writes, args=(log, of, count)) for of, log in enumerate(logs)]
    for child in children:
        child.start()
    for child in children:
        child.join(60.0)
    assert [child.exitcode for child in children] == [0, 0]


def test_a_forked_process_writes_records_of_its_own(tmp_path: Path) -> None:
    log = DecisionLog(str(tmp_path / "log"), 100_000)
    log.write(record(n=1))
    log.flush(2.0)
    with log._lock:  # as another thread of the parent might hold it
        child = FORK.Process(target=_writes, args=(log, 2, 1))
        child.start()
        child.join(60.0)
    log.write(record(n=3))
    log.flush(2.0)
    assert (child.exitcode, read_entries(tmp_path / "log")) == (0, [{"n": 1}, {"of": 2, "n": 0, "text": ""}, {"n": 3}])


@pytest.mark.slow
def test_a_process_forked_without_pythons_hooks_writes_records_of_its_own(tmp_path: Path) -> None:
    program = """
import ctypes, os, sys
from datalog_gate.decision_point.log import DecisionLog
log = DecisionLog(sys.argv[1], 10_000)
log.write({"schema": "datalog-gate/log/1", "kind": "parent"})
log.flush(9)
child = ctypes.PyDLL(None).fork()  # as uWSGI does
if child == 0:
    log.flush(9)
    log.write({"schema": "datalog-gate/log/1", "kind": "child"})
    log.flush(9)
    os._exit(0)
os.waitpid(child, 0)
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "log")], check=True, timeout=60)
    kinds = [record["kind"] for record in read_log(tmp_path / "log") if isinstance(record, dict)]
    assert kinds == ["parent", "child"]


def test_processes_forked_while_the_log_is_written_hold_no_lock(tmp_path: Path) -> None:
    log = DecisionLog(str(tmp_path / "log"), 10_000_000)
    ends, end = os.pipe()
    children = []
    for number in range(10):
        for _ in range(20):
            log.write(record(n=number, text="x" * 10_000))
        children.append(os.fork())
        if not children[-1]:
            os.close(end)
            os.read(ends, 1)
            os._exit(0)
    log.flush(10.0)
    acquired = _locked(tmp_path / "log.lock")
    os.close(end)
    os.close(ends)
    assert (acquired, [os.waitpid(child, 0)[1] for child in children]) == (False, [0] * 10)


def _locked(path: Path) -> bool:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(file, fcntl.LOCK_UN)
    return False


def test_processes_that_share_a_log_and_rotate_it_break_no_line(tmp_path: Path) -> None:
    _write_from_two_processes(tmp_path / "log", 40_000, 200)
    kept = read_entries(tmp_path / "log")
    for of in range(2):
        numbers = [entry["n"] for entry in kept if isinstance(entry, dict) and entry["of"] == of]
        assert numbers == list(range(200 - len(numbers), 200))
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert ("broken" in kept, max(sizes) <= 20_000, len(kept) > 100) == (False, True, True)


def test_processes_that_share_a_log_lose_nothing(tmp_path: Path) -> None:
    _write_from_two_processes(tmp_path / "log", 10_000_000, 300)
    wanted = [{"of": of, "n": n, "text": "x" * n} for of in range(2) for n in range(300)]
    assert sorted(read_entries(tmp_path / "log"), key=str) == sorted(wanted, key=str)


def test_many_records_at_once_stay_within_the_bytes_and_one_that_is_too_large_is_lost(tmp_path: Path) -> None:
    log = DecisionLog(str(tmp_path / "log"), 4000)
    for number in range(100):
        log.write(record(n=number, text="x" * 100))
    log.flush(5.0)
    for entry in (record(n=100, text="x" * 3000), record(n=101)):
        log.write(entry)
        log.flush(5.0)
    sizes = {path.name: path.stat().st_size <= 2000 for path in tmp_path.iterdir()}
    assert (log.dropped, sizes) == (1, {"log": True, "log.1": True, "log.lock": True})
    assert read_entries(tmp_path / "log")[-1:] == [{"n": 101}]


def test_a_line_that_a_crash_cut_off_takes_no_record_with_it(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"schema": "dat')
    log = DecisionLog(str(tmp_path / "log"), 4000)
    log.write(record(n=1))
    log.flush(2.0)
    assert read_entries(tmp_path / "log") == ["broken", {"n": 1}]


def test_the_log_is_not_readable_by_all(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        log = DecisionLog(str(tmp_path / "log"), 4000)
        log.write(record())
        log.flush(2.0)
    finally:
        os.umask(before)
    assert [oct(path.stat().st_mode & 0o777) for path in (tmp_path / "log", tmp_path / "log.lock")] == ["0o640"] * 2


@pytest.mark.slow
def test_a_process_that_ends_writes_its_last_records(tmp_path: Path) -> None:
    program = (
        "import sys; from datalog_gate.decision_point.log import DecisionLog, SCHEMA\n"
        "log = DecisionLog(sys.argv[1], 10_000_000)\n"
        "for n in range(500): log.write({'schema': SCHEMA, 'kind': 'n', 'n': n})\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "log")], check=True, timeout=60)
    assert read_entries(tmp_path / "log") == [{"n": n} for n in range(500)]


def test_what_is_no_json_is_lost_alone(tmp_path: Path) -> None:
    log = DecisionLog(str(tmp_path / "log"), 4000)
    for entry in (record(n=1), record(n={1, 2}), record(n=3)):
        log.write(entry)
    log.flush(2.0)
    log.write(json.loads(json.dumps(record(n=4))))
    log.flush(2.0)
    kept = [entry for entry in read_entries(tmp_path / "log") if entry != {"count": 1}]
    assert (log.dropped, kept) == (1, [{"n": 1}, {"n": 3}, {"n": 4}])
