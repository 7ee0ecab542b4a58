"""The store behaves the same in each database."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Thread

import pytest
from sqlalchemy import inspect, select
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from datalog_gate.services.claims import Claims, PlacementClaim
from datalog_gate.services.journal import Journal
from datalog_gate.services.journal_claim import JournalError
from datalog_gate.store import tables
from datalog_gate.store.exchange import Imported, export_rows, import_rows, read_rows
from datalog_gate.store.generations import find_newest, read_lines, write_generation
from datalog_gate.store.leases import Lease
from datalog_gate.store.tables import METADATA, REVISION, locks
from datalog_gate.store.transaction import Store, StoreError, lock_row, take_turn
from tests.ledger import fill_store, request
from tests.stores.conftest import empty
from tests.stores.database_servers import DatabaseServer
from tests.unit.store.test_store import NOW

NAMES = ("a", "A", "ä", "a\u0308", "\U0001f600", "'; --", "%s %(a)s ?")
"""Names that are all different."""


def test_an_upgrade_creates_the_tables_of_the_package(server: DatabaseServer) -> None:
    store = Store(server.database("gate"))
    with pytest.raises(StoreError, match=r"^the store has no tables: run `datalog-gate store upgrade`$"):
        store.run("journal", lambda rows: rows)
    assert [store.revision(), store.upgrade(), store.upgrade(), store.revision()] == [None, None, REVISION, REVISION]
    with store.engine.begin() as rows:
        assert set(inspect(rows).get_table_names()) == set(METADATA.tables)
        assert rows.execute(select(locks.c.name).order_by(locks.c.name)).scalars().all() == sorted(tables.LOCKS)


def test_no_error_shows_a_wrong_password(server: DatabaseServer, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(server.database("gate").replace("hush", "wrong"))
    with pytest.raises(StoreError, match=r"^the store can't be reached$"):
        store.run(None, lambda rows: rows)
    assert ("wrong" in caplog.text, "gate:***@" in caplog.text) == (False, True)


def test_transactions_with_one_lock_run_one_after_the_other(server: DatabaseServer) -> None:
    store = Store(empty(server))
    order: list[str] = []

    def first(_rows: object) -> None:
        if not order:
            order.append("first begins")
            second.start()
            second.join(0.3)
            order.append("first ends")

    second = Thread(target=lambda: store.run("claims", lambda _rows: order.append("second")))
    store.run("claims", first)
    second.join(30)
    assert order == ["first begins", "first ends", "second"]


def test_a_running_process_fails_after_an_upgrade_of_the_tables(server: DatabaseServer) -> None:
    journal = Journal(empty(server))
    claim = journal.begin(request("u", "a"), "", None, NOW, 9.0)
    journal.store.run(None, lambda rows: rows.execute(tables.version.update().values(version_num="9")))
    newer = r"^the store has the revision 9, but this package needs 0001: install the one that made it$"
    with pytest.raises(JournalError, match=newer):
        journal.move(claim, "reserved", NOW)


def test_transactions_that_deadlock_both_end(server: DatabaseServer) -> None:
    """The database aborts one of them, which is run again."""
    store, both = Store(empty(server)), Barrier(2, timeout=30)
    runs: list[str] = []

    def work(first: str, then: str) -> None:
        def locked(rows: Connection) -> None:
            lock_row(rows, first)
            if runs.count(first) == 0:
                runs.append(first)
                both.wait()
            lock_row(rows, then)

        store.run(None, locked)

    threads = [Thread(target=work, args=pair) for pair in (("claims", "journal"), ("journal", "claims"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(runs) == ["claims", "journal"]
    assert [store.run(None, lambda rows: take_turn(rows, lock)) for lock in ("claims", "journal")] == [3, 3]  # noqa: B023


def test_names_that_differ_are_different_keys(url: str) -> None:
    journal = Journal(url)
    for name in NAMES:
        journal.begin(request(name, name, stack=name), "", None, NOW + 0.1, 9.0)
    assert [journal.claim(name).stack for name in NAMES] == list(NAMES)  # type: ignore[union-attr]
    assert [[claim.uuid for claim in journal.claims(name)] for name in NAMES] == [[name] for name in NAMES]


def test_a_long_decision_is_stored_and_a_long_name_is_an_error(url: str) -> None:
    store, decision = Journal(url), {"a": {"text": "\u00e4\0" * 100_000}}
    store.move(store.begin(request("u", "a"), "", None, NOW, 9.0), "reserved", NOW + 0.123456, decision=decision)
    claim = store.claim("u")
    assert claim is not None
    assert (claim.decision, claim.since) == (decision, NOW + 0.123456)
    if "sqlite" not in url:
        with pytest.raises(JournalError, match=r"^the store does not accept this$") as error:
            store.begin(request("u" * 256, "a"), "", None, NOW, 9.0)
        assert isinstance(error.value.__cause__, DBAPIError)


def test_a_dead_key_stays_dead_and_claims_are_selected_by_resource_class(url: str) -> None:
    claims = Claims(url, None)  # type: ignore[arg-type]
    needed = {"line CUSTOM_A_B": [("r", "CUSTOM_A_B", 1)]}
    held = PlacementClaim(key="k", consumer="c", project="p", grant="s/g", items=needed)
    other = PlacementClaim(key="o", consumer="c", project="p", grant="s/a", items={"x": [("r", "CUSTOM_AXB", 1)]})
    dead = PlacementClaim(key="d", consumer="c", project="p", state="dead")
    claims.write([], [held, other, dead])
    claims.write(["o", "d"], [PlacementClaim(key="d", consumer="c", project="p")])
    assert [claim.key for claim in claims.select(naming="CUSTOM_A_B")] == ["k"]
    assert [(claim.key, claim.state) for claim in claims.select(consumer="c")] == [("d", "dead"), ("k", "held")]


def test_a_writer_whose_lease_has_expired_writes_nothing(url: str) -> None:
    now = NOW
    claims = Claims(url, None)  # type: ignore[arg-type]
    slow, quick = (Lease(claims.store, "c", 30.0, clock=lambda: now) for _ in range(2))
    claim = PlacementClaim(key="k", consumer="c", project="p")
    assert slow.take() == ""
    claims.write([], [claim], slow)
    now += 30
    with pytest.raises(Exception, match=r"^what this grant asked for took too long$"):
        claims.write(["k"], [], slow)
    assert quick.take() == ""
    with pytest.raises(Exception, match=r"^what this grant asked for took too long$"):
        claims.write(["k"], [], slow)
    claims.write([], [PlacementClaim(key="l", consumer="c", project="p")], quick)
    assert [claim.key for claim in claims.select()] == ["k", "l"]


def test_an_export_of_one_database_is_the_same_in_another(url: str, tmp_path: Path) -> None:
    store, here = Store(url), Store(str(tmp_path / "here"))
    fill_store(str(tmp_path / "there"), NOW)
    source = read_rows(tmp_path / "there")
    assert import_rows(store, source) == import_rows(here, source) == Imported(8, 0)
    exported = list(export_rows(store))
    assert sorted(exported) == sorted(export_rows(here))
    (tmp_path / "export").write_text("\n".join(exported))
    assert import_rows(store, read_rows(tmp_path / "export")).added == 0
    assert list(export_rows(store)) == exported


def test_the_inventory_is_written_by_generations(url: str) -> None:
    store, long = Store(url), [f"é{number}" for number in range(1000)]
    assert find_newest(store) is None
    generations = [write_generation(store, {"a": long, "b": [str(at)]}, NOW + at) for at in range(3)]
    assert [find_newest(store), [read_lines(store, generation.number) for generation in generations]] == [
        generations[2], [None, *("".join(f"{line}\n" for line in [*long, str(at)]) for at in (1, 2))]
    ]  # fmt: skip
    assert store.run(None, lambda rows: len(rows.execute(select(tables.inventory_rows)).all())) == 3


def test_hosts_that_write_the_inventory_at_once_write_a_generation_each(url: str) -> None:
    stores = [Store(url) for _ in range(4)]
    threads = [Thread(target=write_generation, args=(store, {"a": ["1"]}, NOW)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    numbers = stores[0].run(None, lambda rows: rows.execute(select(tables.inventory_generations.c.number)).all())
    assert (len(numbers), max(number for (number,) in numbers)) == (2, find_newest(stores[0]).number)  # type: ignore[union-attr]
