"""All engines agree on builtins, aggregates and the time in rules."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import pytest

from datalog_gate.base.errors import RulesError
from datalog_gate.base.patterns import compile_search
from datalog_gate.base.values import NO_VALUE, Row
from datalog_gate.decision.findings import FactUse, find_support
from datalog_gate.decision.query import QueryInputs, ask
from datalog_gate.engine import native, pydatalog
from datalog_gate.engine.provenance import Provenance
from datalog_gate.facts.lines import read as read_lines
from tests.expressions import worded
from tests.programs import Facts
from tests.unit.analysis.test_unknowns import answer, checked

U = worded("u")
NOW: Facts = {"gate:now": [("2027-03-01T12:00:00+00:00",)]}
ROWS: dict[str, tuple[str, Facts, set[Row]]] = {
    "several outputs are matched, each for itself": (
        'd("2027-3-1"). d("2027-4-2"). d("2028-4-1"). p(y, m, 1) :- d(x), unpack_date(x, y, m, 1).',
        {},
        {(2027, 3, 1), (2028, 4, 1)},
    ),
    "an output that is bound before": ('d("2027-3-3", 3). d("2027-3-4", 3). p(x) :- d(x, m), unpack_date(x, _, m, m).',
                                       {}, {("2027-3-3",)}),
    "the time is that of the decision": ("p(x) :- now(x). p(x) :- builtin:now(x).", NOW, {("2027-03-01 12:00:00",)}),
    "the time under not, and in an aggregate": (
        'p(n) :- not now("2027-03-01 12:00:01"), n = count{ x : now(x) }.', NOW, {(1,)}),
    "the days until a date": (
        'd("2027-03-31"). d("2027-02-28"). p(x, n) :- d(x), days_until(x, n), n < 60.',
        NOW,
        {("2027-03-31", 30), ("2027-02-28", -1)},
    ),
    "a pattern": ('d("web-01"). d("db-01"). p(x) :- d(x), matches(x, "^w.*[0-9]{2}$").', {}, {("web-01",)}),
    "a tuple of several alternatives counts once": (
        "p(n) :- n = count{ x : (e(x, _) or n(x)) }.", {"e": [(1, 0), (2, 0)], "n": [(2,), (3,)]}, {(3,)}),
    "a sum over alternatives, by group": (
        "p(g, s) :- n(g), s = sum{ v, k : (e(g, v), k = 1 or f(g, v), k = 2), v != null, v < 9 }.",
        {"n": [(1,), (2,), (3,)], "e": [(1, 5), (1, 9), (2, 1)], "f": [(1, 5), (2, None)]},
        {(1, 10), (2, 1), (3, 0)},
    ),
    "alternatives of constants, in an argument": ("p(max{ x : (x = 1 or x = 3 or x = 2) }).", {}, {(3,)}),
    "no alternative is none": ("p(n) :- n = count{ x : n(x), (false or false) }.", {"n": [(1,)]}, {(0,)}),
    "a test against the outside, beside alternatives": (
        "p(g, s) :- e(g, b), b != null, s = sum{ distinct v - b : (n(v) or f(_, v)), v != null, v > b }.",
        {"e": [(1, 2), (2, 9)], "n": [(3,), (2,)], "f": [(0, 3), (0, 12)]},
        {(1, 11), (2, 3)},
    ),
    "a test against the outside, in each alternative": (
        "p(n) :- e(_, b), n = count{ v : (n(v), v != b or f(_, v), v != b) }.",
        {"e": [(1, 2)], "n": [(3,), (2,), (None,)], "f": [(0, 3), (0, 12)]},
        {(2,)},
    ),
    "a group that a branch names": (
        "p(g, k) :- n(g), k = count{ x : (g = 1, e(x, _) or g = 2, f(x, _)) }.",
        {"n": [(1,), (2,), (None,)], "e": [(1, 2), (2, 9)], "f": [(1, 1)]},
        {(1, 2), (2, 1), (None, 0)},
    ),
    "what no variable tells apart": ("p(n) :- n = count{ 1 : (n(_) or f(_, _)) }.", {"n": [(3,)], "f": []}, {(1,)}),
    "a constant in one branch, a match in another": (
        "p(x, y) :- x = max{ v : (v = 7 or n(v)) }, y = count{ v, w : (e(v, w), w = 1 or e(v, w), v = 1) }.",
        {"n": [(3,)], "e": [(1, 1), (1, 2), (2, 1), (2, 2)]},
        {(7, 3)},
    ),
    "alternatives under not, inside an aggregate": (
        "p(n) :- n = count{ x : n(x), not (e(x, _) or f(x, _)) }.",
        {"n": [(1,), (2,), (3,)], "e": [(1, 0)], "f": [(2, 0)]},
        {(1,)},
    ),
}  # fmt: skip
GROUPS = "y groups this aggregate: each branch of `or` must bind it"
GIVEN = '{"relation": "gate:now", "row": ["2030-01-01T00:00:00+00:00"]}'


@pytest.mark.parametrize("name", ROWS)
def test_the_native_engine_gives(name: str) -> None:
    rules, facts, expected = ROWS[name]
    assert set(native.evaluate(checked(rules), facts).rows("m:p")) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_pydatalog_gives(name: str) -> None:
    pytest.importorskip("pyDatalog")
    rules, facts, expected = ROWS[name]
    program = checked(rules)
    assert set(pydatalog.evaluate(program, facts).rows("m:p")) == expected


def test_each_output_for_an_unknown_is_an_unknown_of_its_own() -> None:
    year, day = (worded(f"unpack_date.{part}(?'u')") for part in ("year", "day"))
    rules = """
        p(y, d) :- e(x, _), x != null, unpack_date(x, y, _, d).
        q(x) :- e(x, _), x != null, unpack_date(x, 2027, _, 1)."""
    assert answer(rules, {"e": [(U, 0), ("2027-03-01", 0), ("2028-03-01", 0)]}) == {
        "p": {(2027, 1), (2028, 1)},
        "p?": {(year, day), (2027, 1), (2028, 1)},
        "q": {("2027-03-01",)},
        "q?": {("2027-03-01",), (U,)},
    }


def test_the_days_until_an_unknown_may_be_any() -> None:
    rules = "p(x) :- e(x, _), x != null, days_until(x, n), n < 60."
    assert answer(rules, {"e": [(U, 0), ("2027-03-03", 0), ("2028-03-01", 0)], **NOW}) == {
        "p": {("2027-03-03",)},
        "p?": {("2027-03-03",), (U,)},
    }


def test_an_aggregate_over_alternatives_of_what_is_not_known_is_unknown() -> None:
    rules = (
        "p(n) :- n = count{ x : (n(x) or e(x, _)) }. q(1) :- p(n), n > 1. r(n) :- n = count{ x : (n(x) or f(x, _)) }."
    )
    tables = answer(rules, {"n": [(1,)], "e": [(2, 0)], "f": [(1, U)]}, {"e": [(2, 0)]})
    assert {name: rows for name, rows in tables.items() if "#" not in name} == {
        "p": {
            (
                worded(
                    "count(?'the set at m.dl:1:13')",
                ),
            )
        },
        "q": set(),
        "q?": {(1,)},
        "r": {(1,)},
    }


def test_an_error_in_one_alternative_is_that_of_its_group() -> None:
    program = checked("p(g, s) :- n(g), s = sum{ distinct v : (e(g, x), x != null, v = 1 / x or f(g, v)) }.")
    facts: Facts = {"n": [(1,), (2,)], "e": [(1, 0), (2, 1)], "f": [(1, 5), (2, 5)]}
    model = native.evaluate(program, facts)
    assert (
        set(model.rows("m:p")),
        [(error.row, error.message) for error in model.errors if error.relation == "m:p"],
    ) == (
        {(2, 6)},
        [((1, NO_VALUE), "/(1, 0): division by zero")],
    )


def test_a_row_of_an_aggregate_over_alternatives_is_explained() -> None:
    program = checked("p(g, s) :- n(g), s = sum{ v : (e(g, v) or f(g, v)) }.")
    model = native.evaluate(program, {"n": [(1,)], "e": [(1, 5)], "f": [(1, 6)]})
    assert find_support(Provenance(program, model), "m:p", (1, 11)).leaves == [FactUse("n", (1,), (0,))]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("p(1) :- n(y), 0 < count{ x : (n(x) or e(x, y)) }.", f"m.dl:1:19: {GROUPS}"),
        ("p(1) :- n(y), 0 < count{ x : (n(x), y = null or e(x, y)) }.", f"m.dl:1:19: {GROUPS}"),
        ("p(1) :- n(y), 0 < count{ x : e(x, _), y in [1, null] }.", f"m.dl:1:19: {GROUPS}"),
        ("p(1) :- n(y), 0 < count{ x : (n(x), z = y, z = null or e(x, y)) }.", f"m.dl:1:19: {GROUPS}"),
        (
            "p(count{ x : (n(x) or p(x)) }).",
            "m.dl:1:3: m:p depends on count of m:or#1.3 (m.dl:1:3), m:or#1.3 on m:p (m.dl:1:23)",
        ),
        ('now(x) :- x = "1".', "m.dl:1:1: m can't redefine the builtin now"),
        ("p(x) :- unpack_date(x, _).", "m.dl:1:9: unpack_date takes 4 arguments"),
        ("p(x) :- n(x), unpack_date(x, 1, 1, 1).", "m.dl:1:15: x may be null here"),
        (
            'p(1) :- unpack_date("2027-03-01", "2027", _, _).',
            "m.dl:1:9: '2027' can never equal the number that unpack_date returns",
        ),
        ('p(y) :- d(x), unpack_date(x, y, _, _), lower(y, _). d("2027").', "m.dl:1:40: lower takes string, not number"),
        ('p(x) :- lower("A", x), abs(1, x).', "m.dl:1:9: x can never equal the string that lower returns"),
    ],
)
def test_what_is_refused(rules: str, message: str) -> None:
    with pytest.raises(RulesError) as raised:
        checked(rules)
    assert [f"{diagnostic.span}: {diagnostic.message}" for diagnostic in raised.value.diagnostics] == [message]


def test_a_query_has_the_time_of_its_facts_or_of_the_caller() -> None:
    now = datetime(2027, 3, 1, 12, tzinfo=UTC)
    answers = [ask([], "now(x)", QueryInputs(lines=lines, now=now)).rows for lines in ([], read_lines(GIVEN, "facts"))]
    assert answers == [(("2027-03-01 12:00:00",),), (("2030-01-01 00:00:00",),)]


def test_without_re2_a_pattern_is_refused_at_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    compile_search.cache_clear()
    with pytest.raises(RulesError) as raised:
        checked('p(x) :- n(x), x != null, matches(x, "a").')
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.code, diagnostic.message, diagnostic.suggestion) == (
        "bad-pattern",
        "regular expressions need RE2, which is not installed",
        "pip install google-re2",
    )
