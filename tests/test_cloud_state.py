"""The state of the cloud: rows, the rules over it, and reuse."""

from __future__ import annotations

import pytest

import datalog_gate as dg
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import Row
from datalog_gate.decision.cloud_state import Inventory, loaded
from datalog_gate.decision.policy_set import PolicySet, RuleFile, load
from datalog_gate.engine.native import evaluate
from datalog_gate.schema.declaration import RelationRef
from tests.expressions import worded

RULES = """
relation rack(host: string, rack: string).
relation link(from: string, to: string).
relation spare(host: string).
reach(a, b) :- link(a, b).
reach(a, c) :- reach(a, b), link(b, c).
alone(host) :- rack(host, _), not reach(host, _).
many(n) :- n = count{ host : rack(host, _) }.
@deny("far", "{s} can't reach a spare host")
far(s) :- os:nova:server(_id=s, availability_zone=host), alone(host), not spare(host), heat:resource(id=s).
"""
ROWS: dict[str, list[Row]] = {
    "m:rack": [("a", "r1"), ("b", "r1"), ("c", "r2")],
    "m:link": [("a", "b"), ("b", "c")],
    "m:spare": [("d",)],
}


@pytest.fixture(scope="module")
def rules() -> PolicySet:
    return load([RuleFile("m", "m.dl", RULES)])


def placed(rows: dict[str, list[Row]]) -> dict[RelationRef, dict[Row, Span]]:
    return {name: {row: Span("i.jsonl", at, 1, at, 1) for at, row in enumerate(some, 1)} for name, some in rows.items()}


def tables(inventory: Inventory) -> dict[RelationRef, set[Row]]:
    return {name: set(table.rows) for name, table in inventory.model.tables.items()}


def test_what_rests_on_it_alone_is_derived_when_it_is_loaded(rules: PolicySet) -> None:
    assert tables(loaded(rules, placed(ROWS))) == {
        "m:rack": {("a", "r1"), ("b", "r1"), ("c", "r2")},
        "m:link": {("a", "b"), ("b", "c")},
        "m:spare": {("d",)},
        "m:reach": {("a", "b"), ("a", "c"), ("b", "c")},
        "m:alone": {("c",)},
        "m:many": {(3,)},
    }
    assert loaded(rules, {"os:nova:server": {}}).model.tables.keys() == loaded(rules, {}).model.tables.keys()


def test_one_row_that_changes_renews_only_what_rests_on_it(rules: PolicySet) -> None:
    first = loaded(rules, placed(ROWS))
    first.model.tables["m:rack"].index((), (0,))
    second = loaded(rules, placed({**ROWS, "m:rack": [*ROWS["m:rack"], ("e", "r2")]}), first)
    assert tables(second) == tables(loaded(rules, placed({**ROWS, "m:rack": [*ROWS["m:rack"], ("e", "r2")]})))
    assert second.model.tables["m:rack"].indexed == first.model.tables["m:rack"].indexed
    shared = {name for name in tables(first) if first.model.tables[name] is second.model.tables[name]}
    assert shared == {"m:link", "m:spare", "m:reach"}
    assert tables(first) == tables(loaded(rules, placed(ROWS)))


def test_rows_that_hold_an_unknown_leave_what_rests_on_them_to_the_decision(rules: PolicySet) -> None:
    inventory = loaded(rules, placed({**ROWS, "m:spare": [(worded("u"),)]}))
    assert inventory.model.tables.keys() == {"m:rack", "m:link", "m:spare"}


def test_it_can_be_given_without_what_it_derived(rules: PolicySet) -> None:
    bare = loaded(rules, placed(ROWS)).bare()
    assert bare.model.tables.keys() == {"m:rack", "m:link", "m:spare"}
    assert evaluate(rules.program, {}, before=bare.model).rows("m:alone") == {("c",): None}


TEMPLATE = """
heat_template_version: 2018-08-31
resources: {web: {type: OS::Nova::Server, properties: {flavor: tiny, image: i, availability_zone: c}}}
"""


def test_a_loaded_inventory_serves_any_number_of_decisions_and_stays_as_it_is() -> None:
    first = dg.Rules(load([RuleFile("m", "m.dl", RULES)]))
    stack = dg.read_stack(template=TEMPLATE, stack_name="s")
    loaded_inventory = first.inventory(ROWS)
    before = tables(loaded_inventory)
    decisions = [
        first.decide(stack, inventory=inventory, now="2027-01-01").to_json()
        for inventory in (loaded_inventory, loaded_inventory, ROWS)
    ]
    assert decisions[0] == decisions[1] == decisions[2]
    assert decisions[0]["outcome"] == "deny"
    assert tables(loaded_inventory) == before
    spared = first.inventory({**ROWS, "m:spare": [("c",)]}, loaded_inventory)
    assert first.decide(stack, inventory=spared).outcome == "allow"
    other = dg.Rules(load([RuleFile("m", "m.dl", RULES + "// another\n")]))
    with pytest.raises(dg.UsageError, match=r"^the inventory was loaded for other rules$"):
        other.decide(stack, inventory=loaded_inventory)
