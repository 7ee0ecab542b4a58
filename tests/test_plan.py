"""Plans: the order of literals, and scans."""

from __future__ import annotations

import pytest

from datalog_gate.analysis import program as ir
from datalog_gate.engine.plan import (
    Aggregation,
    BuiltinCall,
    BuiltinTest,
    ComparisonTest,
    Exists,
    Let,
    Plan,
    Scan,
    Step,
    plan,
    slots_filled,
    slots_read,
)
from tests.programs import HERE, X, Y, Z, edge, node

ONE, TWO, V, W = ir.Const(1), ir.Const(2), ir.Var("v"), ir.Var("w")
SIZES = {"edge": 9, "node": 3}
At = tuple[tuple[int, int], ...]


def edges(keys: At = (), binds: At = (), constants: tuple[tuple[int, ir.Const], ...] = (), twice: At = ()) -> Scan:
    return Scan("edge", 2, constants, keys, binds, twice)


def nodes(keys: At = (), binds: At = ()) -> Scan:
    return Scan("node", 1, (), keys, binds, ())


Head = tuple[ir.Operand, ...]
Body = tuple[ir.CheckedLiteral, ...]
Terms = tuple[int | ir.Const, ...]
Steps = tuple[Step, ...]
PLANS: list[tuple[str, Head, Body, Terms, Steps]] = [
    (
        "the fewest rows first, a test as soon as it can be",
        (X, Y), (edge(X, Y), ir.Compare("<", X, TWO, HERE), node(X)),
        (0, 1), (nodes(binds=((0, 0),)), ComparisonTest("<", 0, TWO, False, False), edges(((0, 0),), ((1, 1),))),
    ),
    (
        "what gives nothing to the head only has to exist",
        (X,), (edge(Y, Z), edge(X, Y), node(X)),
        (0,), (nodes(binds=((0, 0),)), Exists((edges(((0, 0),), ((1, 1),)), edges(((0, 1),))), wanted=True)),
    ),
    (
        "unless it can meet an error",
        (X,), (edge(X, Y), node(X), ir.Compare("<", Y, TWO, HERE)),
        (0,), (nodes(binds=((0, 0),)), edges(((0, 0),), ((1, 1),)), ComparisonTest("<", 1, TWO, False, False)),
    ),
    (
        "a negation before an aggregate, and both before another match",
        (X, Z, ONE), (edge(X, W), ir.Fold("count", (Y,), (edge(X, Y),), Z, HERE), ir.Without((edge(None, X),), HERE),
                      node(X), ir.Compare("=", W, V, HERE), ir.Call("matches", (V, Z), (), HERE)),
        (0, 2, ONE), (nodes(binds=((0, 0),)), Exists((edges(((1, 0),)),), wanted=False),
                      Aggregation("count", (1,), (edges(((0, 0),), ((1, 1),)),), 2, stored=True),
                      edges(((0, 0),), ((1, 3),)), Let(4, 3), BuiltinTest("matches", (4, 2), False)),
    ),
    (
        "the new rows first, whatever their number",
        (X, Y), (edge(Z, Y), ir.Match("reach", (X, Z), HERE, new=True)),
        (0, 2), (Scan("reach", 2, (), (), ((0, 0), (1, 1)), (), new=True), edges(((0, 1),), ((1, 2),))),
    ),
    (
        "constants, what stands twice, and what is computed",
        (Y,), (edge(ONE, X), edge(X, X), ir.Call("+", (X, ONE), (Y,), HERE), ir.Call("-", (X, ONE), (Y,), HERE)),
        (1,), (edges(binds=((1, 0),), constants=((0, ONE),)), edges(((0, 0), (1, 0))),
               BuiltinCall("+", (0, ONE), 1, stored=True), BuiltinCall("-", (0, ONE), 1, stored=False)),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("head", "body", "terms", "steps"), [plan[1:] for plan in PLANS], ids=[plan[0] for plan in PLANS]
)
def test_a_plan_is_what_one_would_draw(head: Head, body: Body, terms: Terms, steps: Steps) -> None:
    rule = ir.CheckedRule("p", head, body, HERE)
    assert plan(rule, lambda name: SIZES.get(str(name), 0)) == Plan(terms, steps)


@pytest.mark.parametrize(
    ("step", "read", "filled"),
    [
        (edges(((0, 7),), ((1, 2),)), [7], [2]),
        (ComparisonTest("<", 7, TWO, False, False), [7], []),
        (Let(2, 7), [7], [2]),
        (BuiltinTest("matches", (7, TWO), False), [7], []),
        (BuiltinCall("+", (7, TWO), 2, stored=True), [7], [2]),
        (BuiltinCall("+", (7, TWO), 2, stored=False), [7, 2], []),
        (BuiltinCall("+", (7, TWO), None, stored=False), [7], []),
        (Exists((edges(((0, 7),), ((1, 3),)), nodes(((0, 3),))), wanted=True), [7, 3], []),
        (Aggregation("sum", (3, TWO), (edges(((0, 7),), ((1, 3),)),), 2, stored=True), [7, 3], [2]),
        (Aggregation("sum", (3, TWO), (edges(((0, 7),), ((1, 3),)),), 2, stored=False), [7, 3, 2], []),
    ],
)
def test_a_step_reads_slots_and_fills_others(step: Step, read: list[int], filled: list[int]) -> None:
    assert (list(slots_read(step)), list(slots_filled(step))) == (read, filled)


def test_of_rows_that_bind_nothing_one_is_as_good_as_all_unless_they_are_new() -> None:
    scans = (
        edges(((0, 1),)),
        edges(binds=((0, 1),)),
        edges(twice=((0, 1),)),
        Scan("node", 1, (), (), (), (), new=True),
    )
    assert [scan.single for scan in scans] == [True, False, False, False]
