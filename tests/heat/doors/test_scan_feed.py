"""A scan judges each stack of a Heat, and rereads what changed.

``DATALOG_GATE_SCAN_STACKS=200`` makes so many stacks, in place of 20.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from datalog_gate.decision.policy_set import load
from datalog_gate.engine.sql.database import open_database
from datalog_gate.files.rules import read_rules
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.inventory.cloud_api import CloudApi
from datalog_gate.inventory.table_sources import ApiService
from datalog_gate.scan.batch import ScanRequest
from datalog_gate.scan.feed import Item, StackEntry, Unchanged, read
from datalog_gate.scan.heat_feed import HeatFeed
from datalog_gate.scan.scan_run import Judges, RunReport, run
from datalog_gate.scan.scan_store import ScanStore
from tests.heat.doors.rig import HERE, Heat, heats, wait
from tests.heat.doors.templates import LONG, scaled, string, template

PART = {
    "heat_template_version": "2018-08-31",
    "parameters": {"length": {"type": "number"}},
    "resources": {"s": string({"get_param": "length"})},
}
NUMBER = int(os.environ.get("DATALOG_GATE_SCAN_STACKS", "20"))


class CountingApi(CloudApi):
    """Counts what is asked of Heat."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []

    def get(self, service: ApiService, path: str) -> Any:
        self.paths.append(path)
        return super().get(service, path)


heat = heats("convergence", "legacy", options={"mode": "record"})
"""A Heat of either engine, of this module alone, whose doors stop nothing."""


@pytest.mark.timeout(400)  # as many stacks as DATALOG_GATE_SCAN_STACKS says
def test_every_stack_is_judged_as_it_is_and_only_what_changed_is_read_again(
    heat: Heat, monkeypatch: pytest.MonkeyPatch
) -> None:
    heat.empty()
    heat.login(monkeypatch)
    names = [create(heat, at) for at in range(NUMBER)]
    grow(heat, names[1], 2)
    slipped = heat.created(LONG)
    with open_database() as database:
        store = ScanStore(database)
        first = scan(heat, store)
        assert first.judged_lengths() == {name: heat.lengths(name) for name in [*names, slipped]}
        assert (first.report.judged, first.report.unchanged, first.denied) == (NUMBER + 1, 0, {slipped})

        changed = names[: max(3, NUMBER // 20)]
        grow(heat, changed[1], 3)
        for name in (changed[0], *changed[2:]):
            body = {"template": template(s=string(40))} if names.index(name) % 3 < 2 else parts(40)
            assert heat.updated(name, **body)[0] == "UPDATE_COMPLETE"
        again = scan(heat, store)
    assert again.judged_lengths() == {name: heat.lengths(name) for name in changed}
    assert (again.report.judged, again.report.unchanged) == (len(changed), NUMBER + 1 - len(changed))
    assert again.denied == {slipped, changed[0], *changed[2:]}
    lists = [path for path in again.paths if "global_tenant" in path]
    definitions = [entry.source for entry in again.entries.values() if isinstance(entry.source, StackDefinition)]
    nested = sum(len(definition.held.stacks) for definition in definitions)
    assert (len(lists), len(again.paths)) == (1, 1 + 4 * len(changed) + 3 * nested)


def create(heat: Heat, at: int) -> str:
    """Create a plain stack, a group that a signal grows, or one with a nested stack, in turn."""
    kind = at % 3
    if kind == 0:
        return heat.created(template(s=string(8 + at % 16)))
    if kind == 2:
        return heat.created(**parts(8 + at % 16))
    return heat.created(scaled(8 + at % 16, min_size=1, max_size=9))


def parts(length: int) -> dict[str, Any]:
    """The request for a stack that nests a file."""
    part = {"type": "part.yaml", "properties": {"length": length}}
    return {"template": template(one=part, two=part), "files": {"part.yaml": json.dumps(PART)}}


def grow(heat: Heat, name: str, size: int) -> None:
    """Have a signal add a member to a group, which then has so many."""
    assert heat.on(name, "POST", "/resources/up/signal").status_code == 200
    wait(lambda: len(heat.lengths(name)) == size and "IN_PROGRESS" not in str(heat.list_stacks()), heat.log)


@dataclass
class Scan:
    """A run: what was read, by the name of the stack, what was asked of Heat, and what the store then has."""

    feed: HeatFeed
    items: list[Item] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    report: RunReport = field(default_factory=RunReport)
    denied: set[str] = field(default_factory=set)
    total: int | None = None

    @property
    def whole(self) -> bool:
        return self.feed.whole

    def __iter__(self) -> Iterator[Item]:
        for item in self.feed:
            self.items.append(item)
            yield item

    @property
    def entries(self) -> dict[str, StackEntry]:
        return {item.name: item for item in self.items if isinstance(item, StackEntry)}

    def judged_lengths(self) -> dict[str, list[object]]:
        """The lengths of all strings in each stack as it was judged."""
        return {
            name: sorted(
                resource.properties["length"]
                for stack in read(entry).walk()
                for resource in stack.resources
                if resource.type == "OS::Heat::RandomString"
            )  # type: ignore[type-var]
            for name, entry in self.entries.items()
        }


def scan(heat: Heat, store: ScanStore) -> Scan:
    """Run a scan. Its clock is ahead: no change is of the last minute."""
    api = CountingApi()
    known = {root: entry.listing for root, entry in store.known("cloud").items()}
    result = Scan(HeatFeed(api, known, clock=lambda: time.time() + 3600))
    request = ScanRequest(load(read_rules([HERE / "rules"])), datetime.now(UTC))
    result.report = run(result, "cloud", store, Judges(request, 1), request)
    result.paths = api.paths
    stacks = {stack["id"]: stack["stack_name"] for stack in heat.ask("GET", "stacks").json()["stacks"]}
    assert ({item.root for item in result.items}, result.whole) == ({*stacks}, True)
    assert not [item for item in result.items if not isinstance(item, StackEntry | Unchanged)]
    updated = {root: row[1] for root, _, row in store.facts("heat:updated")}
    assert updated.keys() == stacks.keys()
    assert all(
        isinstance(time, str) and re.fullmatch(r"[0-9]{4}(-[0-9]{2}){2}T[0-9:]{8}Z", time) for time in updated.values()
    )
    result.denied = {stacks[finding.root] for finding in store.findings() if finding.denies}
    return result
