"""The state of the cloud: rows, the rules over it, and reuse."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import datalog_gate as dg
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import Row
from datalog_gate.decision.cloud_state import Inventory, Reading, loaded
from datalog_gate.decision.policy_set import PolicySet, RuleFile, load
from datalog_gate.decision.query import QueryInputs, ask
from datalog_gate.engine.native import evaluate
from datalog_gate.facts.lines import FactLine
from datalog_gate.schema.declaration import RelationRef
from tests.expressions import worded
from tests.sources import ROOT

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


STALE = """
@deny("stale", "{table} was read {s} seconds ago")
stale(table, s) :- gate:inventory_age(table, s), s > 3600.
@deny("unread", "{s} may not fit: nobody read the hosts")
unread(s) :- os:nova:server(_id=s), not gate:inventory_age(table="nova:hosts").
"""
READ: dict[str, list[list[object]]] = {
    "gate:inventory": [
        ["nova:servers", "2027-03-01T12:00:00Z", None],
        ["nova:servers", "2027-03-01T11:59:59.5Z", "the older counts"],
        ["nova:servers", "2027-03-01T13:00:00Z", None],
        ["nova:hosts", None, "never"],
        ["nova:flavors", "2027-03-01T15:00:00+02:00", None],
    ]
}
SERVER = "{heat_template_version: 2018-08-31, resources: {s: {type: OS::Nova::Server}}}"


def test_the_age_of_a_table_is_that_at_the_time_of_the_request() -> None:
    rules = dg.Rules(load([RuleFile("m", "m.dl", STALE)]))
    inventory = rules.inventory(READ)
    stack = dg.read_stack(template=SERVER, stack_name="web")

    def messages(now: str) -> list[str]:
        decision = rules.decide(stack, inventory=inventory, now=now)
        return [violation.message for violation in decision.violations]

    unread = "s may not fit: nobody read the hosts"
    assert messages("2027-03-01T13:00:00Z") == [unread]
    assert messages("2027-03-01T13:00:01Z") == ["nova:servers was read 3601 seconds ago", unread]
    assert inventory.readings == {
        "nova:servers": Reading(datetime(2027, 3, 1, 11, 59, 59, 500_000, UTC), "the older counts"),
        "nova:hosts": Reading(None, "never"),
        "nova:flavors": Reading(datetime(2027, 3, 1, 13, tzinfo=UTC), ""),
    }
    assert [*inventory.ages(datetime(2027, 3, 1, 12, tzinfo=UTC))] == [("nova:servers", 0), ("nova:flavors", -3600)]


def test_the_age_is_part_of_the_id_and_stops_what_was_there_too() -> None:
    rules = dg.Rules(load([RuleFile("m", "m.dl", STALE)]))
    stack = dg.read_stack(template=SERVER, stack_name="web")
    late, later = (
        rules.decide(stack, inventory=READ, against=stack, now=now).to_json()
        for now in ("2027-03-01T14:00:00Z", "2027-03-01T14:00:01Z")
    )
    assert (late["id"] != later["id"], late["outcome"]) == (True, "deny")
    plain = dg.Rules(load([RuleFile("m", "m.dl", RULES)]))
    first, second = (
        plain.decide(stack, inventory=READ, now=now).to_json()
        for now in ("2027-03-01T14:00:00Z", "2027-03-01T14:00:01Z")
    )
    assert first == second


def test_a_reading_at_no_time_is_an_error() -> None:
    rules = dg.Rules(load([RuleFile("m", "m.dl", STALE)]))
    with pytest.raises(dg.InputError) as error:
        rules.inventory({"gate:inventory": [["nova:servers", "noon", None]]})
    assert str(error.value) == "<gate:inventory>:1:1: error[bad-facts] noon is not a time"


def test_a_query_knows_the_ages() -> None:
    lines = [FactLine("gate:inventory", ("nova:servers", "2027-03-01T12:00:00Z", None), Span("f", 1, 1, 1, 1))]
    now = datetime(2027, 3, 1, 12, 30, tzinfo=UTC)
    answer = ask([], "gate:inventory_age(t, s)", QueryInputs(lines=lines, now=now))
    assert (answer.rows, answer.warnings) == ((("nova:servers", 1800),), ())


FLAVORS: dict[str, list[list[object]]] = {
    "nova:servers": [["s-1", "web", None, None, None, None, None, None, None, None, None]],
    "nova:flavors": [["f-1", "small", 1, 1, 1, 0, 1]],
}
NULL = "no condition on it holds"


@pytest.mark.parametrize(
    ("body", "column"),
    [
        ("nova:servers(id=s, flavor_id=f), nova:flavors(id=f)", "flavor_id"),
        ('nova:servers(id=s, host_name="h1")', "host_name"),
        ('nova:servers(id=s, zone=z), z != "z1"', "zone"),
        ("nova:servers(id=s, host_name=h), not up(h)", "host_name"),
        ("nova:servers(id=s, host_name=h), up(x), h = x", "host_name"),
        ("nova:servers(id=s), n = count{ z : nova:servers(zone=z) }, n < 1", "zone"),
        ("placed(s, h), up(h)", "host_name"),
        ("nova:servers(id=s, zone=z), z != null, up(z)", ""),
        ("nova:servers(id=s, zone=null)", ""),
        ('nova:servers(id=s, zone=z), (z ?? "z1") = "z2"', ""),
        ("placed(s, _)", ""),
        ("placed(s, h), said(h)", "host_name"),
        ('nova:servers(id=s, name="web")', ""),
        ("cinder:volumes(id=s, status=s)", ""),
    ],
)
def test_a_rule_that_reads_an_all_null_column_is_warned_of(body: str, column: str) -> None:
    helpers = 'up("h1"). said(h) :- up(h). placed(s, h) :- nova:servers(id=s, host_name=h).\n'
    rules = dg.Rules(load([RuleFile("m", "m.dl", f'{helpers}@deny("p", "{{s}}")\np(s) :- heat:stack(), {body}.\n')]))
    warnings = rules.inventory(FLAVORS).warnings
    messages = [f"nova:servers.{column} is null in every row of the inventory: {NULL}"] if column else []
    assert [warning.message for warning in warnings] == messages
    assert rules.inventory({}).warnings == ()


def test_the_warning_of_a_null_column_has_its_place_and_what_to_write() -> None:
    text = 'relation rack(host: string, zone: string). @deny("p", "{s}")\n'
    text += "p(s) :- nova:servers(id=s, host_id=h, zone=z), rack(h, z).\n"
    rows: list[list[object]] = [["s-1", "web", None, None, None, None, None, None, None, None, None]]
    rules = dg.Rules(load([RuleFile("m", "m.dl", text)]))
    columns = [column.name for column in rules.program.relations["nova:servers"].columns]
    rows[0][columns.index("host_name")] = "h1"
    assert [
        (str(warning.span), warning.suggestion, warning.severity)
        for warning in rules.inventory({"nova:servers": rows}).warnings
    ] == [
        ("m.dl:2:9", "read host_name", "warning"),
        ("m.dl:2:9", 'give it a default, `zone ?? "none"`, or collect it', "warning"),
    ]


def test_a_rule_that_reads_the_age_of_an_unread_table_is_warned_of() -> None:
    text = '@deny("p", "{s}")\np(s) :- heat:stack(id=s), gate:inventory_age("nova:services", n), n > 9.\n'
    text += 'p(s) :- heat:stack(id=s), gate:inventory("cinder:volumes", _, why), why != null.\n'
    text += (
        'p(s) :- heat:stack(id=s), not gate:inventory_age("nova:quotas", _), not gate:inventory_age(n, 0), named(n).\n'
    )
    rules = dg.Rules(load([RuleFile("m", "m.dl", f'{text}named("a").\n')]))
    assert [(str(warning.span), warning.message, warning.suggestion) for warning in rules.inventory(READ).warnings] == [
        ("m.dl:2:27", "the inventory does not say when nova:services was read", "did you mean nova:servers?"),
        ("m.dl:3:27", "the inventory does not say when cinder:volumes was read", "pull that table too"),
    ]
    assert rules.inventory({}).warnings == ()


@pytest.mark.parametrize("cloud", ["fixtures/clouds/racks.jsonl", "fixtures/relations/inventory.jsonl"])
def test_the_packs_read_nothing_that_is_null_in_the_shipped_clouds(cloud: str) -> None:
    assert dg.load_rules(ROOT / "rules").inventory(ROOT / cloud).warnings == ()
