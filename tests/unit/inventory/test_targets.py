"""A pull is kept in a file or the store."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.inventory_source import load_inventory
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.commands.cloud_inventory import pull_repeatedly
from datalog_gate.doors.cli.turns import Turns
from datalog_gate.inventory.pull import PullResult
from datalog_gate.inventory.snapshot import Snapshot, Table
from datalog_gate.inventory.targets import FileTarget, StoreTarget
from datalog_gate.store.generations import find_newest, write_generation
from datalog_gate.store.leases import Lease
from datalog_gate.store.transaction import Store
from tests.commands import run
from tests.inventory_cloud import with_services
from tests.scripted_cloud import Cloud

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
TAGS = Table("nova:tags", ({"server_id": "s-17", "tag": "front"},), NOON)
HOSTS = Table("nova:hosts", (), NOON, "Nova answers 503")
SNAPSHOT = Snapshot({"nova:hosts": HOSTS, "nova:tags": TAGS}, {"m:offered": ({"flavor": "small"}, ["large"])})
PULL = ("inventory", "pull", "--tables", "nova:flavors")
FLAVORS = '@deny("f", "{s}")\nf(s) :- nova:flavors(id=f, name=n), os:nova:server(_id=s, flavor=n), f = "f-0".\n'


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    with with_services(monkeypatch) as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "store"), InputError.of)


def test_what_was_written_is_read_again(tmp_path: Path, store: Store) -> None:
    for target in (FileTarget(tmp_path / "cloud.jsonl"), StoreTarget(store)):
        assert target.read() == Snapshot()
        target.write(SNAPSHOT)
    assert [FileTarget(tmp_path / "cloud.jsonl").read(), StoreTarget(store).read()] == [SNAPSHOT] * 2


def test_what_another_host_wrote_is_on_top_of_what_this_one_did(store: Store) -> None:
    mine, other = StoreTarget(store, lambda: 1.0), StoreTarget(store, lambda: 2.0)
    mine.write(SNAPSHOT)
    assert mine.read() is SNAPSHOT
    other.write(Snapshot({"nova:tags": TAGS}))
    assert (mine.read(), find_newest(store).at) == (Snapshot({"nova:tags": TAGS}), 2.0)  # type: ignore[union-attr]


@pytest.mark.usefixtures("cloud")
def test_a_pull_into_the_store_is_what_doors_judge_by(
    tmp_path: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    import datalog_gate as dg

    url = f"sqlite:///{tmp_path}/store"
    (tmp_path / "heat.conf").write_text(f"[datalog_gate]\nstore = {url}\n")
    assert run(capsys, *PULL, "--store", url) == (0, "", "")
    first = find_newest(store)
    assert run(capsys, *PULL, "--heat-conf", tmp_path / "heat.conf") == (0, "", "")
    (tmp_path / "m.dl").write_text(FLAVORS)
    settings = Settings(inventory="store", store=url)
    loaded = load_inventory(settings, dg.load_rules(tmp_path / "m.dl"), None)
    newest = find_newest(store)
    assert first
    assert newest
    assert newest.number > first.number
    assert (len(loaded.inventory.rows["nova:flavors"]), newest.sizes) == (
        newest.sizes["nova:flavors"], {"gate:inventory": 1, "nova:flavors": newest.sizes["nova:flavors"]}
    )  # fmt: skip
    assert [*loaded.inventory.readings] == ["nova:flavors"]


def results(*outcomes: PullResult | Exception) -> Any:
    """A pull with these outcomes, one after the other."""
    iterator = iter(outcomes)

    def pull_once() -> PullResult:
        outcome = next(iterator)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return pull_once


def test_a_pull_that_fails_is_a_line_and_the_next_one_comes() -> None:
    times, slept = iter([0.0, 11.54, 20.0, 30.0, 40.0, 41.0]), list[float]()
    whole = PullResult(Snapshot({"nova:tags": TAGS}), {}, {})
    part = PullResult(SNAPSHOT, {"nova:hosts": "Nova answers 503"}, {})
    outcomes = results(whole, InputError.of("the cloud can't be reached"), OSError(28, "No space left"), part)
    lines = pull_repeatedly(outcomes, None, 300.0, slept.append, lambda: next(times))
    assert [next(lines) for _ in range(4)] == [
        "pulled 1 tables with 1 rows in 11.5 s",
        "failed: the cloud can't be reached",
        "failed: [Errno 28] No space left",
        "pulled 2 tables with 1 rows in 1.0 s; nova:hosts: Nova answers 503",
    ]
    assert slept == [300.0] * 3


def test_of_several_hosts_one_pulls_and_another_goes_on_in_its_place(store: Store) -> None:
    now = 0.0
    other = Lease(store, "inventory", 120.0, "host2 17", lambda: now)
    other.take()
    slept = list[float]()

    def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    turns = Turns(store, "inventory", 50.0, lambda: now)
    result = PullResult(Snapshot(), {}, {})
    lines = pull_repeatedly(results(result, result), turns, 50.0, sleep, lambda: 0.0)
    pulled = "pulled 0 tables with 0 rows in 0.0 s"
    waiting = "waiting: host host2, process 17 does this now, and this host waits"
    assert [next(lines) for _ in range(2)] == [waiting, pulled]
    assert (now, other.take()) == (150.0, other.take())
    assert other.take().startswith(f"{socket.gethostname()} {os.getpid()} ")
    turns.end()
    assert other.take() == ""


@pytest.mark.usefixtures("cloud")
@pytest.mark.slow
def test_a_service_that_is_ended_lets_another_host_go_on(store: Store) -> None:
    command = [sys.executable, "-m", "datalog_gate.doors.cli.main", *PULL, "--every", "1h", "--store", store.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        line = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert (process.wait(60), process.stdout.read()) == (0, "")
    assert re.fullmatch(r"pulled 1 tables with \d+ rows in \d+\.\d s\n", line)
    assert Lease(store, "inventory", 1.0).take() == ""
    assert find_newest(store)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--every 5m", (64, "datalog-gate: --every needs --output, --store or --heat-conf\n")),
        ("--store oracle://h/d",
         (3, "error[unreadable] oracle is not a database for a store: sqlite, postgresql, mysql or mariadb is\n")),
        ("--heat-conf DIR/heat.conf",
         (3, "error[unreadable] DIR/heat.conf: store is not set\n")),
    ],
)  # fmt: skip
def test_a_pull_that_has_nowhere_to_go_does_not_begin(
    cloud: Cloud, tmp_path: Path, arguments: str, expected: tuple[int, str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "heat.conf").write_text("[datalog_gate]\n")
    code, out, err = run(capsys, *PULL, *arguments.replace("DIR", str(tmp_path)).split())
    assert (code, err.replace(str(tmp_path), "DIR"), out, cloud.requests) == (*expected, "", [])


def test_a_table_that_is_too_large_leaves_the_generation_before(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_generation(store, {}, 1.0)
    monkeypatch.setattr("datalog_gate.store.generations.MOST_BYTES", 1)
    lines = pull_repeatedly(results_into(StoreTarget(store)), None, 1.0, lambda _: None, lambda: 0.0)
    assert re.fullmatch(r"failed: the inventory's table gate:inventory takes \d+ bytes, .*", next(lines))
    assert find_newest(store) == first


def results_into(target: StoreTarget) -> Any:
    def pull_once() -> PullResult:
        target.write(SNAPSHOT)
        return PullResult(SNAPSHOT, {}, {})

    return pull_once
