"""The pyDatalog engine agrees with the native one or refuses."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

from datalog_gate.analysis.program import (
    Call,
    CheckedProgram,
    CheckedRule,
    Const,
    Fold,
    Match,
    Stratum,
    Var,
    Without,
)
from datalog_gate.base.errors import EngineError
from datalog_gate.base.values import TRUE, ResourceId, Row
from datalog_gate.engine import native, pydatalog
from datalog_gate.engine.budget import Budget
from datalog_gate.engine.least_model import Model
from datalog_gate.schema.declaration import RelationRef
from tests.programs import Facts, X, Y, Z, facts, place, program, programs
from tests.sampling import sample

pytest.importorskip("datalog_gate.engine.pydatalog_worker", reason="needs pyDatalog")
HERE = place(1)
REACH = Stratum(
    ("reach",),
    (
        CheckedRule("reach", (X, Y), (Match("edge", (X, Y), HERE),), HERE),
        CheckedRule("reach", (X, Y), (Match("edge", (X, Z), HERE), Match("reach", (Z, Y), HERE)), HERE),
    ),
    True,
)
APART = (Match("node", (X,), HERE), Match("node", (Y,), HERE), Without((Match("reach", (X, Y), HERE),), HERE))
UNREACHED = Stratum(("apart",), (CheckedRule("apart", (X, Y), APART, HERE),), False)
COUNTED = Fold("count", (Y,), (Match("reach", (X, Y), HERE),), Z, HERE)
COUNT = Stratum(("many",), (CheckedRule("many", (X, Z), (Match("node", (X,), HERE), COUNTED), HERE),), False)
GRAPH: Facts = {
    "node": [(1,), ("1",), (TRUE,), (ResourceId("1"),), (None,)],
    "edge": [(1, "1"), ("1", 1), (TRUE, 1), (None, None)],
}


def derived(model: Model) -> dict[RelationRef, set[Row]]:
    return {name: set(table.rows) for name, table in model.tables.items()}


@settings(max_examples=sample(30), suppress_health_check=list(HealthCheck))
@given(programs(), facts())
def test_it_derives_what_the_native_engine_derives(checked: CheckedProgram, given_facts: Facts) -> None:
    try:
        other = pydatalog.evaluate(checked, given_facts)
    except EngineError as error:
        assume(not str(error).startswith("pyDatalog refuses"))
        raise
    model = native.evaluate(checked, given_facts)
    assert derived(other) == derived(model)


def recursive(**rules: list[list[Match]]) -> Stratum:
    """A stratum of rules ``name(x, y) :- edge(x, y)`` and ``name(x, y) :- ...`` for each name and body."""
    closure = []
    for name, bodies in rules.items():
        closure.append(CheckedRule(name, (X, Y), (Match("edge", (X, Y), HERE),), HERE))
        closure += [CheckedRule(name, (X, Y), tuple(body), HERE) for body in bodies]
    return Stratum(tuple(rules), tuple(closure), True)


def m(name: str, *arguments: Var) -> Match:
    return Match(name, arguments, HERE)


@pytest.mark.parametrize(
    "stratum",
    [
        recursive(p=[[m("p", X, Z), m("edge", Z, Y)]]),
        recursive(p=[[m("edge", X, Z), m("p", Z, Y)]]),
        recursive(p=[[m("p", X, Z), m("p", Z, Y)]]),
        recursive(p=[[m("p", Y, X)], [m("edge", X, Z), m("p", Z, Z), m("p", Z, Y), m("p", Y, X)]]),
        recursive(p=[[m("q", Y, X)]], q=[[m("r", X, Z), m("p", Z, Y)]], r=[[m("edge", X, Z), m("q", Z, Y)]]),
    ],
    ids=["left", "right", "not linear", "of itself thrice", "of three relations"],
)
def test_it_comes_back_from_every_recursion_over_cycles(stratum: Stratum) -> None:
    graph: Facts = {"edge": [(at, (at * step) % 7) for at in range(7) for step in (2, 3)], "node": []}
    checked = program(stratum)
    model = pydatalog.evaluate(checked, graph, Budget(seconds=60))
    assert derived(model) == derived(native.evaluate(checked, graph))


def test_negation_over_right_recursion_on_a_cycle_is_right_in_its_process() -> None:
    checked = program(REACH, UNREACHED, COUNT)
    model, expected = pydatalog.evaluate(checked, GRAPH), native.evaluate(checked, GRAPH)
    assert {name: set(table.rows) for name, table in model.tables.items()} == {
        name: set(table.rows) for name, table in expected.tables.items()
    }
    assert model.errors == ()


def test_it_refuses_what_meets_an_error() -> None:
    body = (Match("node", (X,), HERE), Call("/", (Const(1), X), (Y,), HERE))
    checked = program(Stratum(("p",), (CheckedRule("p", (Y,), body, HERE),), False))
    with pytest.raises(EngineError) as refusal:
        pydatalog.evaluate(checked, {"node": [(0,)], "edge": []})
    assert str(refusal.value) == (
        "pyDatalog refuses the rule of p at rules.dl:1:1: an expression in it fails; the native engine "
        "(--engine native) tells where and for what"
    )


def test_the_worker_is_killed_at_the_deadline() -> None:
    model = pydatalog.evaluate(program(REACH), GRAPH, Budget(seconds=0))
    assert (str(model.exceeded), set(model.tables)) == ("out of time after 0 s in the pyDatalog worker", set(GRAPH))


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = "import sys; sys.modules['pyDatalog'] = None; import datalog_gate.engine.pydatalog_worker as w; w.main()"
    monkeypatch.setattr(pydatalog, "COMMAND", (*pydatalog.COMMAND[:2], "-c", blocked))
    with pytest.raises(EngineError, match=r"^pyDatalog is not installed: pip install datalog-gate\[pydatalog\]$"):
        pydatalog.evaluate(program(REACH), GRAPH)
