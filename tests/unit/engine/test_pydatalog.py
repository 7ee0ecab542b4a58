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


def test_the_worker_is_killed_at_the_deadline() -> None:
    model = pydatalog.evaluate(program(REACH), GRAPH, Budget(seconds=0))
    assert (str(model.exceeded), set(model.tables)) == ("out of time after 0 s in the pyDatalog worker", set(GRAPH))


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = "import sys; sys.modules['pyDatalog'] = None; import datalog_gate.engine.pydatalog_worker as w; w.main()"
    monkeypatch.setattr(pydatalog, "COMMAND", (*pydatalog.COMMAND[:2], "-c", blocked))
    with pytest.raises(EngineError, match=r"^pyDatalog is not installed: pip install datalog-gate\[pydatalog\]$"):
        pydatalog.evaluate(program(REACH), GRAPH)
