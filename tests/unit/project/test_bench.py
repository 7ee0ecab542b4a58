"""The benches compare engines fairly, and refuse different answers."""

from __future__ import annotations

import json

import pytest

import datalog_gate as dg
from bench import job, peers, scan
from bench.gate import digest
from bench.timing import OURS, Jobs, measure
from datalog_gate.base.values import ResourceId

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
