"""The meaning of single rules, in every engine.

They cover nulls, kinds, unknowns, errors, negation and aggregates. Each case is one rule's body over a few facts, and
what it derives.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest

from datalog_gate.analysis import program as ir
from datalog_gate.base.values import TRUE, ResourceId, Row, Value
from datalog_gate.engine import native
from datalog_gate.engine.least_model import ModelError
from datalog_gate.language.ast import AggregateFunction, Comparator
from datalog_gate.schema.declaration import RelationRef
from tests.expressions import as_words, worded
from tests.programs import HERE, X, Y, Z, edge, node, place, program

NULL, ONE = ir.Const(None), ir.Const(1)
U = worded("get_attr: [web, networks]")
Body = tuple[ir.CheckedLiteral, ...]


def is_(left: ir.Operand, comparator: Comparator, right: ir.Operand, when_unknown: bool = False) -> ir.Compare:
    return ir.Compare(comparator, left, right, HERE, when_unknown)


def call(name: str, *operands: ir.Pattern, outputs: int = 1) -> ir.Call:
    inputs = tuple(operand for operand in operands[: len(operands) - outputs] if operand)
    return ir.Call(name, inputs, operands[len(operands) - outputs :], HERE)


def without(*body: ir.CheckedLiteral) -> ir.Without:
    return ir.Without(body, HERE)


def fold(function: AggregateFunction, terms: tuple[ir.Operand, ...], *body: ir.CheckedLiteral) -> ir.Fold:
    return ir.Fold(function, terms, body, Z, HERE)


def evaluated(
    body: Body, head: tuple[ir.Operand, ...], nodes: list[Value], edges: list[Row]
) -> tuple[set[Row], list[tuple[Row, str]]]:
    """The rows and errors of ``p(head) :- body``."""
    checked = program(ir.Stratum(("p",), (ir.CheckedRule("p", head, body, HERE),), False))
    facts: dict[RelationRef, list[Row]] = {"node": [(value,) for value in nodes], "edge": edges}
    model = native.evaluate(checked, facts)
    return set(model.rows("p")), [(error.row, error.message) for error in model.errors]


@pytest.mark.parametrize(
    ("body", "nodes", "edges", "expected"),
    [
        # a variable never joins null, a constant null does
        ((node(X),), [None, 1], [], {None, 1}),
        ((node(X), edge(X, None)), [None, 1], [(None, 1), (1, 1)], {1}),
        ((node(X), without(edge(X, None))), [None, 1], [(None, 1), (1, 1)], {None}),
        ((node(None), is_(X, "=", NULL)), [1], [], {None}),
        ((node(Y), is_(X, "=", Y)), [None, 1], [], {None, 1}),
        ((node(Y), call("??", Y, ONE, X)), [None, 2], [], {1, 2}),
        ((node(Y), edge(X, None), call("??", Y, NULL, X)), [None, 2], [(None, 1), (2, 1)], {2}),
        ((node(Y), call("??", Y, NULL, NULL), is_(X, "=", ONE)), [None], [], {1}),
        # kinds never equal each other
        ((node(X), edge(X, None)), [1, "1", TRUE, ResourceId("1")], [("1", 1), (TRUE, 1)], {"1", TRUE}),
        ((node(X), is_(X, "<", ir.Const("b"))), ["B", "a", "b"], [], {"B", "a"}),
        # unknowns equal themselves, else as the literal says
        ((node(X), is_(X, "=", ONE)), [U, 1], [], {1}),
        ((node(X), is_(X, "=", ONE, True)), [U, 1, 2], [], {U, 1}),
        ((node(X), is_(X, "!=", X, True)), [U], [], set()),
        ((node(X), is_(X, "<=", X)), [U], [], {U}),
        ((node(X), edge(X, None)), [U], [(U, 1), (worded("other"), 1)], {U}),
        ((node(Y), call("+", Y, ONE, X)), [U, 1], [], {worded("+(?'get_attr: [web, networks]', 1)"), 2}),
        ((node(X), ir.Call("starts_with", (X, ir.Const("a")), (), HERE, True)), [U, "a", "b"], [], {U, "a"}),
        # a computed value fits what else binds it
        ((node(Y), edge(X, None), call("+", Y, ONE, X)), [1], [(2, 0), (3, 0)], {2}),
        ((node(X), call("+", X, ONE, ir.Const(3))), [1, 2], [], {2}),
        ((node(X), call("+", X, ONE, None)), [1], [], {1}),
        # negation: the body's other variables are bound before, its own are any
        ((node(X), without(edge(X, Y), node(Y))), [1, 2, 3], [(1, 2), (2, 9)], {2, 3}),
        ((node(X), without(edge(X, Y), without(edge(Y, X)))), [1, 2], [(1, 2), (2, 1), (2, 3)], {1}),
        ((node(X), without(is_(X, ">", ONE))), [1, 2], [], {1}),
    ],
)
def test_a_body_derives(body: Body, nodes: list[Value], edges: list[Row], expected: set[Value]) -> None:
    rows: set[Row] = {(value,) for value in expected}
    assert as_words(evaluated(body, (X,), nodes, edges)) == (rows, [])
    assert as_words(evaluated(body[::-1], (X,), nodes, edges)) == (rows, [])


PAIRS: list[Row] = [("a", 1), ("b", 1), ("c", 3), ("d", None)]
NAMES = (node(X), ir.Match("edge", (X, Y), HERE))


@pytest.mark.parametrize(
    ("function", "terms", "over_pairs", "over_nothing"),
    [
        ("count", (X, Y), 4, 0),
        ("count", (Y, X), 3, 0),
        ("sum", (Y,), 4, 0),
        ("sum", (Y, X), 5, 0),
        ("avg", (Y, X), Decimal("1.666666666666666666666666667"), None),
        ("list", (X,), "a,b,c,d", ""),
    ],
)
def test_an_aggregate_is_over_the_distinct_tuples_whose_first_is_not_null(
    function: AggregateFunction, terms: tuple[ir.Operand, ...], over_pairs: Value, over_nothing: Value
) -> None:
    def folded(edges: list[Row]) -> set[Row]:
        rows, errors = evaluated((fold(function, terms, edge(X, Y)),), (Z,), [], edges)
        assert errors == []
        return rows

    empty: set[Row] = set() if over_nothing is None else {(over_nothing,)}
    assert (folded(PAIRS), folded([])) == ({(over_pairs,)}, empty)


TEN = call("/", ir.Const(10), X, Z)
ZERO = "/(10, 0): division by zero"
ORDER = "'a' > 1: string and number can't be ordered"
NO_NUMBER, NO_ORDER = "sum: 'a' is string, not number", "min: number and string can't be ordered"
BIG = (edge(Y, None), is_(Y, ">", ONE))


@pytest.mark.parametrize(
    ("body", "nodes", "edges", "rows", "errors"),
    [
        ((node(X), TEN), [0, 5], [], {(5, 2)}, [((0, None), ZERO)]),
        # a false literal beats an error
        ((node(X), TEN, is_(X, ">", ONE)), [0, 5], [], {(5, 2)}, []),
        ((node(X), TEN, edge(X, Z)), [0], [(0, 7), (0, 8)], set(), [((0, 7), ZERO), ((0, 8), ZERO)]),
        ((node(X), TEN, edge(X, None)), [0], [(1, 7)], set(), []),
        # what waits for a value that failed is not false
        ((node(X), TEN, is_(Z, "=", ONE)), [0], [], set(), [((0, 1), ZERO)]),
        ((node(X), TEN, is_(Z, ">", ONE)), [0], [], set(), [((0, None), ZERO)]),
        # the first of two errors is told
        ((node(X), is_(X, ">", ONE), call("/", ONE, ir.Const(0), Z)), ["a"], [], set(), [(("a", None), ORDER)]),
        # inside a negation: a true body wins, then an error
        ((node(X), without(*BIG), is_(Z, "=", ONE)), [1], [("a", 1), (2, 1)], set(), []),
        ((node(X), without(*BIG), is_(Z, "=", ONE)), [1], [("a", 1)], set(), [((1, 1), ORDER)]),
        # inside an aggregate
        ((node(X), fold("sum", (Y,), *BIG)), [1], [("a", 1), (2, 1)], set(), [((1, None), ORDER)]),
        ((node(X), fold("sum", (Y,), edge(Y, X))), [1], [("a", 1)], set(), [((1, None), NO_NUMBER)]),
        ((node(X), fold("min", (Y,), edge(Y, X))), [1], [("a", 1), (1, 1)], set(), [((1, None), NO_ORDER)]),
    ],
)
def test_an_error_is_of_one_assignment(
    body: Body, nodes: list[Value], edges: list[Row], rows: set[Row], errors: list[tuple[Row, str]]
) -> None:
    assert evaluated(body, (X, Z), nodes, edges) == (rows, errors)
    assert evaluated(body[::-1], (X, Z), nodes, edges) == (rows, errors)


def rule(name: str, head: tuple[ir.Operand, ...], *body: ir.CheckedLiteral, line: int) -> ir.CheckedRule:
    return ir.CheckedRule(name, head, body, place(line))


def stratum(*rules: ir.CheckedRule, recursive: bool = False) -> ir.Stratum:
    return ir.Stratum(tuple(dict.fromkeys(rule.relation for rule in rules)), rules, recursive)


FAILING = stratum(rule("p", (X,), node(X), ir.Compare("<", X, ir.Const(5), place(2)), line=2))
MESSAGE = "'a' < 5: string and number can't be ordered"


def test_an_error_spreads_to_what_depends_on_it_and_is_never_false() -> None:
    checked = program(
        FAILING,
        stratum(rule("q", (X,), ir.Match("p", (X,), place(3)), line=3)),
        stratum(
            rule("r", (X,), node(X), ir.Without((ir.Match("q", (X,), place(4)),), place(4)), line=4),
            rule("n", (Z,), ir.Fold("count", (X,), (ir.Match("q", (X,), place(5)),), Z, place(5)), line=5),
        ),
    )
    model = native.evaluate(checked, {"node": [(1,), ("a",), (7,)], "edge": []})
    assert {name: set(model.rows(name)) for name in "pqrn"} == {"p": {(1,)}, "q": {(1,)}, "r": {(7,)}, "n": set()}
    assert model.errors == (
        ModelError("n", place(2), MESSAGE, (None,)),
        ModelError("p", place(2), MESSAGE, ("a",)),
        ModelError("q", place(2), MESSAGE, ("a",)),
        ModelError("r", place(2), MESSAGE, ("a",)),
    )


def test_an_error_spreads_through_recursion() -> None:
    reach = [
        rule("r", (X,), ir.Match("p", (X,), place(3)), line=3),
        rule("r", (Y,), ir.Match("r", (X,), HERE), edge(X, Y), line=4),
    ]
    model = native.evaluate(
        program(FAILING, stratum(*reach, recursive=True)), {"node": [("a",)], "edge": [("a", "b"), ("b", "a")]}
    )
    assert model.errors == tuple(
        ModelError(name, place(2), MESSAGE, (row,)) for row, name in [("a", "p"), ("a", "r"), ("b", "r")]
    )


@pytest.mark.parametrize("length", [17, 18, 19, 40, pytest.param(990, marks=pytest.mark.slow)])
def test_a_body_longer_than_loops_can_be_nested_gives_its_rows(length: int) -> None:
    at = [ir.Var(f"x{number}") for number in range(length + 1)]
    chain = tuple(edge(var, other) for var, other in pairwise(at))
    model = native.evaluate(
        program(ir.Stratum(("p",), (ir.CheckedRule("p", (at[0], at[-1]), chain, HERE),), False)),
        {"node": [], "edge": [(1, 2), (2, 1), (3, 4)]},
    )
    assert set(model.rows("p")) == ({(1, 2), (2, 1)} if length % 2 else {(1, 1), (2, 2)})


def test_a_linear_recursion_goes_on_behind_an_error() -> None:
    steps = (ir.Match("r", (X,), HERE), edge(X, Y), ir.Call("/", (ir.Const(6), Y), (None,), HERE))
    reach = [rule("r", (X,), node(X), line=1), rule("r", (Y,), *steps, line=2)]
    model = native.evaluate(
        program(stratum(*reach, recursive=True)), {"node": [(5,)], "edge": [(5, 0), (5, 1), (1, 2), (2, 3), (3, 4)]}
    )
    assert set(model.rows("r")) == {(5,), (1,), (2,), (3,), (4,)}
    assert [(error.relation, error.row) for error in model.errors] == [("r", (0,))]


def test_an_error_counts_beside_a_row_of_nulls_that_is_derived() -> None:
    checked = program(stratum(rule("p", (ir.Const(None),), node(X), edge(Y, Z), is_(Y, ">=", Z), line=1)))
    model = native.evaluate(checked, {"node": [(1,)], "edge": [(2, 1), ("a", 1)]})
    assert (set(model.rows("p")), [(error.relation, error.row) for error in model.errors]) == (
        {(None,)},
        [("p", (None,))],
    )


@pytest.mark.parametrize("turned", [False, True])
def test_an_equation_that_holds_of_unknowns_leaves_binding_to_another(turned: bool) -> None:
    both = (is_(Y, "=", ir.Const(worded("u")), when_unknown=True), is_(Y, "=", X))
    checked = program(stratum(rule("p", (X, Y), node(X), *(both[::-1] if turned else both), line=1)))
    facts: dict[RelationRef, list[Row]] = {"node": [(2,)], "edge": []}
    assert set(native.evaluate(checked, facts).rows("p")) == {(2, 2)}
