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


def leaves(checked: ir.CheckedProgram, model: Model, relation: RelationRef, row: Row) -> list[Fact]:
    return [(leaf.relation, leaf.row) for leaf in find_support(Provenance(checked, model), relation, row).leaves]


def test_a_row_has_its_first_derivation_by_the_order_of_rules_and_values() -> None:
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
