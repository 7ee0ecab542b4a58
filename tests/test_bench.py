"""The benches compare engines on the same work with equal answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import datalog_gate as dg
from bench import closures, evaluation, gate, job, peers, reference, scan
from bench.gate import digest
from bench.page import find_section, with_section
from bench.rules import long_text, many_policies
from bench.run import STACKS
from bench.timing import OURS, Jobs, measure
from datalog_gate.base.values import ResourceId
from datalog_gate.decision.policy_set import load
from datalog_gate.engine.native import evaluate
from datalog_gate.language.parser import parse

LARGE = job.body(150)
VIOLATIONS = {
    ("job.group", "server_0"),
    ("job.group", "server_50"),
    ("job.group", "server_100"),
    ("job.many", 150),
    ("job.zone", "attach_1"),
    ("job.zone", "attach_51"),
    ("job.zone", "attach_101"),
}


def test_we_find_the_violations_of_the_job() -> None:
    rules = job.rules()
    assert job.ours(rules, job.body(50)) == {("job.group", "server_0"), ("job.zone", "attach_1")}
    assert job.ours(rules, LARGE) == VIOLATIONS


def test_what_is_not_known_changes_no_certain_violation_of_the_job() -> None:
    rules = job.rules()
    assert job.ours(rules, job.unsure(150)) == VIOLATIONS
    request = json.loads(job.unsure(50))
    undetermined = rules.decide(dg.read_stack(template=request["template"], stack_name="big")).undetermined
    assert [violation.row[0] for violation in undetermined] == [
        ResourceId(f"big/attach_{at}") for at in (13, 23, 3, 33, 43)
    ]


@pytest.mark.parametrize("name", peers.PEERS)
def test_a_peer_finds_the_violations_of_the_job(name: str) -> None:
    peer = peers.installed()[name]
    if peer is None:
        pytest.skip(f"{name} is not installed")
    small = peer(job.body(50))
    assert (small, peer(LARGE), peer(job.body(50))) == (
        {("job.group", "server_0"), ("job.zone", "attach_1")},
        VIOLATIONS,
        small,
    )


@pytest.mark.parametrize(("resources", "size", "seed"), [(50, 10_000, 5), (600, 16_000, 3), (600, 16_000, 4)])
def test_the_reference_decides_as_we_do(resources: int, size: int, seed: int) -> None:
    cloud = gate.inventory(size, seed)
    stack = gate.stack(resources, cloud, seed)
    expected = reference.decide(reference.Inventory(cloud), stack)
    tables = evaluation.warm(evaluation.checked(gate.RULES), cloud)(stack)
    assert {name: set(rows) for name, rows in tables.items()} == expected
    assert all(expected.values()) or resources == 50


def test_many_stacks_at_once_have_the_findings_of_each() -> None:
    stacks = [dg.read_stack(STACKS / folder) for folder in ("bastion", "staging")]
    at_once, alone = evaluation.lifted(dg.load_rules("rules"), stacks)
    expected = {name: set(rows) for name, rows in alone().items()}
    assert {name: set(rows) for name, rows in at_once().items()} == expected
    assert {root for rows in expected.values() for root, *_ in rows} == {"bastion", "staging"}


def test_the_closures_are_equal() -> None:
    edges = closures.graph(60, 150, 9)
    ours = evaluate(evaluation.checked(closures.CLOSURE), {"job:edge": edges})
    assert set(ours.rows("job:path")) == reference.closure(edges)


def test_we_sqlite_and_the_reference_reach_the_same() -> None:
    edges = [*closures.chain(40), (3, 60), (60, 5), (90, 91)]
    expected = {(at,) for at in (*range(1, 41), 60)}
    ours = evaluate(evaluation.checked(closures.CHAIN), {"job:edge": edges})
    assert set(ours.rows("job:reached")) == expected
    assert reference.reached(edges, 0) == expected
    assert set(closures.reached(closures.database(edges))) == expected


def test_the_facts_are_the_same_each_time() -> None:
    cloud = gate.inventory(1000)
    stack = gate.stack(50, cloud)
    digests = [digest((name, *row) for name, rows in facts.items() for row in rows) for facts in (cloud, stack)]
    assert [*digests, digest(closures.graph()), digest([(LARGE,)])] == [
        "44ba60e732",
        "3bc0110b2c",
        "90570814d8",
        "9f4b2b41c5",
    ]


@pytest.mark.slow
def test_the_rules_of_the_bench_are_rules() -> None:
    policies = load(many_policies(300)).policies
    assert len({policy.id for policy in policies}) == len(policies) >= 300
    assert parse(long_text(), "f.dl", "f")[1] == ()


def test_the_stacks_of_a_scan_break_the_three_rules_as_others_find() -> None:
    rules, plain = job.rules(), peers.plain()
    texts = [json.dumps({"stack_name": "big", "template": scan.template(variant)}) for variant in range(0, 120, 5)]
    violations = [plain(text) for text in texts]
    assert [job.ours(rules, text) for text in texts] == violations
    assert set().union(*violations) == {("job.group", "server_0"), ("job.zone", "attach_0")}
    assert digest([(text,) for text in texts]) == "23afc7cd09"


def test_stacks_that_change_differ_in_a_name(tmp_path: Path) -> None:
    scan.write_stacks(tmp_path, (3, 1200))
    before = {path.name: path.read_text() for path in tmp_path.rglob("*.yaml")}
    scan.write_stacks(tmp_path, (3,), ".again")
    after = {path.name: path.read_text() for path in tmp_path.rglob("*.yaml")}
    assert [name for name in before if before[name] != after[name]] == ["0000003.yaml"]
    assert after["0000003.yaml"] == before["0000003.yaml"].replace("name: 3-", "name: 3.again-")


def test_a_section_is_written_in_place_of_the_one_of_its_title() -> None:
    page = "# Page\n\n## First\n\none\n\n## Versions\n\n- two\n"
    added = with_section(page, "Scan", "## Scan\n\nold\n")
    assert added == "# Page\n\n## First\n\none\n\n## Scan\n\nold\n\n## Versions\n\n- two\n"
    assert with_section(added, "Scan", "## Scan\n\nnew\n") == added.replace("old", "new")
    assert (find_section(added, "Scan"), find_section(page, "Scan")) == ("## Scan\n\nold\n\n", None)


@pytest.mark.slow
@pytest.mark.timeout(600)  # thirty commands, one after the other
def test_a_scan_is_measured_beside_single_checks() -> None:
    title, _, *rows, end = scan.measure(5)
    policies = len(dg.load_rules("rules").policies)
    assert [title.split(" | ")[0], *(row.split(" | ")[0] for row in rows), end] == [
        "| 5 stacks, 139 facts each",
        f"| `scan run`, {policies} policies, from nothing",
        "| `scan run`, a policy, from nothing",
        "| `scan run`, nothing changed",
        "| `scan run`, 1 % changed",
        "| `scan rejudge`, a new rule",
        "| `scan rejudge`, a new rule over flavors",
        "| `scan rejudge`, the three rules above",
        "| `scan rejudge`, two rules over the whole cloud",
        "| `scan rejudge`, all packs",
        "| a `check` for each, from 5 of them",
        "| OPA, the three rules above, JSON in one process, from 5 of them",
        "",
    ]


def test_findings_are_merged_with_as_many() -> None:
    title, _, *rows, end = scan.measure_merge(40)
    assert [title, *(row.split(" | ")[0] for row in rows), end] == [
        "| 40 findings, ten of each stack, in one batch | s | CPU s | goal |",
        "| stored",
        "| merged with as many",
        "",
    ]


def test_a_table_shows_what_is_missing_and_refuses_answers_that_differ() -> None:
    jobs: Jobs = {OURS: lambda: {"p": [(1,), (2,)]}, "other": None}
    *_, missing, end = measure("t", 1, jobs)
    assert (missing, end) == ("| other | missing | |", "")
    with pytest.raises(SystemExit, match="the answers differ"):
        list(measure("t", 1, {**jobs, "other": lambda: {"p": [(1,)]}}))
