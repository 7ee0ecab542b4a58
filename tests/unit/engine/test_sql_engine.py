"""SQL gives native's rows, or says that it does not settle them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings

import datalog_gate as dg
from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lifting import lift, stack_inputs
from datalog_gate.base.values import FALSE, TRUE, ResourceId, Row, Value
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.engine.sql.compiler import compile_program
from datalog_gate.engine.sql.database import open_database
from datalog_gate.engine.sql.evaluation import SqlAnswer, Unfit, evaluate, load_facts
from datalog_gate.facts.flatten import flatten
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.declaration import RelationRef, all_version, old_version
from tests.expressions import worded
from tests.programs import HERE, X, match, program
from tests.rule_texts import GivenRows
from tests.sampling import sample
from tests.sql_answers import answer, derived, difference, lifted_module, stack_facts
from tests.unit.analysis.test_lifting import Case, cases

DECLARED = """relation t(x: string or null). relation n(x: number or null). relation r(x: resource). relation a(x: any).
relation e(x: number, y: number). relation shared_limit(x: number).
"""


def judge(text: str, rows: GivenRows) -> SqlAnswer:
    """The answer of DuckDB for the rules `m`, which differs in nothing that is settled from that of native."""
    lifted = lifted_module(DECLARED + text)
    facts = stack_facts(lifted, rows)
    with open_database() as database:
        result = answer(lifted, facts, database)
    assert difference(lifted, facts, result) == ""
    return result


def settled(text: str, rows: GivenRows) -> set[Row]:
    """The rows of `p`, all of which are settled."""
    result = judge(text, rows)
    assert result.unsettled == frozenset()
    return set(result.rows["m:p"])


def unsettled(text: str, rows: GivenRows) -> set[str | None]:
    """The roots in which `p` is not settled."""
    return {root for root, relation in judge(text, rows).unsettled if relation == "m:p"}


TEXTS: GivenRows = {"t": [("s", "ÄİẞΣ"), ("s", "straße"), ("s", "ab"), ("s", "B'%s\\"), ("w", "ab"), ("w", None)]}
NUMBERS: GivenRows = {"n": [("s", 1), ("s", 2), ("s", Decimal("2.5")), ("s", None), ("w", 7)]}
MIXED: GivenRows = {
    "a": [("s", 1), ("s", "1"), ("s", TRUE), ("s", ResourceId("1")), ("s", None), ("w", FALSE), ("w", Decimal("1.5"))]
}
GRAPH: GivenRows = {"e": [("s", 1, 2), ("s", 2, 3), ("s", 3, 1), ("w", 1, 2)], "shared_limit": [(2,)]}

SETTLED = [
    # texts: letters fold as Python folds them, and sort by code point
    ("p(y) :- t(x), x != null, lower(x, y).", TEXTS, {("s", "ÄİẞΣ".lower()), ("s", "straße"), ("s", "ab"),
     ("s", "b'%s\\"), ("w", "ab")}),
    ('p(x) :- t(x), x != null, x < "a".', TEXTS, {("s", "B'%s\\")}),
    ('p(x) :- t(x), x != null, ends_with(x, "%s\\\\").', TEXTS, {("s", "B'%s\\")}),
    ('p(x) :- t(x), x != null, matches(x, "^[a-b]+$").', TEXTS, {("s", "ab"), ("w", "ab")}),
    ("p(n) :- t(x), x != null, len(x, n).", TEXTS, {("s", 4), ("s", 6), ("s", 2), ("s", 5), ("w", 2)}),
    ('p(x) :- x = list{ y : t(y) }.', TEXTS, {("s", "B'%s\\,ab,straße,ÄİẞΣ"), ("w", "ab")}),
    ('p(x) :- x = list{ y : a(y) }.', MIXED, {("s", "true,1,1,1"), ("w", "false,1.5")}),
    # nulls join with nothing, and equal only a null that is written
    ("p(x) :- n(x), n(y), x = y.", NUMBERS, {("s", 1), ("s", 2), ("s", Decimal("2.5")), ("w", 7)}),
    ("p(x) :- n(x), x = null.", NUMBERS, {("s", None)}),
    ("p(x) :- n(x), y = null, y = y.", NUMBERS, set()),
    ("p(x) :- n(x), x = 7, y = null, y != y.", NUMBERS, {("w", 7)}),
    ("p(x) :- e(x, _), not n(x).", {**NUMBERS, "e": [("s", 1, 1), ("s", 3, 3), ("w", 1, 1)]}, {("s", 3), ("w", 1)}),
    ("p(x) :- a(x), not n(x).", {**MIXED, **NUMBERS}, {("s", "1"), ("s", TRUE), ("s", ResourceId("1")), ("s", None),
     ("w", FALSE), ("w", Decimal("1.5"))}),
    ("p(x ?? 0) :- n(x).", NUMBERS, {("s", 1), ("s", 2), ("s", Decimal("2.5")), ("s", 0), ("w", 7)}),
    # kinds that look alike
    ("p(x) :- a(x), n(x).", {**MIXED, **NUMBERS}, {("s", 1)}),
    ("p(x) :- a(x), is_number(x), x > 0.", MIXED, {("s", 1), ("w", Decimal("1.5"))}),
    ("p(x) :- a(x), x = true.", MIXED, {("s", TRUE)}),
    # aggregates: a key keeps equal values apart, null is skipped, of nothing count and sum are 0
    ("p(x) :- x = sum{ y, z : e(z, y) }.", GRAPH, {("s", 6), ("w", 2)}),
    ("p(x) :- x = sum{ distinct y : n(y) }.", NUMBERS, {("s", Decimal("5.5")), ("w", 7)}),
    ("p(x, c) :- e(x, _), c = count{ y : e(y, z), z > x }.", GRAPH, {("s", 1, 2), ("s", 2, 1), ("s", 3, 0),
     ("w", 1, 1)}),
    ("p(x) :- x = max{ y : n(y) }.", NUMBERS, {("s", Decimal("2.5")), ("w", 7)}),
    ("p(x) :- x = min{ y : n(y), y != null, y > 7 }.", NUMBERS, set()),
    ("p(x) :- x = avg{ distinct y : e(y, _) }.", GRAPH, {("s", 2), ("w", 1)}),
    ("p(x) :- x = count{ y : n(y) }.", {"n": [("s", None)]}, {("s", 0)}),
    # recursion
    ("p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z).", GRAPH, {("w", 1, 2)} | {
     ("s", x, y) for x in (1, 2, 3) for y in (1, 2, 3)}),
    ("p(x) :- e(x, _), shared_limit(x).", GRAPH, {("s", 2)}),
    # constants keep digits that a binary fraction or 28 decimal digits would lose
    ("p(x) :- n(x), x != 9223372036854775807, x != -99999999999999999999.999999999.",
     {"n": [("s", 2**63 - 1), ("s", Decimal("-99999999999999999999.999999999")), ("s", 2**63)]}, {("s", 2**63)}),
    # 2^128 is more than any number of a table
    ("p(x) :- n(x), x != null, x < 340282366920938463463374607431768211456, x > 2.", NUMBERS,
     {("s", Decimal("2.5")), ("w", 7)}),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("text", "rows", "expected"), SETTLED)
def test_rows_are_those_of_native(text: str, rows: GivenRows, expected: set[Row]) -> None:
    assert settled(text, rows) == expected


UNSETTLED = [
    ("p(n) :- t(x), x != null, int(x, n).", {"t": [("s", "1"), ("w", "one"), ("v", "")]}, {"w", "v"}),
    ("p(y) :- n(x), x != null, y = 1 / x.", {"n": [("s", 2), ("w", 0)]}, {"w"}),
    ("p(y) :- n(x), x != null, y = 1 / x, x > 0.", {"n": [("s", 2), ("w", 0)]}, set()),
    ("p(1) :- t(x), x != null, not (int(x, n), n > 3).", {"t": [("s", "1"), ("w", "one")]}, {"w"}),
    ("p(c) :- c = count{ x : t(x), x != null, int(x, n), n > 3 }.", {"t": [("s", "1"), ("w", "one")]}, {"w"}),
    ("p(x) :- t(x), x != null.", {"t": [("s", "a\0b"), ("w", "a")]}, {"s"}),
    ("p(x) :- t(x), x != null.", {"t": [("s", worded("u")), ("w", "a")]}, {"s"}),
    ("p(x) :- n(x), x != null.", {"n": [("s", 2**128), ("w", 1)]}, {"s"}),
    ("p(x) :- n(y), y != null, x = y * y.", {"n": [("s", 10**15), ("w", 1)]}, {"s"}),
    ("p(x) :- x = sum{ y, z : e(y, z) }.", {"e": [("s", 10**20 - 1, 1), ("s", 10**20 - 1, 2), ("w", 1, 1)]}, {"s"}),
    ("p(x) :- x = 1 + 340282366920938463463374607431768211456, n(_).", {"n": [("s", 1)]}, {None}),
    ("p(x) :- e(x, y), q(y, _). q(x, y) :- shared_limit(x), y = 1 / (x - 2).", GRAPH, {None}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "rows", "expected"), UNSETTLED)
def test_what_may_have_failed_is_not_settled(text: str, rows: GivenRows, expected: set[str | None]) -> None:
    assert unsettled(text, rows) == expected


def test_a_value_that_no_rule_reads_unsettles_nothing() -> None:
    rows: GivenRows = {"e": [("s", 1, 2**128)], "n": [("s", 1)]}
    assert settled("p(x) :- e(x, _).", rows) == {("s", 1)}


def test_a_row_that_may_be_there_unsettles_what_reads_its_relation() -> None:
    lifted = lifted_module(DECLARED + "p(1) :- e(_, _). q(x) :- n(x).")
    compiled = compile_program(lifted, derived(lifted.program), "duckdb")
    with open_database() as database:
        load_facts(lifted, stack_facts(lifted, {"e": [], "n": [("s", 1)]}), database)
        result = evaluate(compiled, database, [Unfit("w", "m:e", None)])
    assert result == SqlAnswer({"m:p": set(), "m:q": {("s", 1)}}, frozenset({("w", "m:p")}))


def test_only_what_is_wanted_is_compiled_and_kept_with_the_program() -> None:
    lifted = lifted_module(DECLARED + "p(x) :- n(x). q(x) :- p(x). r2(x) :- r(x).")
    compiled = compile_program(lifted, frozenset({"m:p"}), "duckdb")
    assert [stratum.relations for stratum in compiled.strata] == [("m:p",)]
    assert compile_program(lifted, frozenset({"m:p"}), "duckdb") is compiled
    assert compile_program(lifted, frozenset({"m:p"}), "postgres") is not compiled


def test_an_evaluation_leaves_no_table_and_needs_none_of_inputs_without_rows() -> None:
    lifted = lifted_module(DECLARED + "p(x) :- n(x), not a(x). p(y) :- p(x), x != null, e(x, y).")
    with open_database() as database:
        result = evaluate(compile_program(lifted, frozenset({"m:p"}), "duckdb"), database)
        assert result == SqlAnswer({"m:p": set()}, frozenset())
        assert database.connection.execute("SHOW TABLES").fetchall() == []


def test_old_and_all_relations_are_inputs_like_others() -> None:
    rules = """@deny("p", "{x}")
        p(x) :- heat:resource(id=x), not old:heat:resource(id=x).
        @deny("q", "{n}")
        q(n) :- all:heat:stack(id=n, _project=p), c = count{ k : all:heat:stack(id=k, _project=p) }, c > 1.
    """
    loaded = load([RuleFile("m", "m.dl", rules)])
    lifted = lift(loaded.program, stack_inputs(loaded.program, SHIPPED))
    width = {name: len(relation.columns) for name, relation in lifted.program.relations.items()}

    def row(name: RelationRef, *first: Value) -> Row:
        return (*first, *[None] * (width[name] - len(first)))

    stacks, old = all_version("heat:stack"), old_version("heat:resource")
    projects = [(*row(stacks, name)[:-1], project) for name, project in (("a", "x"), ("b", "x"), ("c", "y"))]
    facts: dict[RelationRef, list[Row]] = {
        "heat:resource": [row("heat:resource", root, ResourceId(f"{root}/db")) for root in ("a", "b")],
        old: [row(old, "a", ResourceId("a/db"))],
        stacks: projects,
        "root#": [("a",), ("b",), ("c",)],
    }
    with open_database() as database:
        result = answer(lifted, facts, database)
    assert difference(lifted, facts, result) == ""
    assert result.rows["m:p"] == {("b", ResourceId("b/db"))}
    assert {name for (name,) in result.rows["m:q"]} == {"a", "b"}


def test_what_no_query_says_is_left_alone_with_what_rests_on_it() -> None:
    fold = ir.Fold("tuples", (X,), (match("node", X),), ir.Var("y"), HERE)
    strata = [
        ir.Stratum(("p",), (ir.CheckedRule("p", (ir.Var("y"),), (fold,), HERE),), False),
        ir.Stratum(("q",), (ir.CheckedRule("q", (X,), (match("p", X),), HERE),), False),
        ir.Stratum(("r",), (ir.CheckedRule("r", (X,), (match("node", X),), HERE),), False),
    ]
    lifted = lift(program(*strata), {"node"})
    compiled = compile_program(lifted, frozenset({"q", "r"}), "duckdb")
    assert compiled.unsupported == {"p": "an aggregate over what is not known"}
    with open_database() as database:
        load_facts(lifted, {"node": [("s", 1)]}, database)
        assert evaluate(compiled, database) == SqlAnswer({"r": {("s", 1)}}, frozenset({(None, "q")}))


@pytest.mark.slow
@settings(max_examples=sample(100), deadline=None)
@given(cases())
def test_generated_programs_over_many_stacks_have_the_rows_of_native(case: Case) -> None:
    original, inputs, stacks = case
    lifted = lift(original, inputs)
    facts = lifted.facts(stacks)
    with open_database() as database:
        assert difference(lifted, facts, answer(lifted, facts, database)) == ""


@pytest.mark.slow
def test_the_shipped_policies_find_in_the_fixtures_what_native_finds() -> None:
    rules = dg.load_rules("rules")
    lifted = lift(rules.program, stack_inputs(rules.program, SHIPPED))
    read = {str(name) for name in rules.program.inputs}
    factsets = {
        folder.name: flatten(dg.read_stack(folder), SHIPPED, read)
        for folder in sorted(Path("fixtures/stacks").iterdir())
        if (folder / "template.yaml").exists()
    }
    facts = lifted.facts({root: factset.rows for root, factset in factsets.items()})
    facts["gate:now"] = [("2027-03-01T12:00:00",)]
    wanted = frozenset(policy.relation for policy in rules.policies)
    with open_database() as database:
        unfit = load_facts(lifted, facts, database)
        compiled = compile_program(lifted, wanted, "duckdb")
        result = evaluate(compiled, database, unfit)
    assert compiled.unsupported == {}
    assert difference(lifted, facts, result) == ""
    assert set(result.rows) == wanted
    assert len(result.unsettled) < len(wanted) * len(factsets) / 100
