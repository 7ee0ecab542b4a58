"""The pyDatalog engine: the parent of its worker process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Collection, Mapping

from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.base.errors import BudgetError, EngineError
from datalog_gate.base.values import Row
from datalog_gate.engine.budget import UNLIMITED, Budget
from datalog_gate.engine.least_model import IndexedTable, Model
from datalog_gate.schema.declaration import RelationRef

# -P: do not import from the current folder, which may hold files of other users
COMMAND = (sys.executable, "-P", "-m", "datalog_gate.engine.pydatalog_worker")


def evaluate(
    program: CheckedProgram,
    facts: Mapping[RelationRef, Collection[Row]],
    budget: Budget = UNLIMITED,
    before: Model | None = None,
) -> Model:
    """Compute all rows of the program over the facts and the model `before`. Only the time of the budget is used.
    Errors: EngineError if pyDatalog is not installed, or if an expression fails, since only the native engine knows
    which rows are then in error."""
    earlier = before or Model()
    strata = tuple(stratum for stratum in program.strata if not earlier.tables.keys() >= set(stratum.relations))
    known = program.inputs | (program.relations.keys() & earlier.tables.keys())
    inputs = {name: list(earlier.rows(name) if name in earlier.tables else facts.get(name, ())) for name in known}
    request = pickle.dumps((CheckedProgram(program.relations, known, strata), inputs))
    try:
        worker = subprocess.run(COMMAND, input=request, capture_output=True, timeout=budget.seconds, check=False)
    except subprocess.TimeoutExpired:
        exceeded = BudgetError(f"out of time after {budget.seconds:g} s in the pyDatalog worker")
        return Model({name: IndexedTable(rows) for name, rows in inputs.items()}, earlier.errors, exceeded)
    if worker.returncode != 0:
        last = worker.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        if last.startswith("ModuleNotFoundError") and "pyDatalog" in last:
            raise EngineError("pyDatalog is not installed: pip install datalog-gate[pydatalog]")
        raise EngineError(f"the pyDatalog worker died: {last or worker.returncode}")
    result: dict[RelationRef, list[Row]] | str = pickle.loads(worker.stdout)  # from our own child process
    if isinstance(result, str):
        raise EngineError(result)
    return Model({**earlier.tables, **{name: IndexedTable(rows) for name, rows in result.items()}}, earlier.errors)
