"""The store on SQLite."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from oslo_config import cfg
from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

import datalog_gate.store.generations
from datalog_gate.decision_point.config_options import build_settings
from datalog_gate.decision_point.settings import Settings
from datalog_gate.store import tables
from datalog_gate.store.generations import Generation, find_newest, read_lines, write_generation
from datalog_gate.store.leases import Lease
from datalog_gate.store.tables import REVISION, leases, locks
from datalog_gate.store.transaction import Store, StoreError, lock_all, read_revision

NOW = 1_800_000_000.0


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"sqlite:///{tmp_path}/store")


def test_an_upgrade_shows_the_previous_revision(store: Store) -> None:
    assert [store.upgrade(), store.upgrade(), store.revision()] == [REVISION, REVISION, REVISION]


def test_an_upgrade_of_a_newer_store_is_refused(store: Store) -> None:
    store.run(None, lambda rows: rows.execute(tables.version.update().values(version_num="9")))
    newer = r"/store has the revision 9, but this package needs 0001: install the one that made it$"
    with pytest.raises(StoreError, match=newer):
        store.upgrade()


def test_what_did_not_change_is_not_written_again(store: Store) -> None:
    def written() -> list[tuple[str, int]]:
        rows = store.run(None, lambda rows: rows.execute(select(tables.inventory_tables)).all())
        return sorted((row.digest[:8], row.generation) for row in rows)

    write_generation(store, {"nova:servers": ["1", "2"], "nova:hosts": []}, NOW)
    before = written()
    store.run(None, lambda rows: rows.execute(tables.inventory_rows.update().values(content=zlib.compress(b"kept\n"))))
    second = write_generation(store, {"nova:servers": ["1", "2"], "nova:hosts": ["3"]}, NOW + 9)
    assert (len(before), set(before) < set(written())) == (2, True)
    assert read_lines(store, second.number) == "3\nkept\n"
    assert find_newest(store) == second == Generation(second.number, NOW + 9, {"nova:hosts": 1, "nova:servers": 2})


def test_a_table_that_is_too_large_leaves_the_generation_before(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write_generation(store, {"a": ["1"]}, NOW)
    monkeypatch.setattr(datalog_gate.store.generations, "MOST_BYTES", 20)
    large = r"^the inventory's table b takes 21 bytes, but at most 20 can be kept$"
    with pytest.raises(StoreError, match=large):
        write_generation(store, {"a": ["2"], "b": ["0123456789ab"]}, NOW)
    assert (find_newest(store), read_lines(store, first.number)) == (first, "1\n")


def test_work_that_fails_leaves_nothing_and_what_meets_another_is_run_again(store: Store) -> None:
    attempts: list[int] = []

    def work(rows: Connection) -> int:
        rows.execute(leases.insert().values(name="l", owner="o", until=float(len(attempts))))
        attempts.append(1)
        if len(attempts) < 3:
            raise IntegrityError("", {}, sqlite3.IntegrityError("UNIQUE constraint failed: leases.name"))
        return len(attempts)

    assert store.run("claims", work) == 3
    assert store.run(None, lambda rows: rows.execute(select(leases)).all()) == [("l", "o", 2.0)]
    with pytest.raises(ZeroDivisionError):
        store.run("claims", lambda rows: rows.execute(leases.delete()) and 1 // 0)
    with pytest.raises(StoreError, match=r"^store: no such column: none$"):
        store.run("claims", lambda rows: rows.exec_driver_sql("SELECT none"))
    assert store.run(None, lambda rows: rows.execute(select(leases.c.name)).scalars().all()) == ["l"]


def test_who_locks_all_takes_a_turn_of_each(store: Store) -> None:
    store.run(None, lock_all)
    assert store.run(None, lambda rows: rows.execute(select(locks.c.turn)).scalars().all()) == [1] * len(tables.LOCKS)


def test_settings_and_logs_of_options_show_no_password(caplog: pytest.LogCaptureFixture) -> None:
    url = "mysql+pymysql://gate:hush@db/gate"
    conf = cfg.ConfigOpts()
    conf([], project="heat", default_config_files=[])
    build_settings(conf)
    conf.set_override("store", url, "datalog_gate")
    conf.log_opt_values(logging.getLogger("heat"), logging.WARNING)
    assert ("hush" in repr(Settings(store=url)), "hush" in caplog.text, "datalog_gate.store" in caplog.text) == (
        False, False, True
    )  # fmt: skip


def test_a_busy_file_is_an_error_after_a_while(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"), wait=0.01)
    store.create()
    with closing(sqlite3.connect(tmp_path / "store", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=r"^store: database is locked$"):
            store.run("claims", lambda rows: rows)


def test_a_file_is_read_while_another_transaction_writes_it(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"), wait=0.01)
    store.create()

    def revision() -> str | None:
        return store.run(None, read_revision, reads=True)

    assert revision() == REVISION
    with Store(str(tmp_path / "store")).engine.begin() as rows:
        lock_all(rows)
        assert revision() == REVISION


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlite://", "a store of SQLite is a file: write sqlite:////var/lib/heat/store"),
        ("://a:hush@b", "the store is not a URL such as postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"),
        ("oracle://a:hush@b/c", "oracle is not a database for a store: sqlite, postgresql, mysql or mariadb is"),
        ("mysql+none://a:hush@b/c", "the driver of the store is not installed: "
         "Can't load plugin: sqlalchemy.dialects:mysql.none"),
    ],
)  # fmt: skip
def test_a_url_that_names_no_store_is_an_error_without_its_password(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        Store(url)
    assert str(error.value) == why


def test_the_name_of_a_store_and_its_errors_show_no_password(caplog: pytest.LogCaptureFixture) -> None:
    store = Store("mysql+pymysql://gate:hush@127.0.0.1:1/gate")
    assert (store.name, store.file) == ("mysql+pymysql://gate:***@127.0.0.1:1/gate", None)
    with pytest.raises(StoreError) as error:
        store.run(None, lambda rows: rows)
    assert (str(error.value), "hush" in caplog.text, "127.0.0.1:1/gate" in caplog.text) == (
        "the store can't be reached", False, True
    )  # fmt: skip


def test_a_lease_is_its_owners_until_it_ends(store: Store) -> None:
    now = NOW
    mine = Lease(store, "reconcile", 30.0, "host1", lambda: now)
    other = Lease(store, "reconcile", 30.0, "host2", lambda: now)
    elsewhere = Lease(store, "other", 30.0, "host3", lambda: now)
    assert [mine.take(), elsewhere.take(), other.take().partition(" ")[0]] == ["", "", "host1"]
    now = NOW + 29
    assert [mine.take(), store.run(None, mine.extend), store.run(None, other.extend)] == ["", True, False]
    now = NOW + 59
    assert [store.run(None, mine.extend), other.take(), mine.take().partition(" ")[0]] == [False, "", "host2"]
    mine.end()
    assert [store.run(None, mine.extend), store.run(None, other.extend)] == [False, True]
    other.end()
    assert mine.take() == ""
    assert store.run(None, lambda rows: rows.execute(select(leases.c.name)).scalars().all()) == ["reconcile"]  # no dead


def test_the_lease_of_a_killed_process_ends_by_itself(store: Store) -> None:
    def work() -> None:
        Lease(store, "l", 30.0, "dead", lambda: NOW).take()
        os.kill(os.getpid(), signal.SIGKILL)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(60)
    owners = [Lease(store, "l", 30.0, clock=lambda now=now: now).take() for now in (NOW + 29, NOW + 30)]  # type: ignore[misc]
    assert [owner.partition(" ")[0] for owner in owners] == ["dead", ""]


def test_the_file_of_something_else_stays_as_it_is(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "heat.db")) as rows:
        rows.executescript("CREATE TABLE stack (id)")
    before = (tmp_path / "heat.db").read_bytes()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"/heat.db belongs to something else: it has the table stack$"):
            Store(str(tmp_path / "heat.db")).create()
    assert (tmp_path / "heat.db").read_bytes() == before
