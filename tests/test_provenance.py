"""First derivations of rows, and the facts at their leaves."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from datalog_gate.analysis import program as ir
from datalog_gate.base.values import Row
from datalog_gate.decision.findings import FOLLOWED, find_support
from datalog_gate.engine import native
from datalog_gate.engine.least_model import Model
from datalog_gate.engine.provenance import Derivation, Fact, Provenance
from datalog_gate.schema.declaration import RelationRef
from tests.programs import Facts, X, Y, Z, facts, match, place, program, programs
from tests.sampling import sample

BASE = ir.CheckedRule("reach", (X, Y), (match("edge", X, Y),), place(2))
STEP = ir.CheckedRule("reach", (X, Y), (match("reach", X, Z), match("edge", Z, Y)), place(1))
CLOSURE = program(ir.Stratum(("reach",), (STEP, BASE), True))
CYCLE: Facts = {"node": [], "edge": [(1, 2), (2, 3), (3, 2), (3, 4), (4, 3)]}


def leaves(checked: ir.CheckedProgram, model: Model, relation: RelationRef, row: Row) -> list[Fact]:
    return [(leaf.relation, leaf.row) for leaf in find_support(Provenance(checked, model), relation, row).leaves]


def test_a_derivation_uses_rows_of_earlier_rounds_only() -> None:
    model = native.evaluate(CLOSURE, CYCLE)
    assert Provenance(CLOSURE, model).derive("reach", (1, 3)) == Derivation(
        STEP, {X: 1, Y: 3, Z: 2}, (("reach", (1, 2)), ("edge", (2, 3)))
    )
    assert Provenance(CLOSURE, model).derive("reach", (1, 2)) == Derivation(BASE, {X: 1, Y: 2}, (("edge", (1, 2)),))


def test_leaves_are_the_facts_below_a_row_in_order() -> None:
    model = native.evaluate(CLOSURE, CYCLE)
    assert leaves(CLOSURE, model, "reach", (1, 4)) == [("edge", (1, 2)), ("edge", (2, 3)), ("edge", (3, 4))]


def test_a_fact_has_no_derivation_and_is_its_own_leaf() -> None:
    model = native.evaluate(CLOSURE, CYCLE)
    assert Provenance(CLOSURE, model).derive("edge", (1, 2)) is None
    assert leaves(CLOSURE, model, "edge", (1, 2)) == [("edge", (1, 2))]


def test_the_first_rule_and_the_least_row_are_chosen() -> None:
    second = ir.CheckedRule("p", (X,), (match("node", X),), place(9))
    first = ir.CheckedRule("p", (X,), (match("edge", X, None), match("edge", None, X)), place(3))
    checked = program(ir.Stratum(("p",), (second, first), False))
    model = native.evaluate(checked, {"node": [(1,)], "edge": [(1, 9), (1, 2), (7, 1), (5, 1)]})
    assert Provenance(checked, model).derive("p", (1,)) == Derivation(
        first, {X: 1}, (("edge", (1, 2)), ("edge", (5, 1)))
    )


def test_the_last_rule_that_can_derive_a_row_is_not_evaluated() -> None:
    counted = ir.Fold("count", (X,), (match("node", X),), Z, place(1))
    many = ir.CheckedRule("p", (Y, ir.Const("n")), (counted, ir.Compare("=", Y, Z, place(1))), place(1))
    edges = ir.CheckedRule("p", (Y, X), (match("edge", Y, None), match("edge", None, X)), place(2))
    lone = ir.CheckedRule(
        "p", (Y, ir.Const("n")), (match("node", Y), ir.Without((match("edge", Y, None),), place(3))), place(3)
    )
    checked = program(ir.Stratum(("p",), (many, edges, lone), False))
    model = native.evaluate(checked, {"node": [(1,), (2,), (3,)], "edge": [(1, 2), (2, "n")]})
    provenance = Provenance(checked, model)
    assert [provenance.derive("p", row) for row in ((3, "n"), (2, "n"), (2, 2), (4, "n"))] == [
        Derivation(many, {Y: 3, Z: 3}, ()),
        Derivation(edges, {Y: 2, X: "n"}, (("edge", (2, "n")), ("edge", (2, "n")))),
        Derivation(edges, {Y: 2, X: 2}, (("edge", (2, "n")), ("edge", (1, 2)))),
        None,
    ]
    checked = program(ir.Stratum(("p",), (many,), False))
    assert Provenance(checked, native.evaluate(checked, {"node": [(1,)]})).derive("p", (1, "n")) == Derivation(
        many, {Y: 1, Z: 1}, ()
    )


def test_a_null_in_the_row_matches_and_a_rule_in_error_derives_nothing() -> None:
    failing = ir.CheckedRule("p", (X,), (match("node", X), ir.Compare("<", X, ir.Const(1), place(3))), place(3))
    bad = ir.Stratum(("p",), (failing,), False)
    doubtful = ir.CheckedRule("q", (X,), (match("node", X), ir.Without((match("p", X),), place(4))), place(4))
    sure = ir.CheckedRule("q", (X,), (match("edge", X, None),), place(5))
    checked = program(bad, ir.Stratum(("q",), (doubtful, sure), False))
    model = native.evaluate(checked, {"node": [(None,)], "edge": [(None, 2)]})
    assert Provenance(checked, model).derive("q", (None,)) == Derivation(sure, {X: None}, (("edge", (None, 2)),))


def test_a_row_in_error_supports_no_other() -> None:
    failing = ir.CheckedRule("p", (X,), (match("node", X), ir.Compare("<", X, ir.Const(1), place(3))), place(3))
    doubtful = ir.CheckedRule(
        "r", (X,), (match("edge", X, ir.Const(None)), ir.Without((match("p", X),), place(4))), place(4)
    )
    start = ir.CheckedRule("r", (X,), (match("edge", ir.Const(0), X),), place(5))
    step = ir.CheckedRule("r", (Y,), (match("r", X), match("edge", X, Y)), place(6))
    checked = program(ir.Stratum(("p",), (failing,), False), ir.Stratum(("r",), (doubtful, start, step), True))
    edges: list[Row] = [(0, 1), (1, 2), (2, "c"), ("a", "c"), ("a", None)]
    model = native.evaluate(checked, {"node": [("a",)], "edge": edges})
    assert leaves(checked, model, "r", ("c",)) == [("edge", (0, 1)), ("edge", (1, 2)), ("edge", (2, "c"))]


@pytest.mark.slow
def test_a_finding_has_only_the_nearest_rows_as_leaves() -> None:
    checked = program(ir.Stratum(("reach",), (STEP, BASE), True))
    model = native.evaluate(checked, {"node": [], "edge": [(at, at + 1) for at in range(1000)]})
    assert leaves(checked, model, "reach", (0, 1000)) == [("edge", (at, at + 1)) for at in range(1000 - FOLLOWED, 1000)]


@pytest.mark.slow
@settings(max_examples=sample(150), suppress_health_check=list(HealthCheck))
@given(programs(), facts())
def test_every_derived_row_has_a_derivation_without_circles(checked: ir.CheckedProgram, given_facts: Facts) -> None:
    model = native.evaluate(checked, given_facts)
    provenance = Provenance(checked, model)
    grounded: set[tuple[RelationRef, Row]] = {(name, row) for name in checked.inputs for row in model.rows(name)}
    derived = {(name, row) for name in checked.relations for row in model.rows(name)} - grounded
    below = {fact: derivation.matched for fact in derived if (derivation := provenance.derive(*fact))}
    assert below.keys() == derived
    while ready := {fact for fact in derived - grounded if grounded.issuperset(below[fact])}:
        grounded |= ready
    assert derived <= grounded
