"""A changed inventory is loaded beside the requests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from datalog_gate.base.errors import DiagnosticsError, InputError
from datalog_gate.decision_point import inventory_source, policy_reload
from datalog_gate.decision_point.inventory_source import LoadedInventory, load_inventory
from datalog_gate.decision_point.policy_reload import InForce, PolicyReloader
from datalog_gate.decision_point.settings import Settings
from datalog_gate.store.generations import write_generation
from datalog_gate.store.transaction import Store, lock_all
from tests.unit.decision_point.test_decision_point import NOW, Clock, PointFactory, make_operation
from tests.unit.decision_point.test_decision_point import clock as clock
from tests.unit.decision_point.test_decision_point import make_point as make_point

RULES = '@deny("f", "{s} runs there")\nf(s) :- nova:servers(id=s), heat:stack(id=_).\n'


class Host:
    """A process that judges by rules and an inventory."""

    def __init__(self, folder: Path, inventory: str, waivers: str = "") -> None:
        self.folder, self.clock = folder, Clock()
        self.failures: list[str] = []
        self.changes: list[InForce | None] = []
        (folder / "m.dl").write_text(RULES)
        self.reloader = PolicyReloader(
            Settings(rules=(str(folder / "m.dl"),), inventory=inventory, store=str(folder / "store"), waivers=waivers),
            self.clock,
            lambda before, _after: self.changes.append(before),
            self._note,
        )

    def _note(self, source: str, error: DiagnosticsError) -> None:
        self.failures.append(f"{source}: {error.diagnostics[0].message.replace(str(self.folder), 'DIR')}")

    def servers(self, later: float = 0.0, wait: bool = True) -> list[str]:
        """The servers in force for a request after so many seconds, and if it is to wait for one after that."""
        self.clock.time += later
        ruleset = self.reloader.current().ruleset
        if wait and later:
            self.reloader.wait(60)
            ruleset = self.reloader.current().ruleset
        return sorted(str(row[0]) for row in ruleset.inventory.rows["nova:servers"])


def line(server: str) -> str:
    return json.dumps({"relation": "nova:servers", "row": {"id": server}})


def pull(folder: Path, *servers: str) -> None:
    """Write a generation with these servers."""
    tables = {"nova:servers": [line(server) for server in servers], "nova:hosts": []}
    write_generation(Store(str(folder / "store")), tables, NOW.timestamp())


class Gate:
    """Keeps threads from loading an inventory until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch, self._open = monkeypatch, Event()
        self.reached = Event()

    def close(self) -> None:
        self._patch.setattr(policy_reload, "load_inventory", self._load)

    def open(self) -> None:
        self._open.set()

    def _load(self, *arguments: Any) -> LoadedInventory:
        self.reached.set()
        assert self._open.wait(60)
        return load_inventory(*arguments)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    closed = Gate(monkeypatch)
    yield closed
    closed.open()


@pytest.mark.parametrize("source", ["file", "store"])
def test_requests_go_on_with_the_inventory_before_while_one_is_loaded(tmp_path: Path, gate: Gate, source: str) -> None:
    file = tmp_path / "cloud.jsonl"

    def write(server: str) -> None:
        file.write_text(line(server))
        pull(tmp_path, server)

    write("a")
    host = Host(tmp_path, "store" if source == "store" else str(file))
    gate.close()
    write("b")
    before = [host.servers(later, wait=False) for later in (4.9, 0.1, 6.0)]
    gate.open()
    host.reloader.wait(60)
    assert (before, host.servers()) == ([["a"]] * 3, ["b"])
    assert (host.failures, len(host.changes)) == ([], 2)


def test_rules_that_change_meanwhile_keep_their_own_inventory(tmp_path: Path, gate: Gate) -> None:
    pull(tmp_path, "a")
    host = Host(tmp_path, "store")
    gate.close()
    pull(tmp_path, "b")
    first = host.servers(6.0, wait=False)
    loading = host.reloader._loading
    gate.open()
    (tmp_path / "m.dl").write_text(RULES.replace("runs", "is"))
    second = host.servers(6.0)
    assert loading
    loading.join(60)
    ruleset = host.reloader.in_force.ruleset
    assert (first, second, ruleset.inventory.rules == ruleset.rules.digest) == (["a"], ["b"], True)


def test_a_change_that_does_not_load_is_logged_each_minute(tmp_path: Path) -> None:
    pull(tmp_path, "a")
    host = Host(tmp_path, "store")
    write_generation(Store(str(tmp_path / "store")), {"nova:servers": ["{"]}, 1.0)
    servers = [host.servers(later) for later in (6.0, 6.0, 61.0)]
    why = "rules: this is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    assert (servers, host.failures) == ([["a"]] * 3, [why] * 2)
    pull(tmp_path, "b")
    assert host.servers(6.0) == ["b"]


def test_a_store_that_is_gone_leaves_the_inventory_and_one_that_comes_back_is_read_again(tmp_path: Path) -> None:
    pull(tmp_path, "a")
    host = Host(tmp_path, "store")
    (tmp_path / "store").rename(tmp_path / "away")
    (tmp_path / "store").mkdir()
    gone = [host.servers(6.0), host.failures]
    (tmp_path / "store").rmdir()
    (tmp_path / "away").rename(tmp_path / "store")
    pull(tmp_path, "b")
    assert gone == [["a"], ["rules: the inventory can't be read: store: unable to open database file"]]
    assert host.servers(6.0) == ["b"]


def test_a_store_is_read_while_others_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_source, "WAIT", 0.01)
    pull(tmp_path, "a")
    host = Host(tmp_path, "store", waivers="store")
    pull(tmp_path, "b")
    (tmp_path / "m.dl").write_text(RULES.replace("runs", "is"))
    with Store(str(tmp_path / "store")).engine.begin() as rows:
        lock_all(rows)
        servers = host.servers(6.0)
    assert (servers, host.failures, len(host.changes)) == (["b"], [], 2)


def test_a_file_that_is_gone_or_empty_leaves_the_inventory_until_it_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "cloud.jsonl"
    file.write_text(line("a"))
    host = Host(tmp_path, str(file))
    file.unlink()
    gone = host.servers(6.0)
    file.touch()
    empty = host.servers(6.0)
    file.write_text(line("b"))
    why = ["rules: the inventory can't be read: [Errno 2] No such file or directory: 'DIR/cloud.jsonl'",
           "rules: DIR/cloud.jsonl is empty now"]  # fmt: skip
    assert (gone, empty, host.servers(6.0), host.failures) == (["a"], ["a"], ["b"], why)


def test_what_did_not_change_is_not_loaded_again(tmp_path: Path) -> None:
    pull(tmp_path, "a")
    host = Host(tmp_path, "store")
    ruleset = host.reloader.in_force.ruleset
    assert (host.servers(6.0), host.reloader.in_force.ruleset is ruleset, ruleset.written) == (["a"], True, NOW)


@pytest.mark.parametrize(
    ("inventory", "store", "why"),
    [
        ("store", "", "the inventory should be in the store, but the option store is not set"),
        ("store", "DIR/store", "the store has no inventory"),
        ("store", "oracle://h/d",
         "the inventory can't be read: oracle is not a database for a store: sqlite, postgresql, mysql or mariadb is"),
        ("store", "postgresql+psycopg://gate:hush@127.0.0.1:1/gate", ""),
        ("DIR/none", "", "the inventory can't be read: [Errno 2] No such file or directory: 'DIR/none'"),
    ],
)  # fmt: skip
def test_a_process_without_its_inventory_does_not_start(tmp_path: Path, inventory: str, store: str, why: str) -> None:
    (tmp_path / "m.dl").write_text(RULES)
    inventory, store = inventory.replace("DIR", str(tmp_path)), store.replace("DIR", str(tmp_path))
    settings = Settings(rules=(str(tmp_path / "m.dl"),), inventory=inventory, store=store)
    with pytest.raises(InputError) as error:
        PolicyReloader(settings, Clock(), lambda *_: None, lambda *_: None)
    message = error.value.diagnostics[0].message.replace(str(tmp_path), "DIR")
    assert "hush" not in message
    assert message == why or (not why and message.startswith("the inventory can't be read: "))


def test_a_fork_in_the_middle_of_a_load_loads_for_itself(tmp_path: Path, gate: Gate) -> None:
    """Neither the thread that loads nor a thread that has the lock is there in the child."""
    pull(tmp_path, "a")
    host = Host(tmp_path, "store")
    gate.close()
    pull(tmp_path, "b")
    host.servers(6.0, wait=False)
    assert gate.reached.wait(60)
    locked, done = Event(), Event()

    def hold_lock() -> None:
        with host.reloader._lock:
            locked.set()
            done.wait(60)

    holder = Thread(target=hold_lock)
    holder.start()
    assert locked.wait(60)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        gate.open()
        os.write(writer, json.dumps(host.servers(6.0)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        servers = answer.read()
    os.waitpid(child, 0)
    done.set()
    holder.join(60)
    assert servers == '["b"]'


def test_the_ages_are_those_of_the_inventory_and_of_the_table_that_was_read_first(tmp_path: Path) -> None:
    readings = [["nova:servers", "2027-03-01T11:59:00Z", None], ["nova:hosts", "2027-03-01T11:00:00Z", "down"]]
    lines = [json.dumps({"relation": "gate:inventory", "row": row}) for row in readings]
    write_generation(Store(str(tmp_path / "store")), {"gate:inventory": lines}, NOW.timestamp() - 5)
    ruleset = Host(tmp_path, "store").reloader.in_force.ruleset
    assert ruleset.ages(NOW) == {"inventory": 5.0, "nova:hosts": 3600.0}


def test_a_column_that_is_null_in_every_row_is_logged_once(
    make_point: PointFactory, tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "rules/m.dl").write_text(RULES.replace("id=s", 'id=s, zone="z1"'))
    cloud = tmp_path / "cloud.jsonl"
    cloud.write_text(line("a"))
    point = make_point(inventory=str(cloud))
    for servers in ("ab", "abc"):
        cloud.write_text("\n".join(map(line, servers)))
        clock.time += 6.0
        point.judge(make_operation())
        point.reloader.wait(60)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    null = "is null in every row of the inventory: no condition on it holds"
    help_ = '(give it a default, `zone ?? "none"`, or collect it)'
    assert warnings == [f"{tmp_path}/rules/m.dl:2:9: nova:servers.zone {null} {help_}"]
