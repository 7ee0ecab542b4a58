"""The function `yaql` gives the values of Heat's engine.

Expressions that could take long or much are unknown.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from datalog_gate.api import load_rules
from datalog_gate.base.values import Unknown
from datalog_gate.files.templates import read_stack
from datalog_gate.stack.model import Data
from datalog_gate.template.functions.pure import BadFunction, Undecided
from datalog_gate.template.functions.yaql import BUDGET, LONGEST, answer
from tests.refusals import refusals

DATA: dict[str, Data] = {
    "list": ["b", "a", "b"],
    "map": {"x": 1, "y": {"z": [True, None]}},
    "rows": [{"n": "web", "on": True}, {"n": "db", "on": False}],
}


def evaluate(expression: str, data: Data = DATA) -> Data | type[Exception]:
    """The value of the expression over the data, or the kind of error."""
    try:
        return answer(expression, data, {}, lambda _: None)
    except (BadFunction, Undecided) as error:
        return type(error)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("$.data", DATA),
        ("$.data.rows.where($.on).n", ["web"]),
        ("$.data.map.keys().toList()", ["x", "y"]),
        ("$.data.map.items().where(isInteger($[1])).toDict($[0], $[1])", {"x": 1}),
        ("$.data.list.distinct().orderBy($).join('-')", "a-b"),
        ("$.data.list.groupBy($, 1, $.sum())", [["b", 2], ["a", 1]]),
        ("let(all => $.data) -> $all.list.select($ + $all.rows[0].n)", ["bweb", "aweb", "bweb"]),
        ("[[1, [2]], [3]].flatten().aggregate($1 * 10 + $2)", 123),
        ("$.data.map.mergeWith({y => {w => 1}})", {"x": 1, "y": {"z": [True, None], "w": 1}}),
        ("{a => {b => 1}} = {a => {b => 1}} and not {a => 1} = {b => 1} and {a => 1} != {}", True),
        ("[{a => 1}, {a => 1}, {a => 2}].distinct()", [{"a": 1}, {"a": 2}]),
        ("'x' * 3 + 2 * 'y'", "xxxyy"),
        ("switch(false => now(), true => word)", "word"),
        ("coalesce($.data.map.get(none), $.data.list).first()", "b"),
    ],
)
def test_a_query_gives_what_it_gives_in_heat(expression: str, value: Data) -> None:
    assert evaluate(expression) == value


GROWN = " -> ".join(["let(a => [1, 1])", *["let(a => [$a, $a])"] * 60])
CHAIN = " -> ".join(["let(a => 1)", *["let(a => $a)"] * 600])
ALL = "range(199).select(range(199).select(range(199)))"


@pytest.mark.parametrize(
    "expression",
    [
        "now()", "random()", "'a'.matches('(a+)+b')", "'aaa' =~ '(a+)+b'", "regex(a)", "'b'.replaceBy(regex(b), c)",
        "pow(9, 999999999)", "shiftBitsLeft(1, 999999999)", "def(f, f($)) -> f(1)", "call(range, [5], {})",
        "[1].toSet()", "set(1)", "{a => 1}.keys()", "let(a => 1)", "characters(digits => true)", "float(inf)",
        "str([1])", "[[1]].join('')", "'a'.replace({a => b})", "timespan()", "generate(1, true, 1)", "sequence()",
        "[1].cycle()", "range(201)", "'a' * 10001", "[1] * 999999999", "999999999 * [1]", "'a' * 999999999",
        "range(999999999).len()", "1.repeat().len()", "[[].repeat()].flatten()", "list([].select($).repeat())",
        "('a' * 9000).replace(a, 'a' * 9000)", f"{GROWN} -> $a", f"{GROWN} -> $a = $a", f"{CHAIN} -> {ALL}.flatten()",
        f"{ALL}.flatten().len()", "let(a => 999999999) -> " + "let(a => $a * $a) -> " * 30 + "$a", "1" + " + 1" * 2000,
        "[1]" + ".select($)" * 900, "[" * 300 + "]" * 300, "-" * 3000 + "1", " " * (LONGEST + 1),
        "let(a => [1]) -> " + "let(a => $a.zip($a).toList()) -> " * 60 + "$a.distinct()",
        "range(199).aggregate(range(199).aggregate($1.skip(0), $1), [1, 2])",
        "range(199).select(range(99).select('a' * 9000).toList()).toList()",
    ],
)  # fmt: skip
def test_what_may_not_be_asked_is_not_known(expression: str) -> None:
    assert evaluate(expression) is Undecided


LARGE: dict[str, Data] = {str(n): n for n in range(4000)}


@pytest.mark.parametrize(
    ("expression", "data"),
    [
        ("$.data", ["x"] * 30_000),
        ("$.data", [1] * 201),
        ("$.data", [[{"a": 1}] * 100] * 100),
        ("$.data.text", {"text": "x" * 20_000}),
        ("let(all => $.data) -> range(199).select(range(199).select($all.a = $all.b))", {"a": LARGE, "b": {**LARGE}}),
    ],
)
def test_data_beyond_the_bounds_is_not_looked_at(expression: str, data: Data) -> None:
    assert evaluate(expression, data) is Undecided


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("$$$", "has an expression that can't be read at character 2"),
        ("9" * 5000, "has an expression that can't be read"),
        ("'\\N{none}'", "has an expression that can't be read"),
        ("$.data.none", "has an expression that gives no value: a key is missing"),
        ("[][0]", "has an expression that gives no value: an item is missing"),
        ("[].first()", "has an expression that gives no value: a list has no item"),
        ("1.assert($ = 2, secret)", "has an expression that gives no value: an assertion does not hold"),
        ("none()", "has an expression that gives no value: it calls a function that does not exist"),
        ("1.none()", "has an expression that gives no value: it calls a method that does not exist"),
        ("len(1)", "has an expression that gives no value: a function does not accept these arguments"),
        ("1.first()", "has an expression that gives no value: a method does not accept these arguments"),
        ("1 / 0", "has an expression that gives no value: ZeroDivisionError"),
        ("{a => 1}.items()", "has an expression that gives no value: TypeError"),
    ],
)
def test_what_heat_refuses_is_refused_without_a_value(expression: str, message: str) -> None:
    with pytest.raises(BadFunction) as refused:
        answer(expression, DATA, {}, lambda _: None)
    assert str(refused.value).replace("{}", str(refused.value.part)) == message


def test_what_a_query_costs_is_reported_also_where_it_has_no_answer() -> None:
    costs: list[int] = []
    for expression in ("1", "none(", "1.repeat().len()"):
        try:
            answer(expression, None, {}, costs.append)
        except (BadFunction, Undecided):
            costs.append(-1)
    assert [cost // 1000 for cost in costs] == [0, 0, 0, 0, -1, 0, BUDGET // 1000, -1]


TEMPLATE: dict[str, Data] = {
    "heat_template_version": "2018-08-31",
    "parameters": {"key": {"type": "string"}, "pw": {"type": "string", "default": "s3cret", "hidden": True}},
}


def read(query: dict[str, Data], times: int = 1) -> Data:
    """The property that the query computes."""
    resources: Data = {
        f"r{at}": {"type": "OS::Heat::None", "properties": {"p": {"yaql": query}}} for at in range(times)
    }
    stack = read_stack({**TEMPLATE, "resources": resources}, stack_name="s")
    return stack.resources[0].properties["p"]


def test_a_query_over_what_is_not_known_is_what_a_user_can_choose() -> None:
    value = read({"expression": "'evil'", "data": {"a": {"get_param": "key"}}})
    assert isinstance(value, Unknown)
    assert value.unread


def test_an_invalid_query_is_refused_also_over_unknowns() -> None:
    message = "`yaql` has an expression that can't be read at character 1"
    query: dict[str, Data] = {"expression": "'evil", "data": {"get_param": "key"}}
    assert refusals(lambda: read(query), "code", "message") == [("bad-function", message)]


def test_all_queries_of_a_stack_have_one_budget() -> None:
    assert refusals(lambda: read({"expression": "1.repeat().len()"}, times=5), "code") == ["too-large"]


def test_what_is_made_of_a_hidden_value_is_hidden(tmp_path: Path) -> None:
    query: Data = {"yaql": {"expression": "[$.data.substring(2)]", "data": {"get_param": "pw"}}}
    resources: Data = {"r": {"type": "OS::Nova::Server", "properties": {"name": "n", "user_data": query}}}
    (tmp_path / "m.dl").write_text('@record("p", "")\np(path, v) :- heat:property(path=path, value=v).')
    decision = load_rules(tmp_path / "m.dl").decide(read_stack({**TEMPLATE, "resources": resources}, stack_name="s"))
    assert decision.rows("m:p") == [["name", "n"], ["user_data.0", {"$hidden": True}]]


@pytest.mark.slow
def test_threads_do_not_disturb_each_other() -> None:
    expressions = [f"range({n}).select($ + {n}).orderBy(-$).first()" for n in range(1, 60)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(evaluate, expressions)) == [2 * n - 1 for n in range(1, 60)]
