"""The benches compare engines on the same work with equal answers."""

from __future__ import annotations

import json

import pytest

import datalog_gate as dg
from bench import closures, evaluation, gate, job, peers, reference, scan
from bench.gate import digest
from bench.run import STACKS
from bench.timing import OURS, Jobs, measure
from datalog_gate.base.values import ResourceId
from datalog_gate.engine.native import evaluate

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


def test_the_stacks_of_a_scan_break_the_three_rules_as_others_find() -> None:
    rules, plain = job.rules(), peers.plain()
    texts = [json.dumps({"stack_name": "big", "template": scan.template(variant)}) for variant in range(0, 120, 5)]
    violations = [plain(text) for text in texts]
    assert [job.ours(rules, text) for text in texts] == violations
    assert set().union(*violations) == {("job.group", "server_0"), ("job.zone", "attach_0")}
    assert digest([(text,) for text in texts]) == "23afc7cd09"


def test_a_table_shows_what_is_missing_and_refuses_answers_that_differ() -> None:
    jobs: Jobs = {OURS: lambda: {"p": [(1,), (2,)]}, "other": None}
    *_, missing, end = measure("t", 1, jobs)
    assert (missing, end) == ("| other | missing | |", "")
    with pytest.raises(SystemExit, match="the answers differ"):
        list(measure("t", 1, {**jobs, "other": lambda: {"p": [(1,)]}}))
