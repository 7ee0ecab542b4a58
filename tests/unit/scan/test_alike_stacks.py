"""One of alike stacks is judged, for each as if by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlglot

from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.scan import alike_stacks
from datalog_gate.scan.batch import ScanRequest
from datalog_gate.scan.feed import StackEntry
from datalog_gate.scan.folder_feed import FolderFeed
from datalog_gate.scan.scan_run import Judges, run
from datalog_gate.scan.scan_store import ScanStore
from datalog_gate.scan.stored_judgement import Forecast, rejudge, sum_by_project
from tests.unit.scan.test_rejudge import NOW, fill, forecast, judge_again
from tests.unit.scan.test_scan import database, policy_set, store  # noqa: F401

LARGE = """@warn("large", "{server} is large")
large(server) :- os:nova:server(_id=server, flavor="large").
"""
SAME = """@warn("same", "{server} is like {other}")
same(server, other) :-
  os:nova:server(_id=server, flavor=flavor), os:nova:server(_id=other, flavor=flavor), server != other.
"""
TEXT = """@warn("text", "{server}")
text(server) :-
  os:nova:server(_id=server, flavor=flavor), flavor != "small", all = list{ x : os:nova:server(_id=x) },
  contains(all, "stack-1").
"""
OF_STACK = """@warn("of_stack", "{server}")
of_stack(server) :- os:nova:server(_id=server, _stack=stack, flavor=flavor), flavor != "small", ends_with(stack, "1").
"""
BETWEEN = """@warn("between", "{volume}")
between(volume) :- os:cinder:volume(_id=volume, size=size), size ?? 0 > 10.
"""
RULES = LARGE + SAME + TEXT + OF_STACK + BETWEEN


def stack(parameters: dict[str, Any], **resources: Any) -> StackDefinition:
    return StackDefinition({"heat_template_version": "2021-04-16", "parameters": parameters, "resources": resources})


def server(**properties: Any) -> dict[str, Any]:
    return {"type": "OS::Nova::Server", "properties": {"networks": [{"network": "n"}], **properties}}


def parameter(name: str) -> dict[str, str]:
    return {"get_param": name}


TEXTS = {"a": {"type": "string"}, "b": {"type": "string"}}
A, B = server(flavor=parameter("a")), server(flavor=parameter("b"))
FEW = {"type": "string", "constraints": [{"allowed_values": ["large", "huge"]}]}
MANY = {"type": "string", "constraints": [{"allowed_values": ["large"]}]}
OTHERS = {"type": "string", "constraints": [{"allowed_values": ["tiny", "huge"]}]}
HIDDEN = {"type": "string", "hidden": True, "default": "large"}
OTHER_HIDDEN = {"type": "string", "hidden": True, "default": "tiny"}
VOLUME = {"type": "OS::Cinder::Volume", "properties": {"size": parameter("a")}}


def size(low: int, high: int) -> dict[str, Any]:
    return {"type": "number", "constraints": [{"range": {"min": low, "max": high}}]}


def members(flavor: str) -> dict[str, Any]:
    group = {"count": parameter("a"), "resource_def": server(flavor=flavor)}
    return {"type": "OS::Heat::ResourceGroup", "properties": group}


STACKS = {
    "an unknown": stack(TEXTS, vm=A),
    "an unknown of another name": stack(TEXTS, vm=B),
    "with another name": stack(TEXTS, other=A),
    "beside a known one": stack(TEXTS, vm=A, other=server(flavor="large")),
    "beside another known one": stack(TEXTS, vm=A, other=server(flavor="small")),
    "twice": stack(TEXTS, vm=A, other=A),
    "two of them": stack(TEXTS, vm=A, other=B),
    "two of them, exchanged": stack(TEXTS, vm=B, other=A),
    "one of two values": stack({"a": FEW}, vm=A),
    "the only value": stack({"a": MANY}, vm=A),
    "one of other values": stack({"a": OTHERS}, vm=A),
    "a hidden value": stack({"a": HIDDEN}, vm=A),
    "another hidden value": stack({"a": OTHER_HIDDEN}, vm=A),
    "an unknown flavor and name": stack(TEXTS, vm=server(flavor=parameter("a"), name=parameter("b"))),
    "a small number": stack({"a": size(1, 9)}, v=VOLUME),
    "a larger number": stack({"a": size(5, 20)}, v=VOLUME),
    "a large number": stack({"a": size(11, 20)}, v=VOLUME),
    "a group": stack({"a": {"type": "number"}}, group=members("large")),
    "a group of others": stack({"a": {"type": "number"}}, group=members("small")),
    "one that may be there": StackDefinition(
        {
            "heat_template_version": "2021-04-16",
            "parameters": {"a": {"type": "boolean"}},
            "conditions": {"wanted": parameter("a")},
            "resources": {"vm": {**server(flavor="large"), "condition": "wanted"}},
        }
    ),
    "the name of the stack": stack(TEXTS, vm=server(flavor=parameter("OS::stack_name"), name=parameter("a")), x=A),
}


@pytest.fixture(autouse=True)
def two_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike_stacks, "FEWEST", 2)


def copies(*names: str) -> list[StackEntry]:
    """Three stacks of each definition, whose names differ; each name is that of a stack of the next definition too."""
    return [
        StackEntry(f"root-{at}-{number}", f"stack-{number}", f"{at:02} {name}", STACKS[name])
        for at, name in enumerate(names)
        for number in (1, 2, 11)
    ]


@pytest.mark.parametrize("rules", [RULES, LARGE, SAME, TEXT, OF_STACK, BETWEEN])
def test_each_stack_has_the_findings_that_it_has_by_itself(store: ScanStore, rules: str) -> None:  # noqa: F811
    entries = copies(*STACKS)
    asked = ScanRequest(policy_set(rules), NOW)
    assert judge_again(fill(store, entries), asked) == forecast(entries, asked)


def test_one_of_alike_stacks_is_judged_for_all(store: ScanStore) -> None:  # noqa: F811
    entries = copies("an unknown", "an unknown flavor and name", "one of two values")
    fill(store, entries)
    asked = ScanRequest(policy_set(LARGE), NOW)
    for other in entries:
        if not other.root.endswith("-1"):  # two findings, if it is judged
            changed = json.dumps(replace(other, source=STACKS["beside a known one"]).to_json())
            store.database.execute(sqlglot.exp.update("definition", {"entry": changed}, where=f"root = '{other.root}'"))
    assert judge_again(store, asked) == [
        Forecast("00 an unknown", "large", 3, 3),
        Forecast("01 an unknown flavor and name", "large", 3, 3),
        Forecast("02 one of two values", "large", 5, 3),
    ]


def test_a_changed_file_is_judged_for_its_own_stack_alone(store: ScanStore, tmp_path: Path) -> None:  # noqa: F811
    text = json.dumps(STACKS["an unknown"].template)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.yaml").write_text(text)
    first, asked = ScanRequest(policy_set(), NOW), ScanRequest(policy_set(LARGE), NOW)
    run(FolderFeed(tmp_path, {}), "folder", store, Judges(first, 1), first)
    (tmp_path / "a.yaml").write_text(json.dumps(STACKS["the only value"].template).replace('"large"', '"tiny"'))
    (tmp_path / "b.yaml").unlink()
    assert sum_by_project(rejudge(store, asked, Judges(asked, 1)), store.stacks()) == [Forecast(None, "large", 1, 1)]
