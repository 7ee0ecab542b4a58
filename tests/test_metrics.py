"""What is counted, how processes add up, and the text for Prometheus."""

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
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE

import pytest
import yaml

from datalog_gate import __version__
from datalog_gate.decision_point import point as point_module
from datalog_gate.decision_point.config_options import build_settings
from datalog_gate.decision_point.metrics import METRICS, Numbers, Sample, format_metrics, measure_store
from datalog_gate.decision_point.metrics_port import MetricsPort
from datalog_gate.decision_point.point import DecisionPoint, count_failure
from datalog_gate.decision_point.roles import Entitlements
from datalog_gate.doors.wsgi import wrap
from datalog_gate.services.approval import Approval
from datalog_gate.services.conformance import asked
from datalog_gate.services.journal import Journal
from datalog_gate.services.journal_claim import OVER
from datalog_gate.store import counts
from datalog_gate.store.transaction import Store
from tests.commands import read_conf
from tests.fake_heat import Client, FakeHeat
from tests.installed import INSTALL
from tests.ledger import request
from tests.pages import DOCS
from tests.servers import free_ports
from tests.test_decision_point import ADMIN, FLAVOR, IMAGE, Clock, PointFactory, make_operation, template
from tests.test_decision_point import clock as clock
from tests.test_decision_point import make_point as make_point

PATIENCE = 30.0
SAMPLES = DOCS / "samples/prometheus"
TEXT = """\
# HELP datalog_gate_decisions_total Answers to operations; `failed` where the gate failed.
# TYPE datalog_gate_decisions_total counter
datalog_gate_decisions_total{outcome="allowed",door="api",action="create"} 2
datalog_gate_decisions_total{outcome="denied",door="api",action="create"} 1
# HELP datalog_gate_undecided_total Answers that are undecided, and failures of the gate.
# TYPE datalog_gate_undecided_total counter
datalog_gate_undecided_total 0
# HELP datalog_gate_decision_seconds Seconds until an answer, with those of services and plugins.
# TYPE datalog_gate_decision_seconds histogram
datalog_gate_decision_seconds_bucket{door="api",le="0.005"} 1
datalog_gate_decision_seconds_bucket{door="api",le="0.01"} 1
datalog_gate_decision_seconds_bucket{door="api",le="0.025"} 1
datalog_gate_decision_seconds_bucket{door="api",le="0.05"} 1
datalog_gate_decision_seconds_bucket{door="api",le="0.1"} 1
datalog_gate_decision_seconds_bucket{door="api",le="0.25"} 2
datalog_gate_decision_seconds_bucket{door="api",le="0.5"} 2
datalog_gate_decision_seconds_bucket{door="api",le="1.0"} 2
datalog_gate_decision_seconds_bucket{door="api",le="2.5"} 2
datalog_gate_decision_seconds_bucket{door="api",le="5.0"} 2
datalog_gate_decision_seconds_bucket{door="api",le="10.0"} 2
datalog_gate_decision_seconds_bucket{door="api",le="+Inf"} 3
datalog_gate_decision_seconds_sum{door="api"} 20.255
datalog_gate_decision_seconds_count{door="api"} 3
# HELP datalog_gate_policy_hits_total Answers with a finding of the policy, by what it did.
# TYPE datalog_gate_policy_hits_total counter
datalog_gate_policy_hits_total{policy="a \\"b\\" \\\\ \\n",result="warn"} 1
# HELP datalog_gate_lifted_total Refusals that went on, by the mode, the action or break-glass.
# TYPE datalog_gate_lifted_total counter
datalog_gate_lifted_total{by="action"} 0
datalog_gate_lifted_total{by="break_glass"} 0
datalog_gate_lifted_total{by="mode"} 0
# HELP datalog_gate_load_failures_total Changed files that did not load, when they changed and each minute since.
# TYPE datalog_gate_load_failures_total counter
datalog_gate_load_failures_total{source="options"} 0
datalog_gate_load_failures_total{source="policy_file"} 0
datalog_gate_load_failures_total{source="rules"} 0
# HELP datalog_gate_log_records_lost_total Records that the decision log has lost.
# TYPE datalog_gate_log_records_lost_total counter
datalog_gate_log_records_lost_total 0
# HELP datalog_gate_store_errors_total Transactions of the store that failed.
# TYPE datalog_gate_store_errors_total counter
datalog_gate_store_errors_total 0
# HELP datalog_gate_processes Processes, by the version of the gate and the digest of the rules in force.
# TYPE datalog_gate_processes gauge
datalog_gate_processes{version="1",rules="f00d"} 2
# HELP datalog_gate_inventory_timestamp_seconds When the inventory in force was written.
# TYPE datalog_gate_inventory_timestamp_seconds gauge
datalog_gate_inventory_timestamp_seconds 1803902400.5
"""


def two_processes() -> list[list[Sample]]:
    first, second = Numbers(), Numbers()
    for numbers, written in ((first, 1803902400.5), (second, 1.0)):
        numbers.count("datalog_gate_decisions_total", "allowed", "api", "create")
        numbers.set("datalog_gate_processes", 1.0, "1", "cafe")
        numbers.set("datalog_gate_processes", 1.0, "1", "f00d")
        numbers.set("datalog_gate_inventory_timestamp_seconds", written)
    first.count("datalog_gate_decisions_total", "denied", "api", "create")
    first.count("datalog_gate_policy_hits_total", 'a "b" \\ \n', "warn")
    first.observe("datalog_gate_decision_seconds", 0.005, "api")
    second.observe("datalog_gate_decision_seconds", 0.25, "api")
    second.observe("datalog_gate_decision_seconds", 20.0, "api")
    return [first.samples(), second.samples()]


def test_processes_add_up_in_the_text_of_prometheus() -> None:
    assert format_metrics(two_processes()) == TEXT


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_promtool_reads_the_text_of_all_metrics() -> None:
    samples: list[Sample] = [
        (name, tuple(metric.labels), [1.0] * (13 if metric.kind == "histogram" else 1))
        for name, metric in METRICS.items()
    ]
    text = format_metrics([samples])
    run = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr, text.count("# TYPE")) == (0, "", len(METRICS))


def counted(point: DecisionPoint) -> dict[str, float]:
    """The numbers of the point but for the histogram, without zeros, as in the text."""
    assert point._metrics
    point._measure()
    lines = [line.rsplit(" ", 1) for line in point._metrics.render().splitlines() if not line.startswith("#")]
    short = ((name.removeprefix("datalog_gate_"), float(value)) for name, value in lines)
    return {name: value for name, value in short if value and not name.startswith("decision_seconds_bucket")}


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """No point starts its thread."""
    monkeypatch.setattr(MetricsPort, "start", lambda _: None)


@pytest.mark.usefixtures("idle")
def test_answers_are_counted_by_outcome_door_and_action_and_findings_by_policy(
    make_point: PointFactory, tmp_path: Path, clock: Clock
) -> None:
    glass = tmp_path / "glass"
    point = make_point(metrics_folder=str(tmp_path / "metrics"), break_glass=str(glass))
    unknown = template({"get_param": "f"}, "old", parameters={"f": {"type": "string"}})
    operations = [
        make_operation(), make_operation(template("small", "old")), make_operation(unknown, dry_run=True),
        make_operation(template(5), door="cfn"), make_operation(template(resources=5)),
        make_operation(credentials=None), make_operation(credentials=None, action="delete", door="plugin"),
    ]  # fmt: skip
    for operation in operations:
        point.judge(operation)
    glass.write_text("2027-03-01T13:00 it must pass")
    point.judge(make_operation(credentials=ADMIN))
    point.count_failure("engine", "update")
    numbers = counted(point)
    rules = point._reloader.current().ruleset.rules.digest[:12]
    assert numbers == {
        'decisions_total{outcome="allowed",door="api",action="create"}': 3,
        'decisions_total{outcome="allowed",door="plugin",action="delete"}': 1,
        'decisions_total{outcome="allowed",door="cfn",action="create"}': 1,
        'decisions_total{outcome="denied",door="api",action="create"}': 1,
        'decisions_total{outcome="unreadable",door="api",action="create"}': 1,
        'decisions_total{outcome="undecided",door="api",action="create"}': 1,
        'decisions_total{outcome="failed",door="engine",action="update"}': 1,
        "undecided_total": 2, 'decision_seconds_count{door="api"}': 6, 'decision_seconds_count{door="cfn"}': 1,
        'decision_seconds_count{door="plugin"}': 1,
        'judgements_total{undetermined="no"}': 4, 'judgements_total{undetermined="yes"}': 1,
        'policy_hits_total{policy="flavor",result="deny"}': 2,
        'policy_hits_total{policy="flavor",result="undetermined"}': 1,
        'policy_hits_total{policy="image",result="warn"}': 2,
        'lifted_total{by="action"}': 1, 'lifted_total{by="break_glass"}': 1,
        f'processes{{version="{__version__}",rules="{rules}"}}': 1,
        "rules_loaded_timestamp_seconds": clock.now().timestamp(),
    }  # fmt: skip


@pytest.mark.usefixtures("idle")
def test_files_that_change_are_loaded_and_their_failures_counted_where_nobody_asks(
    make_point: PointFactory, tmp_path: Path, clock: Clock
) -> None:
    (tmp_path / "cloud.jsonl").write_text(
        '{"relation": "gate:inventory", "row": ["nova:hosts", "1970-01-01T00:00:04Z", null]}\n'
        '{"relation": "gate:inventory", "row": ["nova:flavors", null, "never"]}\n'
    )
    os.utime(tmp_path / "cloud.jsonl", (5, 5))
    point = make_point(
        metrics_folder=str(tmp_path / "metrics"), decision_log="/dev/full", inventory=f"{tmp_path}/cloud.jsonl"
    )
    (tmp_path / "rules/m.dl").write_text("p(")
    clock.time = 6.0
    point._measure()
    point.flush()
    first = counted(point)
    (tmp_path / "rules/m.dl").write_text(FLAVOR)
    clock.time = 12.0
    names = (
        'load_failures_total{source="rules"}', "log_records_lost_total", "rules_loaded_timestamp_seconds",
        "inventory_timestamp_seconds", 'inventory_table_timestamp_seconds{table="nova:hosts"}',
    )  # fmt: skip
    point._measure()
    point.flush()
    last = counted(point)
    start = clock.now().timestamp() - 12
    assert [first[name] for name in names] == [1, 2, start, 5, 4]
    assert [last[name] for name in names] == [1, 3, start + 12, 5, 4]
    assert [name for name in last if "table_timestamp" in name] == [names[-1]]


@pytest.mark.usefixtures("idle")
def test_failures_of_the_gate_are_counted_at_each_door(
    make_point: PointFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    point = make_point(metrics_folder=str(tmp_path / "metrics"))
    heat = FakeHeat()
    client = Client(wrap(heat, point=point), heat)
    monkeypatch.setattr(point_module, "_SHARED", [point])
    count_failure("engine", "update")
    monkeypatch.setattr(DecisionPoint, "_judge", fail)
    client.ask("POST", "/v1/p/stacks", {"stack_name": "s", "template": template("small")})
    monkeypatch.setattr("datalog_gate.doors.wsgi.heat_api.match_route", fail)
    client.ask("POST", "/v1/p/stacks", {"stack_name": "s", "template": template("small")})
    numbers = {name: value for name, value in counted(point).items() if "failed" in name or "undecided" in name}
    assert numbers == {
        'decisions_total{outcome="failed",door="engine",action="update"}': 1,
        'decisions_total{outcome="failed",door="api",action="create"}': 1,
        'decisions_total{outcome="failed",door="filter",action="request"}': 1,
        "undecided_total": 3,
    }  # fmt: skip
    monkeypatch.setattr(point_module, "_SHARED", [])
    count_failure("engine", "update")


def test_the_first_request_of_any_kind_starts_the_metrics(
    make_point: PointFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[MetricsPort] = []
    monkeypatch.setattr(MetricsPort, "start", lambda metrics: started.append(metrics))
    point = make_point(metrics_folder=str(tmp_path / "metrics"))
    heat = FakeHeat()
    Client(wrap(heat, point=point), heat).ask("GET", "/v1/p/stacks")
    assert started == [point._metrics]


def test_without_the_options_nothing_is_counted_and_no_thread_starts(make_point: PointFactory) -> None:
    point = make_point()
    point.judge(make_operation())
    point.start_metrics()
    point.count_failure("api", "create")
    assert point._metrics is None


@pytest.mark.usefixtures("idle")
def test_the_store_is_read_when_somebody_asks(
    make_point: PointFactory, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "failures", 0)
    store = tmp_path / "store"
    point = make_point(
        metrics_folder=str(tmp_path / "metrics"), services="edge", service_option=f"edge.file={tmp_path}/edge",
        service_journal=str(store),
    )  # fmt: skip
    journal, now = Journal(str(store)), clock.now().timestamp()
    for uuid, since in (("a", now - 50), ("b", now), ("c", now)):
        journal.begin(request(uuid, "edge"), "", None, since, 30.0)
    built = journal.begin(request("d", "edge"), "", None, now, 30.0)
    journal.move(built, "reserved", now)
    for leased in filter(None, [journal.lease("d", now, 30.0)]):
        journal.move(leased, "committed", now)
    for leased in filter(None, [journal.lease("d", now, 30.0)]):
        journal.postpone(leased, now, "1 server is elsewhere")
    journal.give_back("c", now, "over", "intent")
    with pytest.raises(Exception, match="awaiting"):
        Approval({"store": str(store)}, lambda: now).reserve(asked("approval", "u", "db", type="T"))
    held = {
        name: value
        for name, value in counted(point).items()
        if name.startswith(("claims", "misplaced", "store", "approv"))
    }
    service = request("a", "edge").service
    assert held == {
        "store_up": 1, 'approvals_waiting{mode="stop"}': 1,
        f'claims{{service="{service}",state="intent"}}': 2, f'claims{{service="{service}",state="releasing"}}': 1,
        f'claims_since_timestamp_seconds{{service="{service}",state="intent"}}': now - 50,
        f'claims_since_timestamp_seconds{{service="{service}",state="releasing"}}': now,
        f'claims{{service="{service}",state="committed"}}': 1, f'misplaced_claims{{service="{service}"}}': 1,
        f'claims_since_timestamp_seconds{{service="{service}",state="committed"}}': now,
    }  # fmt: skip
    assert counts.OVER == OVER
    store.write_text("no database" * 99)
    assert measure_store("mysql+nothing://host/base", now) == [("datalog_gate_store_up", (), [0.0])]
    assert measure_store(str(store), now) == [("datalog_gate_store_up", (), [0.0])]
    failed = {name for name in counted(point) if name.startswith(("claims", "store"))}
    assert failed == {"store_errors_total"}


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
port.start()
count()
port.numbers.set("datalog_gate_processes", 1.0, "1", "r")
{more}
print("READY", flush=True)
sys.stdin.read()
"""
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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


def wait(over: Callable[[], bool], describe: Callable[[], str] = str) -> None:
    end = time.monotonic() + PATIENCE
    while not over():
        assert time.monotonic() < end, describe()
        time.sleep(0.05)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    served = Served(tmp_path)
    yield served
    for process in served.processes:
        process.kill()
        process.communicate()
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


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
time.sleep(1.5)  # until it has the port
child = {fork}
if not child:
    with open("{served.folder}/child", "w") as file:
        file.write(str(os.getpid()))
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


def test_an_idle_client_keeps_nobody_waiting(served: Served) -> None:
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


def test_a_port_of_another_program_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with running_port(port, tmp_path) as metrics:
            wait(lambda: bool(problems(caplog)))
            metrics._run_once()
    assert problems(caplog) == [f"metrics: the port {port} is another program's, or of another metrics_folder"]


def test_a_folder_that_cannot_be_written_stops_no_decision_and_is_told_once(
    make_point: PointFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    point = make_point(metrics_folder=f"{tmp_path}/file/metrics")
    verdict = point.judge(make_operation()).verdict
    wait(lambda: bool(problems(caplog)))
    assert point._metrics
    point._metrics._run_once()
    point._metrics._reset()
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
    assert problems(caplog) == [f"metrics: {folder} is not a folder of ours alone: set metrics_folder"]
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


def test_the_page_lists_all_metrics() -> None:
    rows = re.findall(r"^\| `(\w+)(?:{(.*)})?` \| (.*) \|$", INSTALL.partition("| `datalog_gate_...` |")[2], re.M)
    listed = {f"datalog_gate_{name}": (labels, text) for name, labels, text in rows[: len(METRICS)]}
    assert listed == {name: (", ".join(metric.labels), metric.help) for name, metric in METRICS.items()}


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
    assert point._metrics
    point._metrics._reset()


def test_the_samples_show_all_metrics_and_have_a_case_for_each_alert() -> None:
    rules = yaml.safe_load((SAMPLES / "alerts.yaml").read_text())["groups"][0]["rules"]
    cases = yaml.safe_load((SAMPLES / "alerts_test.yaml").read_text())["tests"]
    board = json.loads((SAMPLES / "dashboard.json").read_text())
    fired = {test["alertname"] for case in cases for test in case["alert_rule_test"] if "exp_alerts" in test}
    assert fired == {rule["alert"] for rule in rules if "alert" in rule}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    shown, asked = (
        {name for text in texts for name in re.findall(r"\bdatalog_gate_[a-z_]+", text.replace("_bucket", ""))}
        for texts in (panel_queries(), [*panel_queries(), *(rule["expr"] for rule in rules)])
    )
    assert shown == asked == METRICS.keys()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_promtool_reads_the_samples_and_each_alert_fires_and_rests_as_its_case_says(tmp_path: Path) -> None:
    queries = [{"record": "panel", "expr": query.replace("$__rate_interval", "5m")} for query in panel_queries()]
    groups = [{"name": str(at), "rules": [query]} for at, query in enumerate(queries)]
    (tmp_path / "panels.yaml").write_text(json.dumps({"groups": groups}))
    for command, file in (("check", tmp_path / "panels.yaml"), ("test", SAMPLES / "alerts_test.yaml")):
        run = subprocess.run(["promtool", command, "rules", file], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout + run.stderr


def panel_queries() -> list[str]:
    """The queries of the dashboard."""
    board = json.loads((SAMPLES / "dashboard.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]
