"""What is counted, and the text for Prometheus."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from datalog_gate import __version__
from datalog_gate.decision_point import point as point_module
from datalog_gate.decision_point.metrics import METRICS, Numbers, Sample, format_metrics, measure_store
from datalog_gate.decision_point.metrics_port import MetricsPort
from datalog_gate.decision_point.point import DecisionPoint, count_failure
from datalog_gate.doors.wsgi import wrap
from datalog_gate.services.approval import Approval
from datalog_gate.services.conformance import asked
from datalog_gate.services.journal import Journal
from datalog_gate.store.transaction import Store
from tests.fake_heat import Client, FakeHeat
from tests.installed import INSTALL
from tests.ledger import request
from tests.pages import DOCS
from tests.unit.decision_point.test_decision_point import ADMIN, FLAVOR, Clock, PointFactory, make_operation, template
from tests.unit.decision_point.test_decision_point import clock as clock
from tests.unit.decision_point.test_decision_point import make_point as make_point

SAMPLES = DOCS / "samples/prometheus"
TEXT = """\
# HELP datalog_gate_decisions_total Answers to operations; `failed` where the gate failed.
# TYPE datalog_gate_decisions_total counter
datalog_gate_decisions_total{outcome="allowed",door="api",action="create"} 2
datalog_gate_decisions_total{outcome="denied",door="api",action="create"} 1
# HELP datalog_gate_undecided_total Answers that are undecided, and failures of the gate.
# TYPE datalog_gate_undecided_total counter
datalog_gate_undecided_total 0
# HELP datalog_gate_decision_seconds Seconds until an answer, with those of services.
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
# HELP datalog_gate_policy_hits_total Answers with a finding of the policy, by its result.
# TYPE datalog_gate_policy_hits_total counter
datalog_gate_policy_hits_total{policy="a \\"b\\" \\\\ \\n",result="warn"} 1
# HELP datalog_gate_lifted_total Refused operations that passed nevertheless, by the mode, the action or break-glass.
# TYPE datalog_gate_lifted_total counter
datalog_gate_lifted_total{by="action"} 0
datalog_gate_lifted_total{by="break_glass"} 0
datalog_gate_lifted_total{by="mode"} 0
# HELP datalog_gate_load_failures_total Failed loads of changed files, at the change and every minute after it.
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
    point._measure()
    lines = [line.rsplit(" ", 1) for line in point.metrics.render().splitlines() if not line.startswith("#")]
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
    rules = point.reloader.current().ruleset.rules.digest[:12]
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
def test_changed_files_are_loaded_without_a_request(make_point: PointFactory, tmp_path: Path, clock: Clock) -> None:
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
    assert started == [point.metrics]


def test_without_the_options_no_thread_starts(make_point: PointFactory) -> None:
    point = make_point()
    point.judge(make_operation())
    assert point.metrics._process == 0


@pytest.mark.usefixtures("idle")
def test_the_store_is_read_on_request(
    make_point: PointFactory, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "failures", 0)
    store = tmp_path / "store"
    point = make_point(
        metrics_folder=str(tmp_path / "metrics"), services="edge", service_option=f"edge.file={tmp_path}/edge",
        store=str(store),
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
    store.write_text("no database" * 99)
    assert measure_store("mysql+nothing://host/base", now) == [("datalog_gate_store_up", (), [0.0])]
    assert measure_store(str(store), now) == [("datalog_gate_store_up", (), [0.0])]
    failed = {name for name in counted(point) if name.startswith(("claims", "store"))}
    assert failed == {"store_errors_total"}


def test_the_page_lists_all_metrics() -> None:
    rows = re.findall(r"^\| `(\w+)(?:{(.*)})?` \| (.*) \|$", INSTALL.partition("| `datalog_gate_...` |")[2], re.M)
    listed = {f"datalog_gate_{name}": (labels, text) for name, labels, text in rows[: len(METRICS)]}
    assert listed == {name: (", ".join(metric.labels), metric.help) for name, metric in METRICS.items()}


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
