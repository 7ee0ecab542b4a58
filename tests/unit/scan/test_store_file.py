"""A store can be read while a run writes to it."""

from __future__ import annotations

import os
import signal
import time
from itertools import groupby
from pathlib import Path

import pytest

from datalog_gate.base.errors import InputError
from datalog_gate.engine.sql.database import open_database
from datalog_gate.scan import scan_run
from datalog_gate.scan.scan_run import Judges, run
from datalog_gate.scan.scan_store import Page, ScanStore
from datalog_gate.scan.store_file import open_for_run
from tests.unit.scan.test_scan import HUGE, ListFeed, entry, request
from tests.unit.scan.test_scan_interrupted import STACKS, finish, folder, start, write  # noqa: F401

COPIED = "stacks.duckdb.run"


def count(store: Path) -> tuple[int, set[str]]:
    """The number of open findings of a policy, and the days on which stacks were seen."""
    with open_database(str(store), read_only=True) as database:
        opened = ScanStore(database, read_only=True)
        return len(opened.findings(policy="size")), {row["seen"][:10] for row in opened.stacks_page(Page(limit=STACKS))}


def test_a_run_is_seen_when_it_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with open_for_run(path) as database:
        ScanStore(database)
        assert not os.path.exists(path)
    with open_for_run(path) as database:
        ScanStore(database).write_file_records("folder", {})
        with pytest.raises(InputError, match="another run is writing to the store"), open_for_run(path):
            pass
        with open_database(path, read_only=True) as reader:
            assert ScanStore(reader, read_only=True).findings() == []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["store", "store.lock"]


def test_a_run_ends_while_a_reader_has_the_store_open(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with open_for_run(path) as database:
        ScanStore(database)
    with open_database(path, read_only=True) as reader:
        with open_for_run(path) as database:
            run(ListFeed([entry("a", HUGE)]), "test", ScanStore(database), Judges(request(), 1), request())
        assert ScanStore(reader, read_only=True).findings() == []
    with open_database(path, read_only=True) as reader:
        assert [finding.root for finding in ScanStore(reader, read_only=True).findings()] == ["a"]


def test_what_a_run_wrote_before_its_feed_failed_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_run, "BATCH", 1)
    path = str(tmp_path / "store")
    failing = [entry("a", HUGE), entry("b", HUGE)], True, InputError.of("Heat gives 500")
    with pytest.raises(InputError), open_for_run(path) as database:
        run(ListFeed(*failing), "test", ScanStore(database), Judges(request(), 1), request())
    with open_database(path, read_only=True) as reader:
        assert [finding.root for finding in ScanStore(reader, read_only=True).findings()] == ["a"]


def test_a_folder_that_is_none_has_no_store(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"), open_for_run(str(tmp_path / "none" / "store")):
        pass


@pytest.mark.slow
def test_readers_throughout_a_run_see_it_whole_or_not_at_all(folder: Path) -> None:  # noqa: F811
    assert finish(start(folder, "stacks.duckdb"))[0] == 1
    for number in range(STACKS):
        write(folder, number, "small")
    killed = start(folder, "stacks.duckdb", day=2)
    while not (folder / COPIED).exists():
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    before, after = (-(-STACKS // 3), {"2027-03-01"}), (0, {"2027-03-02"})
    assert count(folder / "stacks.duckdb") == before
    process, seen = start(folder, "stacks.duckdb", day=2), [before]
    while process.poll() is None:
        seen.append(count(folder / "stacks.duckdb"))
        time.sleep(0.05)
    assert finish(process)[0] == 0
    seen.append(count(folder / "stacks.duckdb"))
    assert [state for state, _ in groupby(seen)] == [before, after]
    assert len(seen) > 2  # some were read during the run
