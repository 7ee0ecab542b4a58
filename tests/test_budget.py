"""What becomes of an evaluation that would take more than it may: it ends, says which rule took most, and keeps what is
whole."""

from __future__ import annotations

from itertools import count

import pytest

from datalog_gate.analysis.program import CheckedProgram, CheckedRule, Const, Match, Stratum, Var
from datalog_gate.engine import native
from datalog_gate.engine.budget import Budget
from tests.programs import X, Y, Z, Facts, place, program


def rule(name: str, line: int, *body: Match) -> CheckedRule:
    return CheckedRule(name, (X, Y), body, place(line))


def match(name: str, *arguments: Var) -> Match:
    return Match(name, arguments, place(1))


SMALL = Stratum(("few",), (rule("few", 3, match("edge", X, Y), match("node", X)),), False)
BOMB = Stratum(("all",), (rule("all", 7, match("node", X), match("node", Y), match("edge", Z, Z)),), False)
REACH = Stratum(
    ("reach",),
    (rule("reach", 8, match("edge", X, Y)), rule("reach", 9, match("reach", X, Z), match("edge", Z, Y))),
    True,
)
JOINED = Stratum(
    ("reach",),
    (rule("reach", 8, match("edge", X, Y)), rule("reach", 9, match("reach", X, Z), match("reach", Z, Y))),
    True,
)
LATER = Stratum(("last",), (rule("last", 11, match("few", X, Y)),), False)
FACTS: Facts = {"node": [(at,) for at in range(300)], "edge": [(at, at + 1) for at in range(100)] + [(7, 7)]}


def seconds(limit: float) -> Budget:
    """A budget whose clock goes on by a tenth of a second whenever it is looked at."""
    ticks = count()
    return Budget(seconds=limit, clock=lambda: next(ticks) / 10)


@pytest.mark.parametrize(
    ("checked", "budget", "said"),
    [
        (program(SMALL, BOMB, LATER), Budget(facts=20_000), "more than 20,000 facts: the rule of all at rules.dl:7:1 made 20,100 of 20,201"),
        (program(SMALL, REACH, LATER), Budget(facts=2_000), "more than 2,000 facts: the rule of reach at rules.dl:9:1 made"),
        (program(SMALL, REACH, LATER), Budget(rounds=50), "more than 50 rounds: the rule of reach at rules.dl:9:1 made"),
        (program(SMALL, JOINED, LATER), Budget(rounds=5), "more than 5 rounds: the rule of reach at rules.dl:9:1 made"),
        (program(SMALL, BOMB, LATER), seconds(1.5), "out of time after 1.5 s: the rule of all at rules.dl:7:1 took 1.1 s"),
    ],
)  # fmt: skip
def test_it_ends_names_the_rule_with_the_largest_share_and_keeps_what_is_whole(
    checked: CheckedProgram, budget: Budget, said: str
) -> None:
    found = native.evaluate(checked, FACTS, budget)
    assert str(found.exceeded).startswith(said)
    assert found.exceeded
    assert found.exceeded.span == place(9 if "reach" in said else 7)
    assert found.tables.keys() == {"node", "edge", "few"}
    assert found.rows("few") == native.evaluate(program(SMALL), FACTS).rows("few")


def test_a_search_that_finds_nothing_ends_too() -> None:
    nothing = Match("edge", (X, Const(-1)), place(1))
    searching = Stratum(
        ("all",), (rule("all", 7, match("node", Y), match("node", Z), match("node", X), nothing),), False
    )
    assert not native.evaluate(program(searching), FACTS).rows("all")
    apart = Stratum(
        ("all",),
        (
            CheckedRule(
                "all",
                (X,),
                (
                    match("node", X),
                    match("node", Y),
                    match("node", Z),
                    Match("edge", (Y, Z), place(1)),
                    Match("edge", (Z, Y), place(1)),
                    Match("edge", (X, X), place(1)),
                ),
                place(7),
            ),
        ),
        False,
    )
    assert native.evaluate(program(apart), FACTS).exceeded is None
