"""Where Spark differs from our language, its rows are those of native."""

from __future__ import annotations

from decimal import Decimal

from datalog_gate.engine.sql.database import Database
from tests.rule_texts import GivenRows
from tests.sql_answers import answer, difference, lifted_module, stack_facts
from tests.unit.engine.test_sql_engine import DECLARED, GRAPH, MIXED, TEXTS

LARGE = Decimal("99999999999999999999.999999998")
RULES = r"""
lowered(y) :- t(x), x != null, lower(x, y).
dollar(x) :- t(x), x != null, matches(x, "b$").
bounded(x) :- t(x), x != null, matches(x, "\\bab\\b").
escaped(x) :- t(x), x != null, ends_with(x, "%s\\").
listed(x) :- x = list{ y : a(y) }.
numeral(x) :- a(x), is_number(x), x > 0.
summed(x) :- n(y), y != null, x = y + 0.000000001.
converted(n) :- t(x), x != null, int(x, n).
reached(x, y) :- e(x, y).
reached(x, z) :- reached(x, y), e(y, z).
"""


def test_texts_numbers_and_casts_are_those_of_native(database: Database) -> None:
    rows: GivenRows = {
        **TEXTS, **MIXED, **GRAPH,
        "t": [*TEXTS["t"], ("s", "ab\n"), ("s", "\u00e9ab"), ("v", "12"), ("w", "9" * 40)],
        "n": [("s", LARGE), ("s", Decimal("0.000000001")), ("w", 2**128)],
    }  # fmt: skip
    lifted = lifted_module(DECLARED + RULES)
    facts = stack_facts(lifted, rows)
    result = answer(lifted, facts, database)
    assert difference(lifted, facts, result) == ""
    assert set(result.rows["m:lowered"]) >= {("s", "ÄİẞΣ".lower()), ("s", "straße")}
    assert set(result.rows["m:dollar"]) == {("s", "ab"), ("w", "ab"), ("s", "\u00e9ab")}
    assert set(result.rows["m:escaped"]) == {("s", "B'%s\\")}
    assert set(result.rows["m:listed"]) == {("s", "true,1,1,1"), ("v", ""), ("w", "false,1.5")}
    assert {root for root, relation in result.unsettled if relation == "m:converted"} == {"s", "w"}
    assert {root for root, relation in result.unsettled if relation == "m:summed"} == {"w"}
    assert ("s", Decimal("99999999999999999999.999999999")) in result.rows["m:summed"]
    assert len(result.rows["m:reached"]) == 10
