"""The command `store`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from datalog_gate.services.approval import Approvals
from datalog_gate.services.journal import Journal
from datalog_gate.services.outcomes import Outcomes
from datalog_gate.store.api_records import ApiRecords, Write
from datalog_gate.store.exchange import export_rows, import_rows, read_rows
from datalog_gate.store.generations import write_generation
from datalog_gate.store.stored_waivers import add_waiver, read_waivers
from datalog_gate.store.transaction import Store
from tests.commands import run
from tests.ledger import request
from tests.test_store import NOW, old_file

EMPTY = (
    "revision 0004; journal 0, outcomes 0, approval_requests 0, approval_verdicts 0, approval_claims 0, "
    "placement_claims 0, waivers 0, api_decisions 0, api_writes 0"
)


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
    assert run(capsys, "store", "upgrade", "--heat-conf", conf) == (0, f"{name}: 0004 before, 0004 now\n", "")
    assert run(capsys, "store", "check", "--heat-conf", conf) == (0, f"{name}: {EMPTY}\n", "")
    write_generation(Store(str(conf.parent / "store")), {"nova:servers": ["{}", "{}"], "nova:hosts": []}, NOW)
    inventory = f"{EMPTY}; inventory 2 rows in 2 tables"
    assert run(capsys, "store", "check", "--heat-conf", conf) == (0, f"{name}: {inventory}\n", "")
    with closing(sqlite3.connect(conf.parent / "store")) as rows:
        rows.execute("UPDATE datalog_gate_version SET version_num = '9'")
        rows.commit()
    needed = f"{name}: revision 9, but this package needs 0004: run `datalog-gate store upgrade`\n"
    assert run(capsys, "store", "check", "--heat-conf", conf) == (1, needed, "")


def test_claims_in_an_old_journal_are_a_finding_until_they_are_imported(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = old_file(conf.parent, "journal")
    conf.write_text(f"{conf.read_text()}service_journal = {old}\n")
    Store(str(conf.parent / "store")).create()
    code, out, _ = run(capsys, "store", "check", "--heat-conf", conf)
    left = f"{old} holds 2 claims that the store lacks: `datalog-gate store import {old}`"
    assert (code, out.splitlines()[1:]) == (1, [left])
    added = f"{old}: 4 rows added, 0 existed already\n"
    assert run(capsys, "store", "import", old, "--heat-conf", conf) == (0, added, "")
    code, out, _ = run(capsys, "store", "check", "--heat-conf", conf)
    assert (code, len(out.splitlines())) == (0, 1)


def test_files_of_version_0_1_are_imported_once_and_stay_unchanged(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [old_file(conf.parent, name) for name in ("journal", "approvals", "claims")]
    before = [Path(path).read_bytes() for path in files]
    counts = [4, 6, 3]
    expected = [f"{path}: {count} rows added, 0 existed already\n" for path, count in zip(files, counts, strict=True)]
    assert run(capsys, "store", "import", *files, "--heat-conf", conf) == (0, "".join(expected), "")
    again = [f"{path}: 0 rows added, {count} existed already\n" for path, count in zip(files, counts, strict=True)]
    assert run(capsys, "store", "import", *files, "--heat-conf", conf) == (0, "".join(again), "")
    assert [Path(path).read_bytes() for path in files] == before
    store = str(conf.parent / "store")
    assert [claim.uuid for claim in Journal(store).claims()] == ["u1", "u2"]
    assert [approval.name for approval in Approvals(store).list(NOW)] == ["A-1", "A-2"]
    Outcomes(store).add(Outcomes(store).pending()[0].snapshot, [], NOW)
    assert [pending.plugins for pending in Outcomes(store).pending()] == [("licence", "teller"), ()]


def test_an_export_can_be_imported(conf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("journal", "approvals", "claims"):
        run(capsys, "store", "import", old_file(tmp_path, name), "--heat-conf", conf)
    code, out, err = run(capsys, "store", "export", "--heat-conf", conf)
    head, *rows = map(json.loads, out.splitlines())
    assert (code, head, err) == (0, {"schema": "datalog-gate/store/1", "revision": "0004"}, "")
    assert {"table": "approval_claims", "row": {"key": "dead", "number": None}} in rows
    assert [row["table"] for row in rows].count("journal") == 3
    (tmp_path / "export").write_text(out)
    (tmp_path / "other").mkdir()
    conf.write_text(f"[datalog_gate]\nservice_journal = {tmp_path}/other/store\n")
    for path in (tmp_path / "export", tmp_path / "store"):
        assert run(capsys, "store", "import", path, "--heat-conf", conf)[0] == 0
    assert export_lines(tmp_path / "other") == out.splitlines()
    (tmp_path / "export").write_text(out.replace('"0004"', '"0001"', 1))
    assert run(capsys, "store", "import", tmp_path / "export", "--heat-conf", conf)[0] == 0


@pytest.mark.parametrize("made", ["0003", "journal"])
def test_what_only_reads_changes_no_older_store(conf: Path, capsys: pytest.CaptureFixture[str], made: str) -> None:
    store = conf.parent / "store"
    if made == "journal":
        Path(old_file(conf.parent, "journal")).rename(store)
    else:
        Journal(str(store)).begin(request("u3", "b"), "", None, NOW, 9.0)
        with closing(sqlite3.connect(store)) as rows:
            rows.execute("UPDATE datalog_gate_version SET version_num = '0003'")
            rows.commit()
    before = store.read_bytes()
    code, out, _ = run(capsys, "store", "check", "--heat-conf", conf)
    revision = "none" if made == "journal" else made
    needed = f"revision {revision}, but this package needs 0004: run `datalog-gate store upgrade`\n"
    assert (code, out) == (1, f"sqlite:///{store}: {needed}")
    code, out, _ = run(capsys, "store", "export", "--heat-conf", conf)
    (conf.parent / "export").write_text(out)
    assert (code, len(read_rows(conf.parent / "export")), store.read_bytes() == before) == (
        0,
        out.count("\n") - 1,
        True,
    )
    assert out.count('"table": "journal"') == (3 if made == "journal" else 1)


def test_requests_of_two_hosts_with_one_number_are_renamed(
    conf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = Approvals(str(tmp_path / "store"))
    here.use(request("mine", "m", service="approval"), NOW, 9e9)
    old = old_file(tmp_path, "approvals")
    renamed = "  the request A-1 is A-2 here\n  the request A-2 is A-3 here\n"
    expected = f"{old}: 6 rows added, 0 existed already\n{renamed}"
    assert run(capsys, "store", "import", old, "--heat-conf", conf) == (0, expected, "")
    assert [(item.name, item.state, len(item.verdicts)) for item in here.list(NOW)] == [
        ("A-1", "awaiting", 0), ("A-2", "used", 2), ("A-3", "awaiting", 0)
    ]  # fmt: skip
    assert here.use(request("u1", "a", service="approval"), NOW, 9.0)[1] == here.list(NOW)[1]
    again = f"{old}: 0 rows added, 6 existed already\n{renamed}"
    assert run(capsys, "store", "import", old, "--heat-conf", conf) == (0, again, "")


def test_a_conflicting_row_stops_the_whole_import(
    conf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = old_file(tmp_path, "journal")
    store = Journal(str(tmp_path / "store"))
    store.begin(request("u3", "b"), "", None, NOW, 9.0)
    before = export_lines(tmp_path)
    assert run(capsys, "store", "import", old, "--heat-conf", conf) == (
        3, "", f"error[unreadable] {conf}: journal u3 is different in the store: nothing was imported\n",
    )  # fmt: skip
    assert export_lines(tmp_path) == before


HEAD = '{"schema": "datalog-gate/store/1", "revision": "0001"}\n'
"""The head of an export of an older revision with the same rows."""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "DIR/file is not an export of a store"),
        ("[", "DIR/file is not an export of a store"),
        ('{"schema": "x"}', "DIR/file is not an export of a store"),
        (HEAD.replace("0001", "0009"), "DIR/file has the revision 0009, but this package needs 0004"),
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
    ("option", "why"),
    [
        ("", "neither store nor service_journal is set"),
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
    here, there, other = (Store(str(tmp_path / name)) for name in ("here", "there", "other"))
    for store, who in ((here, "ann"), (there, "bob")):
        records = ApiRecords(f"sqlite:///{store.name.partition('///')[2]}", 90, clock=lambda: NOW)
        add_waiver(store, {"policy": who, "project": "p"}, who, NOW)
        records.add_decision({"id": "d", "outcome": "deny", "action": "create"}, **dict.fromkeys(VALUES, who))
        records.write(Write("waiver:create", "/v2/waivers", who, "p", "r", "d", who), lambda: (201, {}))
    (tmp_path / "export").write_text("\n".join(export_rows(here)))
    for store in (there, other):
        import_rows(store, read_rows(tmp_path / "export"))
        assert import_rows(store, read_rows(tmp_path / "export")).added == 0
    assert sorted(export_rows(other)) == sorted(export_rows(here))
    assert [(waiver.id, waiver.entry["policy"]) for waiver in read_waivers(there)] == [("S-1", "bob"), ("S-2", "ann")]
    assert add_waiver(there, {"policy": "x"}, "eve", NOW).number > 2
