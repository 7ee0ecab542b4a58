"""The file of an inventory: what is written is read again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from datalog_gate.base.errors import InputError
from datalog_gate.doors.cli.main import main
from datalog_gate.inventory.snapshot import Snapshot, Table, parse_snapshot, read_snapshot, write_snapshot

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
TAGS = ({"server_id": "s-1", "tag": "rück \ud800"}, {"server_id": "s-2", "tag": "b"})
SNAPSHOT = Snapshot(
    {
        "nova:tags": Table("nova:tags", TAGS, NOON),
        "nova:servers": Table("nova:servers", ({"id": "s-1", "name": "web"},), NOON, "Nova answers 503"),
        "cinder:volumes": Table("cinder:volumes", (), NOON),
        "cinder:services": Table("cinder:services", (), None, "Cinder answers 403"),
    },
    {"limits:quota": (["p1", 3], {"project": "p2", "most": 4})},
)
LINES = [
    {"relation": "gate:inventory", "row": {"table": "nova:tags", "read": "2027-03-01T12:00:00Z", "problem": None}},
    {
        "relation": "gate:inventory",
        "row": {"table": "nova:servers", "read": "2027-03-01T12:00:00Z", "problem": "Nova answers 503"},
    },
    {"relation": "gate:inventory", "row": {"table": "cinder:volumes", "read": "2027-03-01T12:00:00Z", "problem": None}},
    {"relation": "gate:inventory", "row": {"table": "cinder:services", "read": None, "problem": "Cinder answers 403"}},
    {"relation": "nova:tags", "row": {"server_id": "s-1", "tag": "rück \ud800"}},
    {"relation": "nova:tags", "row": {"server_id": "s-2", "tag": "b"}},
    {"relation": "nova:servers", "row": {"id": "s-1", "name": "web"}},
    {"relation": "limits:quota", "row": ["p1", 3]},
    {"relation": "limits:quota", "row": {"project": "p2", "most": 4}},
]


def test_an_inventory_is_written_as_facts_and_read_again(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "cloud.jsonl", SNAPSHOT)
    assert [json.loads(line) for line in (tmp_path / "cloud.jsonl").read_text().splitlines()] == LINES
    assert read_snapshot(tmp_path / "cloud.jsonl") == SNAPSHOT


def test_rules_read_the_tables_and_their_age(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_snapshot(tmp_path / "cloud.jsonl", Snapshot(SNAPSHOT.tables))
    text = "old(table, since) :- gate:inventory(table=table, read=since, problem=why), why != null."
    (tmp_path / "age.dl").write_text(text)
    facts = ["--rules", str(tmp_path / "age.dl"), "--facts", str(tmp_path / "cloud.jsonl"), "--format", "json"]
    assert main(["query", "old(table, since)", *facts]) == 0
    printed = capsys.readouterr()
    assert (json.loads(printed.out), printed.err) == (
        [["cinder:services", None], ["nova:servers", "2027-03-01T12:00:00Z"]],
        "",
    )


def test_an_inventory_made_by_hand_has_tables_without_a_time() -> None:
    text = '{"relation": "nova:tags", "row": ["s-1", "a"]}\n{"relation": "nova:tags", "row": {"server_id": "s-2"}}\n'
    rows = ({"server_id": "s-1", "tag": "a"}, {"server_id": "s-2"})
    assert parse_snapshot(text, "hand.jsonl") == Snapshot({"nova:tags": Table("nova:tags", rows, None)})


def test_the_mode_of_an_old_file_stays_and_a_link_still_leads_to_it(tmp_path: Path) -> None:
    real, link = tmp_path / "real.jsonl", tmp_path / "cloud.jsonl"
    real.touch(0o640)
    link.symlink_to(real)
    write_snapshot(link, SNAPSHOT)
    assert (oct(real.stat().st_mode & 0o777), link.is_symlink(), read_snapshot(real)) == ("0o640", True, SNAPSHOT)


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    class Rows(tuple[object, ...]):
        def __iter__(self) -> Iterator[object]:
            raise OSError("disk full")

    write_snapshot(tmp_path / "cloud.jsonl", SNAPSHOT)
    with pytest.raises(OSError, match="disk full"):
        write_snapshot(tmp_path / "cloud.jsonl", Snapshot(SNAPSHOT.tables, {"limits:quota": Rows()}))
    assert (os.listdir(tmp_path), read_snapshot(tmp_path / "cloud.jsonl")) == (["cloud.jsonl"], SNAPSHOT)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"relation": "nova:tags"', "c.jsonl:1:1: error[bad-facts] this is not JSON"),
        ('{"relation": "nova:tags", "row": ["s-1"]}', "c.jsonl:1:1: error[bad-facts] nova:tags has 2 columns, found 1"),
        (
            '{"relation": "gate:inventory", "row": {"table": "nova:tags", "read": "noon"}}',
            "c.jsonl:1:1: error[bad-facts] noon is not a time",
        ),
    ],
)
def test_a_bad_line_is_an_error_with_its_place(line: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_snapshot(f"{line}\n", "c.jsonl")
    assert str(caught.value).startswith(message)
