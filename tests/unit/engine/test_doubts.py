"""Rows that lack values put stacks into doubt."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lifting import Facts, Lifted, lift
from datalog_gate.base.values import Row
from datalog_gate.engine.native import evaluate
from datalog_gate.engine.sql.doubts import Doubts, with_doubts
from datalog_gate.schema.declaration import MAYBE, RelationRef
from tests.programs import HERE, X, Y, edge, node, place, program, short_budget, written
from tests.sampling import sample
from tests.unit.analysis.test_lifting import Answer, Case, answer, cases

Columns = dict[str, set[int]]
"""The columns in which values lack, by relation."""


def draw_columns(lifted: Lifted, inputs: frozenset[str], random: Random) -> Columns:
    """Some columns of some relations that stacks fill."""
    columns: Columns = {}
    for name in sorted(inputs.intersection(map(str, lifted.program.inputs))):
        width = len(lifted.program.relations[name].columns)
        for relation in (name, name + MAYBE)[: random.randint(0, 2)]:
            columns[relation] = {at for at in range(1, width) if random.random() < 0.5}
    return columns


def hide(facts: Facts, columns: Mapping[str, set[int]], random: Random) -> tuple[Facts, Facts]:
    """The facts without some rows that may not be there, and what is known of all: some rows lack values."""
    real: dict[RelationRef, set[Row]] = {name: set(rows) for name, rows in facts.items()}
    known = {name: set(rows) for name, rows in real.items()}
    known |= {Doubts.lacking(name, at): set() for name, lack in columns.items() for at in lack}
    for name in (name for name in columns if not name.endswith(MAYBE)):
        known |= {name: set(), name + MAYBE: set()}
        for row in facts[name]:
            is_maybe = name + MAYBE in columns and random.random() < 0.4
            if is_maybe and random.random() < 0.4:
                real[name].discard(row)
            relation = name + MAYBE if is_maybe else name
            gone = [at for at in sorted(columns[relation]) if random.random() < 0.4]
            known[relation].add(tuple(None if at in gone else value for at, value in enumerate(row)))
            for at in gone:
                known[Doubts.lacking(relation, at)].add(row[:1])
    return real, known


def without(answer: Answer, doubts: Doubts, doubtful: Mapping[RelationRef, set[Row]]) -> Answer:
    """The rows that are not in doubt, and the errors of roots that have no doubt about the relation."""
    rows, errors = answer
    settled = {name: set(found) for name, found in rows.items()}
    for doubt, (name, positions) in doubts.relations.items():
        wrong = doubtful[doubt]
        settled[name] = {row for row in settled[name] if (row[0], *(row[at] for at in positions)) not in wrong}
        roots = {row[0] for row in wrong}
        errors = {error for error in errors if error.relation != name or error.row[0] not in roots}
    return settled, errors


@settings(max_examples=sample(1000), deadline=None)
@given(cases(), st.integers(0, 2**32))
def test_stacks_that_are_not_in_doubt_have_all_their_rows_and_errors(case: Case, seed: int) -> None:
    original, inputs, stacks = case
    random = Random(seed)
    lifted = lift(original, inputs)
    columns = draw_columns(lifted, inputs, random)
    real, known = hide(lifted.facts(stacks), columns, random)
    doubts = with_doubts(lifted, columns)
    model = evaluate(doubts.lifted.program, known, short_budget())
    assume(not model.exceeded)
    errors = [(error.relation, error.row) for error in model.errors]
    doubtful = {
        doubt: {*model.rows(doubt), *(row for relation, row in errors if relation == doubt)}
        for doubt in doubts.relations
    }
    derived = [name for stratum in lifted.program.strata for name in stratum.relations]
    found = {name: set(model.rows(name)) for name in derived}, {e for e in model.errors if e.relation in derived}
    expected = answer(lifted.program, real)
    assert without(found, doubts, doubtful) == without(expected, doubts, doubtful), written(original, {})


def in_doubt(bodies: Mapping[RelationRef, list[ir.CheckedLiteral]], known: Facts) -> dict[RelationRef, set[str]]:
    """The roots in doubt about each relation. Rows of `edge` lack their last column, or may not be there."""
    rules = [ir.CheckedRule(name, (X,), (node(X), *body), place(1)) for name, body in bodies.items()]
    lifted = lift(program(*(ir.Stratum((rule.relation,), (rule,), False) for rule in rules)), {"node", "edge"})
    doubts = with_doubts(lifted, {"edge": {2}, "edge?": {2}})
    model = evaluate(doubts.lifted.program, known)
    assert model.errors == ()
    found: dict[RelationRef, set[str]] = {name: set() for name, _ in doubts.relations.values()}
    for doubt, (name, _) in doubts.relations.items():
        found[name] |= {str(row[0]) for row in model.rows(doubt)}
    return found


def test_a_stack_is_in_doubt_where_a_row_fits_as_far_as_it_is_known() -> None:
    known: Facts = {
        "root#": [("a",), ("b",), ("c",)],
        "node": [("a", 1), ("b", 1), ("c", 1)],
        "edge": [("a", "b", None), ("b", 1, None), ("c", "b", None)],
        "edge#2": [("a",), ("b",)],
        "edge?": [("c", 1, None)],
        "edge?#2": [("c",)],
    }
    bodies: dict[RelationRef, list[ir.CheckedLiteral]] = {
        "listed": [edge(ir.Const("b"), X)],
        "free": [ir.Without((edge(X, None),), place(2))],
    }
    assert in_doubt(bodies, known) == {"listed": {"a"}, "free": {"c"}}


def test_what_is_sure_and_never_fails_keeps_stacks_out_of_doubt() -> None:
    known: Facts = {
        "root#": [("a",), ("b",), ("c",)],
        "node": [("a", 1), ("b", "t"), ("c", "u")],
        "edge": [(root, "b", None) for root in "abc"],
        "edge#2": [("a",), ("b",), ("c",)],
    }
    is_t, starts_with_t = ir.Compare("=", X, ir.Const("t"), HERE), ir.Call("starts_with", (X, ir.Const("t")), (), HERE)
    bodies: dict[RelationRef, list[ir.CheckedLiteral]] = {
        "number": [ir.Call("is_number", (X,), (), HERE)],
        "equal": [is_t],
        "failing": [starts_with_t],
        "not equal": [ir.Without((node(X), is_t), HERE)],
        "not failing": [ir.Without((node(X), starts_with_t), HERE)],
        "not read": [ir.Without((node(X), edge(X, None)), HERE)],
    }
    beside = {name: [edge(ir.Const("b"), X), *body] for name, body in bodies.items()}
    assert in_doubt(beside, known) == {
        "number": {"a"},
        "equal": {"b"},
        "failing": {"a", "b", "c"},
        "not equal": {"a", "c"},
        "not failing": {"a", "b", "c"},
        "not read": {"a", "b", "c"},
    }


def test_a_row_is_certain_without_the_value_that_lacks() -> None:
    rules = [
        ir.CheckedRule("passed", (X, Y), (node(X), edge(X, Y)), place(1)),
        ir.CheckedRule("there", (X,), (node(X), ir.Match("passed", (X, None), place(2))), place(2)),
        ir.CheckedRule("equal", (X,), (node(X), ir.Match("passed", (X, ir.Const(1)), place(3))), place(3)),
        ir.CheckedRule("joined", (X, Y), (node(X), edge(X, Y), node(Y)), place(4)),
        ir.CheckedRule("there too", (X,), (node(X), ir.Match("joined", (X, None), place(5))), place(5)),
    ]
    lifted = lift(program(*(ir.Stratum((rule.relation,), (rule,), False) for rule in rules)), {"node", "edge"})
    doubts = with_doubts(lifted, {"edge": {2}})
    known: Facts = {
        "root#": [("a",)],
        "node": [("a", 1), ("a", 2)],
        "edge": [("a", 1, None), ("a", 2, 2)],
        "edge#2": [("a",)],
    }
    model = evaluate(doubts.lifted.program, known)
    found = {(name, positions): model.rows(doubt) for doubt, (name, positions) in doubts.relations.items()}
    assert {key: set(rows) for key, rows in found.items()} == {
        ("passed", (1,)): {("a", 1)},
        ("equal", (1,)): {("a", 1)},
        ("joined", (1, 2)): {("a", 1, 1), ("a", 1, 2)},
        ("there too", (1,)): {("a", 1)},
    }
