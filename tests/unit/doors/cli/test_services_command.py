"""The command `services`."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from datalog_gate.doors.cli.commands.services import REFUSED, SCHEMA, format_claims, settle_claims
from datalog_gate.doors.cli.main import main
from datalog_gate.doors.cli.option_parser import parse_options
from datalog_gate.services.approval import format_time
from datalog_gate.services.conformance import asked
from datalog_gate.services.journal import Journal
from datalog_gate.services.journal_claim import Claim
from datalog_gate.services.reconcile import ReconcileResult
from tests.commands import run
from tests.scripted_cloud import Cloud, with_keystone

NOW = 1_800_000_000.0
CONF = """\
[DEFAULT]
host = aio
[datalog_gate]
services = edge, night
service_option = edge.file={folder}/edge
service_option = night.file={folder}/night
store = {folder}/journal
"""
INTERVALS = {"60": 60.0, "1.5": 1.5, "60s": 60.0, "5m": 300.0, "1h": 3600.0}
STACK = "GET /v1/p/stacks/1b1b?resolve_outputs=False"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "heat.conf"
    path.write_text(CONF.format(folder=tmp_path))
    return path


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A cloud, and a member's credentials for it."""
    with with_keystone(monkeypatch) as server:
        yield server


def interrupt(conf: Path, *uuids: str) -> Journal:
    """A journal with interrupted claims from half a day ago."""
    journal = Journal(str(conf.parent / "journal"))
    for uuid in uuids:
        journal.begin(asked("edge", uuid, "vm", type="T"), "", None, time.time() - 43200, 1.0)
    return journal


def reserve(conf: Path) -> None:
    """Make a journal with a claim `u` that is reserved."""
    journal = interrupt(conf, "u")
    leased = journal.lease("u", time.time(), 9.0)
    assert leased is not None
    journal.move(leased, "reserved", time.time())


CLAIM = Claim(
    uuid="u",
    key="k",
    service="edge",
    project="p",
    stack="1b1b",
    stack_name="s",
    path="s/grant",
    replaces="",
    state="reserved",
    since=NOW,
    decision={},
)
ALARM = "not released for 3600 seconds: nobody there"
UNSETTLED = "interrupted 3600 seconds ago, and not settled since: is `services reconcile` running?"
RELEASING = replace(CLAIM, state="releasing", problem="nobody there")


@pytest.mark.parametrize(
    ("claim", "after", "state", "end", "more", "alarms"),
    [
        (CLAIM, 119, "reserved for 119 s", "", [], 0),
        (replace(CLAIM, state="committed", abandoned=True), 7200, "committed for 2 h", ", abandoned", [], 0),
        (replace(CLAIM, problem="nobody\x1b[31m"), 172800, "reserved for 2 d", "", ["last  nobody\ufffd[31m"], 0),
        (RELEASING, 3599, "releasing for 59 min", "", ["last  nobody there"], 0),
        (RELEASING, 3600, "releasing for 60 min", "", [f"alarm {ALARM}"], 1),
        (replace(CLAIM, state="intent"), 3600, "intent for 60 min", "", [f"alarm {UNSETTLED}"], 1),
    ],
)
def test_a_claim_is_shown_with_its_age_and_problem(
    claim: Claim, after: float, state: str, end: str, more: list[str], alarms: int
) -> None:
    assert list(format_claims((claim,), NOW + after)) == [
        f"{state}: edge s/grant of project p, stack 1b1b{end}",
        *(f"  {line}" for line in more),
        f"1 claim, {alarms} to look at",
    ]


def test_status_exits_with_1_if_a_person_has_to_look(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    interrupt(conf)
    assert run(capsys, "services", "status", "--heat-conf", conf) == (0, "0 claims, 0 to look at\n", "")
    interrupt(conf, "u")
    code, out, _ = run(capsys, "services", "status", "--heat-conf", conf)
    assert (code, out.splitlines()[-1]) == (1, "1 claim, 1 to look at")


def test_before_the_first_grant_there_are_no_claims(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "services", "status", "--heat-conf", conf) == (0, "0 claims, 0 to look at\n", "")
    assert not (conf.parent / "journal").exists()


def test_reconcile_settles_a_claim_once(conf: Path, cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    journal = interrupt(conf, "u")
    broken = "it was interrupted while its service was being asked"
    assert run(capsys, "services", "reconcile", "--heat-conf", conf) == (
        0,
        f"releasing: u of stack 1b1b: {broken}\n",
        "",
    )
    assert [(claim.uuid, claim.state) for claim in journal.claims()] == [("u", "releasing")]
    assert run(capsys, "services", "reconcile", "--heat-conf", conf) == (0, "", "")
    assert [request for request, _ in cloud.requests if "/stacks" in request] == []


def test_reconcile_exits_with_1_for_a_stack_that_is_stuck(
    conf: Path, cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    reserve(conf)
    stack = {"stack_name": "s", "id": "1b1b", "stack_status": "UPDATE_IN_PROGRESS", "creation_time": format_time(NOW)}
    cloud.give(STACK, {"stack": stack})
    cloud.give("GET /v1/p/stacks/s/1b1b/events?sort_dir=desc&limit=1", {"events": [{"event_time": format_time(0.0)}]})
    code, out, _ = run(capsys, "services", "reconcile", "--heat-conf", conf, "--format", "json")
    record = json.loads(out)
    assert record.pop("why").endswith("if no engine works on it: heat-manage reset_stack_status 1b1b")
    assert (code, record) == (1, {"schema": SCHEMA, "uuid": "u", "stack": "1b1b", "done": "stuck"})


@pytest.mark.usefixtures("cloud")
def test_reconcile_continues_if_the_journal_can_not_be_read(conf: Path) -> None:
    interrupt(conf, "u")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        (conf.parent / "journal").write_text("no database" * 99)

    runs = settle_claims(conf, 5.0, sleep)
    first, second, third = next(runs), next(runs), next(runs)
    broken = ReconcileResult("", "", "failed", "journal: file is not a database")
    assert [settled.done for settled in first] == ["releasing"]
    assert (second, third, slept) == ([broken], [broken], [5.0, 5.0])


@pytest.mark.slow
@pytest.mark.usefixtures("cloud")
def test_one_host_reconciles_and_the_others_wait(conf: Path) -> None:
    interrupt(conf, "u")
    now = time.time()
    runs = [settle_claims(conf, 60.0, lambda _: None, lambda: now) for _ in range(3)]
    results = [next(run) for run in (*runs, runs[1], runs[0])]
    why = f"host {socket.gethostname()}, process {os.getpid()} does this now, and this host waits"
    waiting = [ReconcileResult("", "", "waiting", why)]
    assert [settled.done for settled in results[0]] == ["releasing"]
    assert results[1:] == [waiting, waiting, [], []]
    now += 120
    assert [next(runs[1]), next(runs[0])] == [[], waiting]


def test_reconcile_needs_more_rights_than_a_member_has(
    conf: Path, cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    reserve(conf)
    cloud.give(STACK, {}, 403)
    code, out, _ = run(capsys, "services", "reconcile", "--heat-conf", conf)
    assert (code, out) == (1, f"failed: {REFUSED}\n")


def test_enabled_services_are_listed(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "services", "list", "--heat-conf", conf) == (0, "edge\nnight\n", "")


def test_an_interval_is_given_in_seconds_minutes_or_hours() -> None:
    intervals = [
        parse_options(["services", "reconcile", "--every", text, "--heat-conf", "x"]).every for text in INTERVALS
    ]
    assert intervals == list(INTERVALS.values())


NO_JOURNAL = "services need the option store, where their claims are kept"


@pytest.mark.parametrize(
    ("part", "options", "message"),
    [
        ("status", [], ": store is not set"),
        ("status", ["store = DIR/heat.conf"], ": heat.conf: file is not a database"),
        ("status", ["["], " can't be read: ..."),
        ("reconcile", [], ": no services are enabled"),
        ("reconcile", ["services = edge"], f": {NO_JOURNAL}"),
        ("reconcile", ["services = none", "store = DIR/journal"],
         ": the plugins of datalog_gate.services can't be loaded: none is not installed"),
        ("reconcile", ["service_option = edge"], ": service_option edge is not NAME.KEY=VALUE"),
    ],
)  # fmt: skip
def test_an_unusable_configuration_exits_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str, options: list[str], message: str
) -> None:
    conf = tmp_path / "heat.conf"
    conf.write_text("\n".join(["[datalog_gate]", *options, ""]).replace("DIR", str(tmp_path)))
    code, out, err = run(capsys, "services", part, "--heat-conf", conf)
    error = err.replace(str(tmp_path), "DIR").rstrip("\n")
    start = f"error[unreadable] DIR/heat.conf{message.removesuffix('...')}"
    assert (code, out, error[: len(start)] if message.endswith("...") else error) == (3, "", start)


@pytest.mark.parametrize(
    "arguments",
    ["services", "services gone", "services status", "services reconcile --every 0 --heat-conf x",
     "services reconcile --every 0s --heat-conf x", "services reconcile", "store",
     "store check", "store import --heat-conf x"],
)  # fmt: skip
def test_wrong_arguments_exit_with_64(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(arguments.split())
    assert (error.value.code, capsys.readouterr().out) == (64, "")
