"""The command `store`."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from datalog_gate.services.journal import Journal
from datalog_gate.store.api_records import ApiRecords, Write
from datalog_gate.store.exchange import Imported, export_rows, import_rows, read_rows
from datalog_gate.store.generations import write_generation
from datalog_gate.store.stored_waivers import add_waiver
from datalog_gate.store.transaction import Store
from tests.commands import run
from tests.ledger import fill_store, request
from tests.unit.store.test_store import NOW

EMPTY = (
    "revision 0001; journal 0, approval_requests 0, approval_claims 0, "
    "placement_claims 0, waivers 0, api_decisions 0, api_writes 0"
)
TABLES = {
    "journal": 2,
    "approval_requests": 2,
    "approval_claims": 2,
    "placement_claims": 2,
}
"""The rows of a store by table."""
VALUES = ("project", "user", "stack_name", "request_id")


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "heat.conf"
    path.write_text(f"[datalog_gate]\nstore = sqlite:///{tmp_path}/store\n")
    return path


def export_lines(folder: Path) -> list[str]:
    return list(export_rows(Store(str(folder / "store"))))


def test_a_store_is_checked_and_upgraded(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"sqlite:///{conf.parent}/store"
    nothing = f"{name}: nothing was granted yet\n"
    assert run(capsys, "store", "check", "--heat-conf", conf) == (0, nothing, "")
    assert run(capsys, "store", "upgrade", "--heat-conf", conf) == (0, f"{name}: 0001 before, 0001 now\n", "")
    assert run(capsys, "store", "check", "--heat-conf", conf) == (0, f"{name}: {EMPTY}\n", "")
    write_generation(Store(str(conf.parent / "store")), {"nova:servers": ["{}", "{}"], "nova:hosts": []}, NOW)
    inventory = f"{EMPTY}; inventory 2 rows in 2 tables"
    assert run(capsys, "store", "check", "--heat-conf", conf) == (0, f"{name}: {inventory}\n", "")
    with closing(sqlite3.connect(conf.parent / "store")) as rows:
        rows.execute("UPDATE datalog_gate_version SET version_num = '9'")
        rows.commit()
    needed = f"{name}: revision 9, but this package needs 0001: install the one that made it\n"
    assert run(capsys, "store", "check", "--heat-conf", conf) == (1, needed, "")


def test_an_export_can_be_imported(conf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill_store(str(tmp_path / "store"), NOW)
    code, out, err = run(capsys, "store", "export", "--heat-conf", conf)
    head, *rows = map(json.loads, out.splitlines())
    assert (code, head, err) == (0, {"schema": "datalog-gate/store/1", "revision": "0001"}, "")
    assert {"table": "approval_claims", "row": {"key": "dead", "number": None}} in rows
    assert Counter(row["table"] for row in rows) == TABLES
    (tmp_path / "export").write_text(out)
    (tmp_path / "other").mkdir()
    conf.write_text(f"[datalog_gate]\nstore = {tmp_path}/other/store\n")
    before = (tmp_path / "store").read_bytes()
    for path, counts in ((tmp_path / "export", (8, 0)), (tmp_path / "store", (0, 8))):
        said = "{}: {} rows added, {} existed already\n".format(path, *counts)
        assert run(capsys, "store", "import", path, "--heat-conf", conf) == (0, said, "")
    assert (tmp_path / "store").read_bytes() == before
    assert export_lines(tmp_path / "other") == out.splitlines()


def test_a_conflicting_row_stops_the_whole_import(
    conf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "other"
    fill_store(str(old), NOW)
    store = Journal(str(tmp_path / "store"))
    store.begin(request("u2", "b"), "", None, NOW, 9.0)
    before = export_lines(tmp_path)
    assert run(capsys, "store", "import", old, "--heat-conf", conf) == (
        3, "", f"error[unreadable] {conf}: journal u2 is different in the store: nothing was imported\n",
    )  # fmt: skip
    assert export_lines(tmp_path) == before


HEAD = '{"schema": "datalog-gate/store/1", "revision": "0001"}\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "DIR/file is not an export of a store"),
        ("[", "DIR/file is not an export of a store"),
        ('{"schema": "x"}', "DIR/file is not an export of a store"),
        (HEAD.replace("0001", "0009"), "DIR/file has the revision 0009, but this package needs 0001"),
        (f'{HEAD}{{"table": "locks", "row": {{}}}}', "DIR/file:2 is not a row of a store"),
        (f"{HEAD}[]", "DIR/file:2 is not a row of a store"),
        (f'{HEAD}{{"table": "journal", "row": {{"uuid": "u"}}}}', "DIR/file:2 is not a row of a store"),
        ("SQLite format 3\0 and nothing else", "DIR/file can't be read: file is not a database"),
    ],
)
def test_other_files_are_not_imported(
    conf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, why: str
) -> None:
    (tmp_path / "file").write_text(text)
    code, out, err = run(capsys, "store", "import", tmp_path / "file", "--heat-conf", conf)
    message = f"error[unreadable] {conf}: {why}\n"
    assert (code, out, err.replace(str(tmp_path), "DIR")) == (3, "", message.replace(str(tmp_path), "DIR"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("DROP TABLE datalog_gate_version", "has no tables of a store"),
        ("UPDATE datalog_gate_version SET version_num = '9'",
         "has the revision 9, but this package needs 0001: export it with the package that made it"),
    ],
)  # fmt: skip
def test_a_store_of_another_revision_is_neither_exported_nor_imported(
    conf: Path, capsys: pytest.CaptureFixture[str], change: str, why: str
) -> None:
    store = conf.parent / "store"
    Store(str(store)).create()
    with closing(sqlite3.connect(store)) as rows:
        rows.execute(change)
        rows.commit()
    before = store.read_bytes()
    refused = (3, "", f"error[unreadable] {conf}: {store} {why}\n")
    assert run(capsys, "store", "export", "--heat-conf", conf) == refused
    conf.write_text(f"[datalog_gate]\nstore = {conf.parent}/new\n")
    assert run(capsys, "store", "import", store, "--heat-conf", conf) == refused
    assert store.read_bytes() == before


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("", "store is not set"),
        ("store = mysql+pymysql://gate:hush@127.0.0.1:1/gate", "the store can't be reached"),
        ("store = mysql+none://gate:hush@db/gate",
         "the driver of the store is not installed: Can't load plugin: sqlalchemy.dialects:mysql.none"),
        ("store = sqlite:///DIR/heat.conf", "heat.conf: file is not a database"),
    ],
)  # fmt: skip
def test_the_error_of_an_unusable_store_hides_its_password(
    conf: Path, capsys: pytest.CaptureFixture[str], option: str, why: str
) -> None:
    conf.write_text(f"[datalog_gate]\n{option}\n".replace("DIR", str(conf.parent)))
    code, out, err = run(capsys, "store", "check", "--heat-conf", conf)
    assert (code, out, "hush" in err, err.splitlines()[-1]) == (3, "", False, f"error[unreadable] {conf}: {why}")


def test_tables_of_the_server_are_exported_and_imported(tmp_path: Path) -> None:
    here, there = (Store(str(tmp_path / name)) for name in ("here", "there"))
    records = ApiRecords(str(tmp_path / "here"), 90, clock=lambda: NOW)
    add_waiver(here, {"policy": "p", "project": "p"}, "ann", NOW)
    records.add_decision({"id": "d", "outcome": "deny", "action": "create"}, **dict.fromkeys(VALUES, "ann"))
    records.write(Write("waiver:create", "/v2/waivers", "ann", "p", "r", "d", "ann"), lambda: (201, {}))
    (tmp_path / "export").write_text("\n".join(export_rows(here)))
    assert [import_rows(there, read_rows(tmp_path / "export")) for _ in range(2)] == [Imported(3, 0), Imported(0, 3)]
    assert list(export_rows(there)) == list(export_rows(here))
    assert add_waiver(there, {"policy": "x"}, "eve", NOW).number > 1
