"""A scan reads every stack of a running Heat as it is, and again only what changed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import datalog_gate as dg
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.inventory.cloud_api import CloudApi
from datalog_gate.inventory.table_sources import ApiService
from datalog_gate.scan.feed import Item, StackEntry, Unchanged, read
from datalog_gate.scan.heat_feed import HeatFeed
from tests.heat.doors.rig import HERE, Heat, running, wait
from tests.heat.doors.templates import LONG, string, template

PART = {
    "heat_template_version": "2018-08-31",
    "parameters": {"length": {"type": "number"}},
    "resources": {"s": string({"get_param": "length"})},
}
RULES = HERE / "rules"


class CountingApi(CloudApi):
    """Counts what is asked of Heat."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []

    def get(self, service: ApiService, path: str) -> Any:
        self.paths.append(path)
        return super().get(service, path)


@pytest.fixture(scope="module", params=["convergence", "legacy"])
def heat(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heat]:
    """A Heat of either engine, of this module alone, whose doors stop nothing."""
    folder = tmp_path_factory.mktemp(request.param)
    with running(folder, request.param == "convergence", options={"mode": "record"}) as running_heat:
        yield running_heat


@pytest.mark.parametrize("number", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_every_stack_is_judged_as_it_is_and_only_what_changed_is_read_again(
    heat: Heat, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    heat.empty()
    heat.login(monkeypatch)
    names = [create(heat, at) for at in range(number)]
    grow(heat, names[1], 2)
    slipped = heat.created(LONG)
    entries, _ = scan(heat, {})
    assert judged_lengths(entries) == {name: heat.lengths(name) for name in [*names, slipped]}
    assert {name for name, entry in entries.items() if denies(entry)} == {slipped}

    changed = names[: max(3, number // 20)]
    grow(heat, changed[1], 3)
    for name in (changed[0], *changed[2:]):
        body = {"template": template(s=string(40))} if not is_nested(name, names) else parts(40)
        assert heat.updated(name, **body)[0] == "UPDATE_COMPLETE"
    again, paths = scan(heat, {entry.root: entry.listing for entry in entries.values()})
    assert judged_lengths(again) == {name: heat.lengths(name) for name in changed}
    assert {name for name, entry in again.items() if denies(entry)} == {changed[0], *changed[2:]}
    lists = [path for path in paths if "global_tenant" in path]
    definitions = [entry.source for entry in again.values() if isinstance(entry.source, StackDefinition)]
    nested = sum(len(definition.held.stacks) for definition in definitions)
    assert (len(lists), len(paths)) == (1, 1 + 4 * len(changed) + 3 * nested)


def create(heat: Heat, at: int) -> str:
    """Create a plain stack, a group that a signal grows, or one with a nested stack, in turn."""
    kind = at % 3
    if kind == 0:
        return heat.created(template(s=string(8 + at % 16)))
    if kind == 2:
        return heat.created(**parts(8 + at % 16))
    group = {
        "type": "OS::Heat::AutoScalingGroup",
        "properties": {"min_size": 1, "max_size": 9, "resource": string(8 + at % 16)},
    }
    policy = {
        "auto_scaling_group_id": {"get_resource": "farm"},
        "adjustment_type": "change_in_capacity",
        "scaling_adjustment": 1,
    }
    return heat.created(template(farm=group, up={"type": "OS::Heat::ScalingPolicy", "properties": policy}))


def parts(length: int) -> dict[str, Any]:
    """The request for a stack that nests a file."""
    part = {"type": "part.yaml", "properties": {"length": length}}
    return {"template": template(one=part, two=part), "files": {"part.yaml": json.dumps(PART)}}


def is_nested(name: str, names: list[str]) -> bool:
    return names.index(name) % 3 == 2


def grow(heat: Heat, name: str, size: int) -> None:
    """Have a signal add a member to a group, which then has so many."""
    assert heat.on(name, "POST", "/resources/up/signal").status_code == 200
    wait(lambda: len(heat.lengths(name)) == size and all_complete(heat), heat.log)


def all_complete(heat: Heat) -> bool:
    return not any(stack["stack_status"].endswith("IN_PROGRESS") for stack in heat.list_stacks())


def scan(heat: Heat, known: Mapping[str, str | None]) -> tuple[dict[str, StackEntry], list[str]]:
    """What is read, by the name of the stack, and the paths that were asked for. The clock is ahead: no change is of
    the last minute."""
    api = CountingApi()
    feed = HeatFeed(api, known, clock=lambda: time.time() + 3600)
    items: list[Item] = list(feed)
    stacks = heat.ask("GET", "stacks").json()["stacks"]
    assert ({item.root for item in items}, feed.whole) == ({stack["id"] for stack in stacks}, True)
    assert {item.root for item in items if isinstance(item, Unchanged)} <= known.keys()
    assert not [item for item in items if not isinstance(item, StackEntry | Unchanged)]
    return {item.name: item for item in items if isinstance(item, StackEntry)}, api.paths


def judged_lengths(entries: Mapping[str, StackEntry]) -> dict[str, list[object]]:
    """The lengths of all strings in each stack as it is judged."""
    return {
        name: sorted(
            resource.properties["length"]
            for stack in read(entry).walk()
            for resource in stack.resources
            if resource.type == "OS::Heat::RandomString"
        )  # type: ignore[type-var]
        for name, entry in entries.items()
    }


def denies(entry: StackEntry) -> bool:
    return dg.load_rules(RULES).decide(read(entry)).outcome == "deny"
