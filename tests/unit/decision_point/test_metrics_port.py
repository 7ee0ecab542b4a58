"""The port that adds up the metrics of processes."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE

import pytest

from datalog_gate.decision_point.config_options import build_settings
from datalog_gate.decision_point.metrics import Numbers, format_metrics
from datalog_gate.decision_point.metrics_port import MetricsPort
from datalog_gate.decision_point.point import DecisionPoint
from datalog_gate.decision_point.roles import Entitlements
from tests.commands import read_conf
from tests.installed import INSTALL
from tests.servers import free_ports
from tests.unit.decision_point.test_decision_point import FLAVOR, IMAGE, PointFactory, make_operation, template
from tests.unit.decision_point.test_decision_point import clock as clock
from tests.unit.decision_point.test_decision_point import make_point as make_point
from tests.waiting import wait


class Served:
    """Processes that share a folder and a port."""

    def __init__(self, folder: Path) -> None:
        self.folder, [self.port] = folder, free_ports(1)
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, more: str = "", folder: str = "metrics") -> subprocess.Popen[str]:
        """Start a process that counts one allowed creation, and runs `more`."""
        program = f"""
import ctypes, os, sys, time
os.umask(0o077)
from datalog_gate.decision_point.metrics_port import MetricsPort
port = MetricsPort("127.0.0.1", {self.port}, {folder and str(self.folder / folder)!r}, lambda: None, lambda: [])
def count(action="create"):
    port.numbers.count("datalog_gate_decisions_total", "allowed", "api", action)
count()
port.numbers.set("datalog_gate_processes", 1.0, "1", "r")
port.start()
{more}
print("READY", flush=True)
sys.stdin.read()
"""
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "READY\n"
        return process

    def read(self) -> dict[str, float]:
        """The decisions by action and the number of processes; empty if nobody serves them."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return {}
        wanted = {
            'datalog_gate_decisions_total{outcome="allowed",door="api",action="create"}': "create",
            'datalog_gate_decisions_total{outcome="allowed",door="api",action="update"}': "update",
            'datalog_gate_processes{version="1",rules="r"}': "processes",
        }
        pairs = (line.rsplit(" ", 1) for line in text.splitlines())
        return {wanted[name]: float(value) for name, value in pairs if name in wanted}

    def files(self) -> list[tuple[str, int]]:
        """The processes' files with their modes; a file that is renamed meanwhile is not among them."""
        files = []
        for path in sorted((self.folder / "metrics").glob("?.*")):
            with suppress(FileNotFoundError):
                files.append((path.name, S_IMODE(path.stat().st_mode)))
        return files

    def awaits(self, **expected: float) -> None:
        """Wait until these are the numbers."""
        wait(lambda: self.read() == expected, lambda: str(self.read()))


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    served = Served(tmp_path)
    yield served
    for process in served.processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a child would keep the output open
        process.communicate()


@pytest.mark.slow
def test_the_next_process_takes_the_port_of_one_that_was_killed_and_a_new_one_its_numbers(served: Served) -> None:
    first = served.start()
    served.awaits(create=1, processes=1)
    served.start()
    served.awaits(create=2, processes=2)
    first.kill()
    first.communicate()
    served.awaits(create=2, processes=1)
    served.start()
    served.awaits(create=3, processes=2)
    expected = [(name, 0o644) for name in ("0.json", "0.lock", "1.json", "1.lock")]
    wait(lambda: served.files() == expected, lambda: str(served.files()))


def test_without_a_folder_the_processes_of_a_user_add_up_too(served: Served) -> None:
    served.start(folder="")
    served.start(folder="")
    served.awaits(create=2, processes=2)


@pytest.mark.parametrize(
    "fork",
    [
        pytest.param("os.fork()", id="Python"),
        pytest.param("ctypes.PyDLL(None).fork()", id="uWSGI", marks=pytest.mark.slow),
    ],
)
def test_a_forked_process_has_numbers_of_its_own_and_outlives_the_one_that_had_the_port(
    served: Served, fork: str
) -> None:
    forked = f"""
while not port._listener:
    time.sleep(0.01)
child = {fork}
if not child:
    port.start()
    count("update")
    port.numbers.set("datalog_gate_processes", 1.0, "1", "r")
    os.close(1)
    time.sleep(60)
    os._exit(0)
"""
    parent = served.start(forked)
    served.awaits(create=1, update=1, processes=2)
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    served.awaits(create=1, update=1, processes=1)


def test_a_process_that_is_forked_in_the_middle_of_a_step_without_hooks_has_its_own_steps(served: Served) -> None:
    served.start("""
from threading import Event
inside, go = Event(), Event()
other = MetricsPort("127.0.0.1", 0, port._folder, lambda: inside.set() or go.wait(), list)
other.start()
inside.wait()
inside.clear()
os.getpid = lambda: 1  # all that Python has of a fork without its hooks, which may also break its threads
other.start()
assert inside.wait(9)
go.set()
""")


@pytest.mark.slow
def test_no_process_is_forked_in_the_middle_of_a_step(served: Served) -> None:
    served.start("""
from threading import Event, Lock
lock, inside = Lock(), Event()
def measure():
    with lock:
        inside.set()
        time.sleep(0.3)
slow = MetricsPort("127.0.0.1", 0, sys.argv[0] + "slow", measure, list)
slow._folder = port._folder
slow.start()
codes = []
for _ in range(3):
    inside.wait()
    inside.clear()
    child = os.fork()
    if not child:
        os._exit(0 if lock.acquire(blocking=False) else 1)
    codes.append(os.waitpid(child, 0)[1])
assert codes == [0, 0, 0], codes
""")


@pytest.mark.slow
def test_a_folder_that_is_emptied_is_filled_again(served: Served) -> None:
    served.start()
    served.start()
    served.awaits(create=2, processes=2)
    (served.folder / "metrics").rename(served.folder / "gone")
    served.awaits(create=2, processes=2)


def test_an_idle_client_delays_no_other(served: Served) -> None:
    served.start()
    served.awaits(create=1, processes=1)
    with socket.create_connection(("127.0.0.1", served.port)):
        assert served.read() == {"create": 1, "processes": 1}


@contextmanager
def running_port(port: int, folder: Path) -> Iterator[MetricsPort]:
    """A port of this process, until the end."""
    metrics = MetricsPort("127.0.0.1", port, str(folder), lambda: None, list)
    metrics.start()
    yield metrics
    metrics._reset()


def problems(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


@pytest.mark.slow
def test_a_process_ends_without_a_traceback_when_its_folder_is_gone(
    served: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    process = served.start(f"""
import shutil
while not os.path.exists("{served.folder}/metrics/0.json"):
    time.sleep(0.01)
port._turn.acquire()
shutil.rmtree("{served.folder}/metrics")
""")
    process.communicate()
    error = f"[Errno 2] No such file or directory: '{served.folder}/metrics/0.new'"
    assert (process.returncode, capfd.readouterr().err) == (0, f"metrics: {error}\n")


def test_a_port_of_another_program_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running_port(port, tmp_path) as metrics:
            wait(lambda: bool(problems(caplog)))
            metrics._run_once()
    assert problems(caplog) == [f"metrics: the port {port} is used by another program, or for another metrics_folder"]


def test_a_folder_that_can_not_be_written_is_logged_once_and_stops_no_decision(
    make_point: PointFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    point = make_point(metrics_folder=f"{tmp_path}/file/metrics")
    verdict = point.judge(make_operation()).verdict
    wait(lambda: bool(problems(caplog)))
    point.metrics._run_once()
    point.metrics._reset()
    assert (verdict, problems(caplog)) == (
        "denied", [f"metrics: [Errno 20] Not a directory: '{tmp_path}/file/metrics'"],
    )  # fmt: skip


def test_a_folder_that_another_user_could_write_is_not_taken_for_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"datalog-gate-metrics-{os.geteuid()}-7"
    folder.mkdir()
    folder.chmod(0o777)
    MetricsPort("127.0.0.1", 7, "", lambda: None, list)._run_once()
    assert problems(caplog) == [f"metrics: {folder} is not a folder that only this user can use: set metrics_folder"]
    assert list(folder.iterdir()) == []


def test_what_another_version_wrote_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "0.lock").touch()
    (tmp_path / "1.lock").touch()
    (tmp_path / "1.json").write_text("half a li")
    old = [["gone", [], [1.0]], ["datalog_gate_decision_seconds", ["api"], [1.0, 2.0]],
           ["datalog_gate_decisions_total", ["allowed"], [1.0]], ["datalog_gate_lifted_total", ["mode"], [2.0]],
           ["datalog_gate_store_up", [], [1.0]]]  # fmt: skip
    (tmp_path / "0.json").write_text(json.dumps(old))
    port = MetricsPort("127.0.0.1", 0, str(tmp_path), lambda: None, list)
    assert port.render() == format_metrics([Numbers().samples(), [("datalog_gate_lifted_total", ("mode",), [2.0])]])


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_the_commands_of_the_page_show_the_numbers(tmp_path: Path) -> None:
    [port] = free_ports(1)
    page = INSTALL.replace("9401", str(port)).replace("/run/heat/metrics", f"{tmp_path}/metrics")
    [section] = [block for block in re.findall(r"```ini\n(.*?)```", page, re.S) if "metrics_port" in block]
    [(command, shown)] = re.findall(r"^    (curl [^\n]*)\n\n```\n(.*?)```", page, re.M | re.S)
    (tmp_path / "rules.dl").write_text(FLAVOR + IMAGE)
    (tmp_path / "heat.conf").write_text(f"{section}rules = {tmp_path}/rules.dl\n")
    conf = read_conf(tmp_path / "heat.conf")
    point = DecisionPoint(build_settings(conf), Entitlements(conf, ()))
    for _ in range(2):
        point.judge(make_operation(template("small")))

    def run() -> str:
        return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False).stdout

    wait(lambda: run() == shown, run)
    point.metrics._reset()
