"""The pyDatalog engine agrees with the native one or refuses."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

from datalog_gate.analysis import program as ir
from datalog_gate.base.errors import EngineError
from datalog_gate.base.values import TRUE, ResourceId, Row
from datalog_gate.engine import native, pydatalog
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.least_model import Model
from datalog_gate.schema.declaration import RelationRef
from tests.programs import HERE, Facts, X, Y, Z, facts, match, program, programs
from tests.sampling import sample

pytest.importorskip("datalog_gate.engine.pydatalog_worker", reason="needs pyDatalog")
REACH = ir.Stratum(
    ("reach",),
    (
        ir.CheckedRule("reach", (X, Y), (match("edge", X, Y),), HERE),
        ir.CheckedRule("reach", (X, Y), (match("edge", X, Z), match("reach", Z, Y)), HERE),
    ),
    True,
)
APART = (match("node", X), match("node", Y), ir.Without((match("reach", X, Y),), HERE))
UNREACHED = ir.Stratum(("apart",), (ir.CheckedRule("apart", (X, Y), APART, HERE),), False)
COUNTED = ir.Fold("count", (Y,), (match("reach", X, Y),), Z, HERE)
COUNT = ir.Stratum(("many",), (ir.CheckedRule("many", (X, Z), (match("node", X), COUNTED), HERE),), False)
GRAPH: Facts = {
    "node": [(1,), ("1",), (TRUE,), (ResourceId("1"),), (None,)],
    "edge": [(1, "1"), ("1", 1), (TRUE, 1), (None, None)],
}


def derived(model: Model) -> dict[RelationRef, set[Row]]:
    return {name: set(table.rows) for name, table in model.tables.items()}


@settings(max_examples=sample(30), suppress_health_check=list(HealthCheck))
@given(programs(), facts())
def test_pydatalog_derives_the_rows_of_the_native_engine(checked: ir.CheckedProgram, given_facts: Facts) -> None:
    try:
        other = pydatalog.evaluate(checked, given_facts)
    except EngineError as error:
        assume(not str(error).startswith("pyDatalog refuses"))
        raise
    model = native.evaluate(checked, given_facts)
    assert derived(other) == derived(model)


def recursive(**rules: list[list[ir.Match]]) -> ir.Stratum:
    """A stratum of rules ``name(x, y) :- edge(x, y)`` and ``name(x, y) :- ...`` for each name and body."""
    closure = []
    for name, bodies in rules.items():
        closure.append(ir.CheckedRule(name, (X, Y), (match("edge", X, Y),), HERE))
        closure += [ir.CheckedRule(name, (X, Y), tuple(body), HERE) for body in bodies]
    return ir.Stratum(tuple(rules), tuple(closure), True)


@pytest.mark.parametrize(
    "stratum",
    [
        recursive(p=[[match("p", X, Z), match("edge", Z, Y)]]),
        recursive(p=[[match("edge", X, Z), match("p", Z, Y)]]),
        recursive(p=[[match("p", X, Z), match("p", Z, Y)]]),
        recursive(p=[[match("p", Y, X)], [match("edge", X, Z), match("p", Z, Z), match("p", Z, Y), match("p", Y, X)]]),
        recursive(
            p=[[match("q", Y, X)]],
            q=[[match("r", X, Z), match("p", Z, Y)]],
            r=[[match("edge", X, Z), match("q", Z, Y)]],
        ),
    ],
    ids=["left", "right", "not linear", "of itself three times", "of three relations"],
)
def test_every_recursion_over_cycles_ends(stratum: ir.Stratum) -> None:
    graph: Facts = {"edge": [(at, (at * step) % 7) for at in range(7) for step in (2, 3)], "node": []}
    checked = program(stratum)
    model = pydatalog.evaluate(checked, graph, Budget(seconds=60))
    assert derived(model) == derived(native.evaluate(checked, graph))


def test_negation_over_right_recursion_on_a_cycle_is_correct() -> None:
    checked = program(REACH, UNREACHED, COUNT)
    model, expected = pydatalog.evaluate(checked, GRAPH), native.evaluate(checked, GRAPH)
    assert (derived(model), model.errors) == (derived(expected), ())


def test_the_worker_is_killed_at_the_deadline() -> None:
    model = pydatalog.evaluate(program(REACH), GRAPH, Budget(seconds=0))
    assert (str(model.exceeded), set(model.tables)) == ("out of time after 0 s in the pyDatalog worker", set(GRAPH))


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = "import sys; sys.modules['pyDatalog'] = None; import datalog_gate.engine.pydatalog_worker as w; w.main()"
    monkeypatch.setattr(pydatalog, "COMMAND", (*pydatalog.COMMAND[:2], "-c", blocked))
    with pytest.raises(EngineError, match=r"^pyDatalog is not installed: pip install datalog-gate\[pydatalog\]$"):
        pydatalog.evaluate(program(REACH), GRAPH)
