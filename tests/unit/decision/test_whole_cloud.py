"""Policies over the whole cloud, judged by the rows of its stacks."""

from __future__ import annotations

from datetime import UTC, datetime

from datalog_gate.base.values import ResourceId, Value
from datalog_gate.decision.cloud_state import loaded
from datalog_gate.decision.decision import PolicyError
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.decision.request import DecisionRequest
from datalog_gate.decision.whole_cloud import CloudProgram, CloudRows, find_cloud_program
from tests.expressions import unknown_of

ATTACHMENT = "os:cinder:volume_attachment"
SHARED = f"""@deny("shared", "{{one}} attaches {{volume}} as {{other}} does", enforce_from="2027-04-01")
shared(one, other, volume) :-
  {ATTACHMENT}(_id=one, volume_id=volume), all:{ATTACHMENT}(_id=other, volume_id=volume), one != other.
"""
ALONE = '@deny("alone", "{x}") alone(x) :- heat:stack(id=x).\n'
STACKS = {"r1": ("web", "p1"), "r2": ("db", "p2")}
MARCH = DecisionRequest("create", datetime(2027, 3, 1, tzinfo=UTC))


def cloud_program(text: str) -> CloudProgram:
    return find_cloud_program(load([RuleFile("m", "m.dl", text)]))


def judged(rows: CloudRows) -> list[tuple[str, str, str, str, bool]]:
    found = [violation for violation in rows.judge(STACKS, MARCH) if not isinstance(violation, PolicyError)]
    return [
        (root, state, violation.message, violation.resource.path if violation.resource else "", violation.enforced)
        for root, state, violation in found
    ]


def attached(*volumes: tuple[str, Value]) -> CloudRows:
    """The rows of stacks whose resource `link` attaches a volume, by root."""
    rows = CloudRows(cloud_program(SHARED + ALONE))
    for root, volume in volumes:
        rows.add(ATTACHMENT, root, STACKS[root][1], (ResourceId(f"{root}/link"), root, "server", None, volume))
    return rows


def test_each_stack_is_judged_beside_the_others() -> None:
    assert judged(attached(("r1", "v"), ("r2", "v"))) == [
        ("r1", "holds", "web/link attaches v as db/link does", "web/link", False),
        ("r2", "holds", "db/link attaches v as web/link does", "db/link", False),
    ]
    assert judged(attached(("r1", "v"), ("r2", "w"))) == []


def test_what_an_unknown_decides_is_undetermined() -> None:
    states = [violation[:2] for violation in judged(attached(("r1", "v"), ("r2", unknown_of("a volume"))))]
    assert states == [("r1", "undetermined"), ("r2", "undetermined")]


def test_only_policies_whose_relations_have_rows_are_judged() -> None:
    program = cloud_program(SHARED)
    inventory = loaded(program.rules, {})
    assert [policy.id for policy in program.restrict({ATTACHMENT}, inventory).policies] == ["shared"]
    assert program.restrict(set(), inventory).policies == []
    assert cloud_program(ALONE).policies == []
