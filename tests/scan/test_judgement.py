"""Generated programs over many stacks: DuckDB and PostgreSQL settle what native answers."""

from __future__ import annotations

import os
from collections import Counter

from hypothesis import HealthCheck, given, seed, settings

from datalog_gate.analysis.lifting import lift
from datalog_gate.engine.sql.database import Database
from tests.programs import written
from tests.sql_answers import answer, difference
from tests.unit.analysis.test_lifting import Case, cases

PROGRAMS = int(os.environ.get("DATALOG_GATE_SQL_PROGRAMS", "400"))
SEED = int(os.environ.get("DATALOG_GATE_SQL_SEED", "0"))


def test_generated_programs_have_the_rows_of_native(database: Database) -> None:
    tally: Counter[str] = Counter()

    @settings(max_examples=PROGRAMS, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @seed(SEED)
    @given(cases())
    def compare(case: Case) -> None:
        program, inputs, stacks = case
        lifted = lift(program, inputs)
        facts = lifted.facts(stacks)
        result = answer(lifted, facts, database)
        assert difference(lifted, facts, result) == "", written(program, {})
        tally["settled"] += len(result.rows)
        tally["with rows"] += any(result.rows.values())

    compare()
    assert tally["with rows"] > PROGRAMS / 10
