"""An evaluation over its budget ends and names its costliest rule.

It keeps the relations that are complete.
"""

from __future__ import annotations

import pytest

from datalog_gate.analysis import program as ir
from datalog_gate.engine import native
from datalog_gate.engine.budget import STEPS_PER_SECOND, Budget
from tests.programs import Facts, X, Y, Z, match, place, program


def rule(name: str, line: int, *body: ir.Match) -> ir.CheckedRule:
    return ir.CheckedRule(name, (X, Y), body, place(line))


SMALL = ir.Stratum(("few",), (rule("few", 3, match("edge", X, Y), match("node", X)),), False)
BOMB = ir.Stratum(("all",), (rule("all", 7, match("node", X), match("node", Y), match("edge", Z, Z)),), False)
REACH = ir.Stratum(
    ("reach",),
    (rule("reach", 8, match("edge", X, Y)), rule("reach", 9, match("reach", X, Z), match("edge", Z, Y))),
    True,
)
LATER = ir.Stratum(("last",), (rule("last", 11, match("few", X, Y)),), False)
FACTS: Facts = {"node": [(at,) for at in range(300)], "edge": [(7, 7), *((at, at + 1) for at in range(100))]}


@pytest.mark.parametrize(
    ("stratum", "budget", "message"),
    [
        (BOMB, Budget(facts=20_000), "more than 20,000 facts: the rule of all at rules.dl:7:1 made 19,999 of 20,100"),
        (REACH, Budget(facts=2_000), "more than 2,000 facts: the rule of reach at rules.dl:9:1 made 1,869 of 2,071"),
        (BOMB, Budget(seconds=0.001), "more than 10,000 steps: the rule of all at rules.dl:7:1 took 10,094"),
    ],
)  # fmt: skip
def test_it_ends_names_the_rule_with_the_largest_share_and_keeps_what_is_whole(
    stratum: ir.Stratum, budget: Budget, message: str
) -> None:
    model = native.evaluate(program(SMALL, stratum, LATER), FACTS, budget)
    assert str(model.exceeded).startswith(message)
    assert model.exceeded
    assert model.exceeded.span == place(9 if "reach" in message else 7)
    assert model.tables.keys() == {"node", "edge", "few"}
    assert model.rows("few") == native.evaluate(program(SMALL), FACTS).rows("few")


def test_a_search_that_finds_nothing_ends_too() -> None:
    apart = (match("node", X), match("node", Y), match("node", Z), match("edge", X, Y), match("edge", Y, X))
    never = ir.CheckedRule(
        "all", (X, Y), (*apart, ir.Compare("!=", X, Y, place(1)), ir.Compare("!=", Y, Z, place(1))), place(7)
    )
    computed = ir.Call("matches", (ir.Const("a" * 50), ir.Const("(a+)+b")), (), place(1))
    slow = ir.CheckedRule("all", (X,), (match("node", X), computed), place(7))
    for checked_rule in (never, slow):
        model = native.evaluate(program(ir.Stratum(("all",), (checked_rule,), False)), FACTS, Budget(seconds=0.000003))
        assert str(model.exceeded).startswith("more than 30 steps: the rule of all at rules.dl:7:1 took ")


def test_a_careful_search_behind_an_error_ends_too() -> None:
    failing = ir.CheckedRule(
        "bad", (X,), (match("node", X), ir.Call("/", (X, ir.Const(0)), (None,), place(2))), place(2)
    )
    apart = (match("node", X), match("node", Y), match("node", Z), ir.Compare("<", X, ir.Const(0), place(1)))
    careful = ir.CheckedRule("all", (Y,), (*apart[1:3], ir.Without((match("bad", Y), *apart[::3]), place(1))), place(7))
    checked = program(ir.Stratum(("bad",), (failing,), False), ir.Stratum(("all",), (careful,), False))
    model = native.evaluate(checked, {"node": [(at,) for at in range(200)], "edge": []}, Budget(seconds=1.5))
    assert str(model.exceeded).startswith("more than 15,000,000 steps: the rule of all at rules.dl:7:1 took ")
    assert model.tables.keys() == {"node", "edge", "bad"}


def test_values_that_grow_without_end_are_stopped() -> None:
    grows = ir.CheckedRule("n", (Y,), (match("n", X), ir.Call("+", (X, ir.Const(1)), (Y,), place(1))), place(7))
    starts = ir.CheckedRule("n", (X,), (match("node", X),), place(6))
    model = native.evaluate(program(ir.Stratum(("n",), (starts, grows), True)), FACTS, Budget(facts=50_000))
    assert str(model.exceeded).startswith("more than 50,000 facts: the rule of n at rules.dl:7:1 made ")


def test_each_row_that_is_read_is_a_step() -> None:
    starts = ir.CheckedRule("reach", (X,), (match("node", X),), place(6))
    goes = ir.CheckedRule("reach", (Y,), (match("reach", X), match("edge", X, Y)), place(7))
    chain = program(ir.Stratum(("reach",), (starts, goes), True))
    facts: Facts = {"node": [(0,)], "edge": [(at, at + 1) for at in range(9)]}
    assert native.evaluate(chain, facts, Budget(seconds=20 / STEPS_PER_SECOND)).exceeded is None
    model = native.evaluate(chain, facts, Budget(seconds=19 / STEPS_PER_SECOND))
    assert str(model.exceeded) == "more than 19 steps: the rule of reach at rules.dl:7:1 took 19"


def test_facts_of_a_careful_search_count_with_those_of_later_rules() -> None:
    failing = ir.CheckedRule(
        "bad", (X,), (match("node", X), ir.Call("/", (X, ir.Const(0)), (None,), place(2))), place(2)
    )
    careful = ir.CheckedRule(
        "some", (X,), (match("node", X), ir.Without((match("bad", ir.Const(-1)),), place(1))), place(7)
    )
    plain = ir.CheckedRule("more", (X,), (match("node", X),), place(8))
    rules = (failing, careful, plain)
    checked = program(*(ir.Stratum((rule.relation,), (rule,), False) for rule in rules))
    facts: Facts = {"node": [(at,) for at in range(100)], "edge": []}
    assert native.evaluate(checked, facts, Budget(facts=200)).exceeded is None
    exceeded = native.evaluate(checked, facts, Budget(facts=199)).exceeded
    assert str(exceeded) == "more than 199 facts: the rule of some at rules.dl:7:1 made 100 of 200"
