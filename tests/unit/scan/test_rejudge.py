"""Stored facts answer what the stacks themselves do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlglot

import datalog_gate as dg
from datalog_gate.api import Rules
from datalog_gate.base.values import ResourceId
from datalog_gate.decision.policy_set import load
from datalog_gate.engine.sql.database import open_database
from datalog_gate.files.rules import read_rules
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.policytest.suite import read_suite
from datalog_gate.policytest.testfile import read_cases
from datalog_gate.scan import alike_stacks, stored_judgement
from datalog_gate.scan.batch import ScanRequest, judge_batch
from datalog_gate.scan.feed import StackEntry, TemplateFiles
from datalog_gate.scan.scan_run import Judges, run
from datalog_gate.scan.scan_store import ScanStore
from datalog_gate.scan.stored_judgement import Forecast, rejudge, sum_by_project
from tests.unit.scan.test_scan import HUGE, NAMELESS, RULES, SMALL, ListFeed, database, entry, policy_set, server, store  # noqa: F401

NOW = datetime(2027, 3, 1, tzinfo=UTC)
PACKS = Path("rules")
SILENT = {"cloud", "drift", "licence"}
"""The packs that say nothing of a stack alone, without an inventory and grants."""


def pack_stacks(packs: Path = PACKS) -> Iterator[StackEntry]:
    """The fixtures, and the stacks of the cases of these packs. Many have one name, which is not their root."""
    sources: list[StackDefinition | TemplateFiles] = []
    for folder in sorted(Path("fixtures/stacks").iterdir()):
        if (folder / "template.yaml").exists():
            sources.append(TemplateFiles(str(folder.resolve()), (), str(folder.resolve()), {}))
    for file in sorted(packs.rglob("test.yaml")):
        for case in read_cases(file):
            given = case.given["stack"]
            if isinstance(given, Path):
                sources.append(TemplateFiles(str(given.resolve()), (), str(given.parent.resolve()), {}))
            else:
                sources.append(StackDefinition(given, case.given.get("environment") or {}))
    for number, source in enumerate(sources):
        yield StackEntry(f"root-{number}", ("shop", "web")[number % 2], f"project-{number}", source)


def forecast(entries: list[StackEntry], asked: ScanRequest) -> list[Forecast]:
    """What the stacks themselves say, each judged by itself."""
    findings: dict[tuple[str | None, str], Counter[str]] = {}
    for result in judge_batch(entries, asked).results:
        for finding in result.findings:
            if finding.state in ("holds", "undetermined"):
                findings.setdefault((result.entry.project, finding.policy), Counter())[finding.root] += 1
    return [Forecast(*group, roots.total(), len(roots)) for group, roots in sorted(findings.items())]


def fill(store: ScanStore, entries: list[StackEntry]) -> ScanStore:  # noqa: F811
    """The store after a run by other rules."""
    first = ScanRequest(policy_set(), NOW)
    run(ListFeed(entries), "test", store, Judges(first, 1), first)
    return store


def judge_again(store: ScanStore, asked: ScanRequest) -> list[Forecast]:  # noqa: F811
    """What the store says, which stays as it is."""
    before = store.digest()
    forecasts = sum_by_project(rejudge(store, asked, Judges(asked, 1)), store.stacks())
    assert store.digest() == before
    return forecasts


@pytest.mark.slow
@pytest.mark.parametrize("pack", sorted(file.parent for file in PACKS.glob("*/pack.yaml")), ids=str)
def test_a_pack_finds_the_same_in_stored_facts_as_in_stacks(
    store: ScanStore,  # noqa: F811
    pack: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alike_stacks, "FEWEST", 2)
    entries = list(pack_stacks(pack))
    entries += [replace(entry, root=f"{entry.root}-again", name="other") for entry in entries]
    rules = load(read_rules([pack]))
    local = tuple(policy for policy in rules.policies if policy.id not in rules.cloud_wide)
    asked = ScanRequest(replace(rules, policies=local), NOW)
    forecasts = judge_again(fill(store, entries), asked)
    assert forecasts == forecast(entries, asked)
    assert bool(forecasts) == (pack.name not in SILENT)


DRIFT = Path("rules/drift/test.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("name", [case.name for case in read_cases(DRIFT)])
def test_drift_is_found_the_same_in_stored_facts_as_in_stacks(store: ScanStore, name: str) -> None:  # noqa: F811
    suite = read_suite(DRIFT)
    case = next(case for case in suite.cases if case.name == name)
    stacks = [
        StackEntry(stack.id, stack.id, "p1", StackDefinition(case.given["stack"]), live=stack.live)
        for stack in suite.stacks(case)
    ]
    rules = dg.load_rules("rules/drift")
    asked = rules.scan_request(NOW, inventory=case.given["inventory"])
    forecasts = judge_again(fill(store, stacks), asked)
    assert forecasts == forecast(stacks, asked)
    expected = [finding for key in ("violations", "undetermined") for finding in case.expect.get(key, ())]
    found = Counter({row.policy: row.findings for row in forecasts})
    assert found == Counter(finding["policy"] for finding in expected)


UNKNOWN = StackDefinition(
    {
        "heat_template_version": "2018-08-31",
        "parameters": {
            "flavor": {"type": "string"},
            "image": {"type": "string", "hidden": True, "default": "hidden"},
            "wanted": {"type": "boolean"},
        },
        "conditions": {"wanted": {"get_param": "wanted"}},
        "resources": {
            "vm": {
                "type": "OS::Nova::Server",
                "properties": {"flavor": {"get_param": "flavor"}, "image": {"get_param": "image"}},
            },
            "maybe": {
                "type": "OS::Neutron::Port",
                "condition": "wanted",
                "properties": {"network": "n", "name": {"get_attr": ["vm", "name"]}},
            },
        },
    }
)
GRANTED = StackDefinition(
    {
        "heat_template_version": "2018-08-31",
        "resources": {
            "vm": {"type": "OS::Nova::Server", "properties": {"flavor": "huge"}},
            "grant": {"type": "DatalogGate::Policy", "properties": {"service": "edge", "scope": ["vm"]}},
        },
    }
)
ENTRIES = [
    entry("a", HUGE, "p1"),
    entry("b", UNKNOWN, "p1"),
    entry("c", SMALL, "p2"),
    entry("d", NAMELESS, "p2"),
    replace(entry("e", HUGE, "p3"), caller={"user": "u", "project": "p3", "roles": ["admin"]}),
    entry("f", server(flavor="stack-f", name="stack-f/vm"), "p4"),
    entry("g", GRANTED, "p4"),
]
OF_FLAVOR = """
@warn("policy", "{server}")
p(server) :- os:nova:server(_id=server, flavor=flavor), is_string(flavor), """
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "a value that may be unknown": (RULES, {}),
    "a row that may not be there": ('@warn("port", "{x}")\np(x) :- os:neutron:port(_id=x, network=n), n != null.', {}),
    "no row that is sure": (
        '@warn("bare", "{x}")\np(x) :- heat:root(stack=x), not os:neutron:port(_stack=x).',
        {},
    ),
    "a hidden value": ('@warn("image", "{x}")\np(x) :- os:nova:server(_id=x, image="hidden").', {}),
    "who asks": (OF_FLAVOR + 'gate:role("admin").', {}),
    "whose project asks": (OF_FLAVOR + 'gate:caller(project=project), project != "p1".', {}),
    "what a grant opens": (
        '@unlock("edge") open(grant) :- gate:grant(id=grant, service="edge").\n'
        + OF_FLAVOR
        + 'not gate:unlocked("edge", server).',
        {"services": ["edge"]},
    ),
    "an expression that may fail": (OF_FLAVOR + "cidr_host_count(flavor, n), n > 1.", {}),
    "the name of the stack": (OF_FLAVOR + "heat:root(stack=flavor).", {}),
    "the name of the stack in an id": (
        OF_FLAVOR + "os:nova:server(_id=server, name=name), is_string(name), all = list{ x : x = server },"
        ' concat(all, "/", path), contains(path, name).',
        {},
    ),
    "a relation of no stack": (OF_FLAVOR + 'starts_with(flavor, "h"), gate:service("edge").', {"services": ["edge"]}),
    "nothing of a stack": ('@warn("always", "{x}")\np(x) :- x = 1.', {}),
    "a number of all": ('@warn("many", "{n}")\np(n) :- n = count{ x : os:nova:server(_id=x) }, n >= 0.', {}),
    "an inventory": (
        OF_FLAVOR + "nova:flavors(name=flavor).",
        {"inventory": {"nova:flavors": [["1", "huge", 1, 1, 1, 0, 1]]}},
    ),
    "an inventory with what stacks fill too": (
        OF_FLAVOR + "n = count{ x : os:nova:server.tags(_id=x) }, n > 0.",
        {"inventory": {"os:nova:server.tags": [[ResourceId("other/vm"), 0, "t"]]}},
    ),
    "a waiver": (
        RULES,
        {
            "waivers": [
                {"id": "W-1", "policy": "size", "owner": "o", "reason": "r", "expires": "2028-01-01", "project": "p1"}
            ]
        },
    ),
}


EQUATIONS = {
    "and is not": 'p(s) :- os:nova:server(_id=s, flavor=x), known(i), x = i, x != "a".',
    "and is none of others": 'p(s) :- os:nova:server(_id=s, flavor=x), known(i), x = i, not other(x).\nother("a").',
    "and is another for a reader": (
        'p(s) :- own(s, "zz").\nown(s, x) :- os:nova:server(_id=s, flavor=x), known(i), x = i.'
    ),
    "is one constant and not the other": 'p(s) :- os:nova:server(_id=s, flavor=x), x = "a", x != "a".',
    "is what another is": 'p(s) :- os:nova:server(_id=s, flavor=x), v = x, known(i), v = i, v != "a".',
    "is two": 'p(s) :- os:nova:server(_id=s, flavor=x), pair(y, z), x = y, z = x.\npair("a", "b").',
    "is counted": (
        'p(n) :- own(n, 0).\nown(s, n) :- heat:resource(s, type="OS::Nova::Server"),'
        ' n = count{ v : os:nova:server(_id=v, flavor="a") }, n = 1.'
    ),
}
"""Rules that equate a value that may be unknown with one that is known: an equation only tests the unknown."""
CASES |= {
    f"an unknown equals what is known, {name}": (f'@warn("policy", "{{x}}")\ntop(x) :- p(x).\n{text}\nknown("a").', {})
    for name, text in EQUATIONS.items()
}


@pytest.fixture(scope="module")
def filled() -> Iterator[ScanStore]:
    """A store of `ENTRIES`, in which no test changes anything."""
    with open_database() as opened:
        yield fill(ScanStore(opened), ENTRIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_rules_find_the_same_in_stored_facts_as_in_stacks(filled: ScanStore, name: str) -> None:
    text, given = CASES[name]
    asked = Rules(policy_set(text)).scan_request(NOW, **given)
    forecasts = judge_again(filled, asked)
    assert forecasts == forecast(ENTRIES, asked)


def test_the_stored_facts_answer_where_they_are_those_of_this_version(store: ScanStore) -> None:  # noqa: F811
    entries = [entry("a", HUGE), entry("b", HUGE)]
    asked = ScanRequest(policy_set(), NOW)
    assert judge_again(fill(store, entries), asked) == [Forecast("p1", "size", 2, 2)]
    store.database.execute(sqlglot.exp.update("os__nova__server", {"flavor": "Ssmall"}))
    assert sum_by_project(rejudge(store, asked, Judges(asked, 1)), store.stacks()) == []
    store.database.execute(sqlglot.exp.update("definition", {"judged_by": "other"}, where="root = 'a'"))
    assert sum_by_project(rejudge(store, asked, Judges(asked, 1)), store.stacks()) == [Forecast("p1", "size", 1, 1)]


def test_stacks_that_facts_leave_open_are_judged_in_many_batches(
    filled: ScanStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, number in (("STORED_BATCH", 5), ("BATCH", 1), ("AHEAD", 2)):
        monkeypatch.setattr(stored_judgement, name, number)
    text, given = CASES["a waiver"]
    asked = Rules(policy_set(text)).scan_request(NOW, **given)
    forecasts = judge_again(filled, asked)
    assert forecasts == forecast(ENTRIES, asked)
