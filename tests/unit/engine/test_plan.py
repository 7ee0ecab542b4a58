"""Plans: the order of literals, and the rows that their functions read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from datalog_gate.analysis import program as ir
from datalog_gate.base.values import Row
from datalog_gate.engine.codegen import compile_plan
from datalog_gate.engine.plan import Plan, plan
from datalog_gate.schema.declaration import relation_name
from tests.programs import HERE, X, Y, Z, edge, node

ONE, TWO, V, W = ir.Const(1), ir.Const(2), ir.Var("v"), ir.Var("w")
V0, V1, V2, V3, V4 = (ir.Var(f"v{at}") for at in range(5))
SIZES = {"edge": 9, "node": 3}
NEW = ir.Match("reach", (X, Z), HERE, new=True)
Head = tuple[ir.Operand, ...]
Body = tuple[ir.CheckedLiteral, ...]
PLANS: list[tuple[str, Head, Body, Head, Body]] = [
    (
        "the fewest rows first, a test as soon as it can be",
        (X, Y), (edge(X, Y), ir.Compare("<", X, TWO, HERE), node(X)),
        (V0, V1), (node(V0), ir.Compare("<", V0, TWO, HERE), edge(V0, V1)),
    ),
    (
        "a negation before an aggregate, and both before another match",
        (X, Z, ONE), (edge(X, W), ir.Fold("count", (Y,), (edge(X, Y),), Z, HERE), ir.Without((edge(None, X),), HERE),
                      node(X), ir.Compare("=", W, V, HERE), ir.Call("matches", (V, Z), (), HERE)),
        (V0, V2, ONE), (node(V0), ir.Without((edge(None, V0),), HERE),
                        ir.Fold("count", (V1,), (edge(V0, V1),), V2, HERE), edge(V0, V3),
                        ir.Compare("=", V3, V4, HERE), ir.Call("matches", (V4, V2), (), HERE)),
    ),
    (
        "the new rows first, whatever their number",
        (X, Y), (edge(Z, Y), NEW), (V0, V2), (ir.Match("reach", (V0, V1), HERE, new=True), edge(V1, V2)),
    ),
    (
        "constants, what stands once or twice, and what is computed",
        (Y,), (edge(ONE, X), edge(X, X), edge(Z, X), ir.Call("+", (X, ONE), (Y,), HERE)),
        (V1,), (edge(ONE, V0), edge(V0, V0), edge(None, V0), ir.Call("+", (V0, ONE), (V1,), HERE)),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("head", "body", "terms", "ordered"), [case[1:] for case in PLANS], ids=[c[0] for c in PLANS])
def test_a_plan_is_what_one_would_draw(head: Head, body: Body, terms: Head, ordered: Body) -> None:
    rule = ir.CheckedRule("p", head, body, HERE)
    assert plan(rule, lambda name: SIZES.get(str(name), 0)) == Plan(terms, ordered)


class CountedRows(list[Row]):
    """Rows that count how many of them were read."""

    read = 0

    def __iter__(self) -> Iterator[Row]:
        for row in super().__iter__():
            self.read += 1
            yield row


APART, FEWER = ir.Compare("!=", V1, V2, HERE), ir.Compare("<", V1, V2, HERE)


@pytest.mark.parametrize(
    ("body", "nodes", "edges"),
    [
        ((node(V0), edge(V1, V2)), 3, 0),
        ((node(V0), edge(V1, V2), APART), 3, 6),
        ((node(V0), edge(V1, V2), FEWER), 3, 12),
        ((edge(V1, V2), APART, node(V0)), 9, 4),
        ((node(V0), ir.Without((edge(V1, V1),), HERE)), 3, 3),
    ],
    ids=["any row will do", "the first that fits", "all where one may fail", "all before the head", "in a negation"],
)
def test_what_gives_nothing_to_the_head_only_has_to_exist(body: Body, nodes: int, edges: int) -> None:
    rows = {"node": CountedRows([(1,), (2,), (3,)]), "edge": CountedRows([(1, 1), (1, 2), (2, 3), (3, 1)])}
    compiled = compile_plan(Plan((V0,), body), emits=False)
    lookups = [rows[relation_name(access.relation)] for access in compiled.accesses]
    compiled.work(lookups, compiled.constants, {}, None, (), 1000, lambda _: 1000)
    assert {name: counted.read for name, counted in rows.items()} == {"node": nodes, "edge": edges}
