"""Entries of feeds, and the feeds of folders and of decision logs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import datalog_gate as dg
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import InputError
from datalog_gate.base.values import ResourceId
from datalog_gate.facts.flatten import flatten
from datalog_gate.facts.lines import write
from datalog_gate.files.discovery import Discovery
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.scan.feed import Feed, Gone, Item, StackEntry, TemplateFiles, Unchanged, Unread, read
from datalog_gate.scan.folder_feed import FolderFeed
from datalog_gate.scan.log_feed import LogFeed
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Live, Stack
from tests.commands import write_files

TEMPLATE = "heat_template_version: 2018-08-31\nresources:\n  net: {type: OS::Neutron::Net, properties: {name: n}}\n"
STORED = StackEntry(
    root="5c2e",
    name="web",
    project="p1",
    source=StackDefinition(TEMPLATE),
    updated="2027-03-01T12:00:00Z",
    caller={"user": "u1"},
    live=(Live(ResourceId("web/net"), "CREATE", "COMPLETE", "n-1"),),
    listing="a1",
)


def test_a_stored_stack_is_read_with_what_heat_has_of_it() -> None:
    again = StackEntry.from_json(json.loads(json.dumps(STORED.to_json())))
    assert (again, again.digest) == (STORED, STORED.digest)
    expected = dg.read_stack(template=TEMPLATE, stack_name="web")
    assert facts(read(again)) == facts(replace(expected, live=STORED.live))


def test_the_digest_is_of_what_is_judged_and_not_of_when_it_was_seen() -> None:
    same = replace(STORED, updated="2027-03-02T12:00:00Z", listing="b2", root="other")
    others = [
        replace(STORED, live=()),
        replace(STORED, caller=None),
        replace(STORED, project="p2"),
        replace(STORED, source=StackDefinition(f"{TEMPLATE} ")),
    ]
    assert same.digest == STORED.digest
    assert len({entry.digest for entry in (STORED, *others)}) == 5


def test_a_template_on_disk_is_read_with_its_environments_and_its_places(tmp_path: Path) -> None:
    template, environment = tmp_path / "web.yaml", tmp_path / "web.env.yaml"
    template.write_text(TEMPLATE.replace("{name: n}", "{name: {get_param: n}}") + "parameters: {n: {type: string}}\n")
    environment.write_text("parameters: {n: given}\n")
    source = TemplateFiles(str(template), (str(environment),), str(tmp_path), {str(template): "d1"})
    entry = StackEntry(root="web.yaml", name="web", project=None, source=source)
    again = StackEntry.from_json(json.loads(json.dumps(entry.to_json())))
    assert again == entry
    assert facts(read(again)) == facts(dg.read_stack(template, environments=[environment], stack_name="web"))


def test_a_folder_yields_its_templates_by_their_paths(tmp_path: Path) -> None:
    files = {
        "app/template.yaml": TEMPLATE,
        "app/env.yaml": "parameters: {}\n",
        "web.yaml": TEMPLATE.replace("{name: n}", "{name: {get_file: name.txt}}"),
        "web.env": "parameters: {}\n",
        "name.txt": "n",
    }
    app, web = feed_items(FolderFeed(write_files(tmp_path, files), {}))
    assert isinstance(app, StackEntry)
    assert isinstance(web, StackEntry)
    assert [(entry.root, entry.name, entry.project) for entry in (app, web)] == [
        ("app/template.yaml", "app", None),
        ("web.yaml", "web", None),
    ]
    assert facts(read(app)) == facts(dg.read_stack(tmp_path / "app"))
    assert facts(read(web)) == facts(dg.read_stack(tmp_path / "web.yaml", environments=[tmp_path / "web.env"]))
    known = {entry.root: entry.listing for entry in (app, web)}
    assert feed_items(FolderFeed(tmp_path, known)) == [Unchanged("app/template.yaml"), Unchanged("web.yaml")]
    (tmp_path / "name.txt").write_text("m")
    first, second = feed_items(FolderFeed(tmp_path, known))
    assert (first, second.root, isinstance(second, StackEntry)) == (Unchanged("app/template.yaml"), "web.yaml", True)


def test_a_folder_that_cannot_be_listed_makes_nothing_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    discovery = Discovery((), (tmp_path / "parts",))
    monkeypatch.setattr("datalog_gate.scan.folder_feed.discover_templates", lambda *_: discovery)
    feed = FolderFeed(tmp_path, {})
    assert (list(feed), feed.total, feed.whole) == ([Unread("parts", "the folder can't be listed")], 1, False)


def test_a_folder_that_is_none_is_no_folder_without_templates(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        list(FolderFeed(tmp_path / "none", {}))


def test_a_log_yields_each_stack_as_the_last_operation_that_passed_left_it() -> None:
    other = StackDefinition(f"{TEMPLATE} ")
    records: list[Mapping[str, Any] | Diagnostic] = [
        record(1, "web"),
        Diagnostic("unreadable", "the line is not a record"),
        {"kind": "dropped"},
        record(2, "db"),
        record(3, "web", definition=other, action="update"),
        record(4, "web", verdict="denied", action="update"),
        record(5, "web", dry_run=True, action="delete"),
        record(6, "db", action="delete"),
        record(7, "fast", unjudged="break glass"),
        record(8, "fine"),
        record(9, "fine", action="suspend", unjudged=None),
    ]
    feed = LogFeed(records, {"p1/fine": "8 d8"})
    assert (list(feed), feed.total, feed.whole) == (
        [
            StackEntry("p1/web", "web", "p1", other, updated="3", caller={"user": "u1"}, listing="3 d3"),
            Gone("p1/db"),
            Unread("p1/fast", "create passed without being judged: break glass"),
            Unchanged("p1/fine"),
        ],
        4,
        False,
    )


def test_a_joined_log_yields_each_stack_by_the_time_of_its_last_operation() -> None:
    other = StackDefinition(f"{TEMPLATE} ")
    update, delete = record(3, "web", definition=other, action="update"), record(2, "db", action="delete")
    records = [update, delete, record(1, "web"), record(1, "db"), record(4, "old"), record(4, "new", action="delete")]
    assert list(LogFeed(records, {"p1/old": "5 d5", "p1/new": "5 d5"})) == [
        StackEntry("p1/web", "web", "p1", other, updated="3", caller={"user": "u1"}, listing="3 d3"),
        Gone("p1/db"),
        Unchanged("p1/old"),
        Unchanged("p1/new"),
    ]


def test_a_log_yields_what_happened_since_a_time() -> None:
    records = [{**record(at, f"s{at}"), "time": f"2027-03-01T0{at}:00:00+00:00"} for at in (1, 2, 3)]
    feed = LogFeed(records, {}, datetime(2027, 3, 1, 2, tzinfo=UTC))
    assert ([item.root for item in feed], feed.total, feed.whole) == (["p1/s2", "p1/s3"], 2, False)


def record(at: int, name: str, definition: StackDefinition | None = None, **fields: object) -> dict[str, Any]:
    """A record of a decision log; `unjudged` has no inputs."""
    inputs = {
        "stack_name": name,
        "definition": (definition or StackDefinition(TEMPLATE)).to_json(),
        "caller": {"user": "u1"},
    }
    head = {"kind": "decision", "time": str(at), "id": f"d{at}", "project": "p1", "stack_name": name, "dry_run": False}
    made = {"verdict": "allowed", "action": "create", **({} if "unjudged" in fields else {"inputs": inputs})}
    return {**head, **made, **fields}


def feed_items(feed: Feed) -> list[Item]:
    items = list(feed)
    assert (feed.total, feed.whole) == (len(items), True)
    return items


def facts(stack: Stack) -> list[str]:
    return list(write(flatten(stack, SHIPPED)))


def test_a_link_that_leads_elsewhere_is_another_template_since_its_places_are_others(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").symlink_to(".a")
    [before] = feed_items(FolderFeed(write_files(tmp_path, {".a": TEMPLATE, ".b": TEMPLATE}), {}))
    (tmp_path / "web.yaml").unlink()
    (tmp_path / "web.yaml").symlink_to(".b")
    assert isinstance(before, StackEntry)
    [after] = feed_items(FolderFeed(tmp_path, {before.root: before.listing}))
    assert isinstance(after, StackEntry)
    assert after.digest != before.digest
