"""pyDatalog as an engine (layer 3): the parent's side of its one worker process.

In: a checked program and facts. Out: the model. Every evaluation has a process of its own, which is killed at the
deadline: pyDatalog can't be interrupted, and its state is global.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Collection, Mapping

from datalog_gate.analysis.program import CheckedProgram
from datalog_gate.base.errors import BudgetError, EngineError
from datalog_gate.base.values import Row
from datalog_gate.engine.budget import UNLIMITED, Budget
from datalog_gate.engine.model import IndexedTable, Model

# -P: the folder that the gate was started in may hold files of strangers, and must not be imported from
COMMAND = (sys.executable, "-P", "-m", "datalog_gate.engine.pydatalog_worker")


def evaluate(
    program: CheckedProgram,
    facts: Mapping[str, Collection[Row]],
    budget: Budget = UNLIMITED,
    before: Model | None = None,
) -> Model:
    """All rows of the program over the facts and the model `before`. Of the budget only the time counts.

    Errors: EngineError if pyDatalog is not installed, or if an expression fails: which rows are in
    error then, only the native engine tells.
    """
    earlier = before or Model()
    rest = tuple(stratum for stratum in program.strata if not earlier.tables.keys() >= set(stratum.relations))
    known = program.inputs | (program.relations.keys() & earlier.tables.keys())
    given = {name: list(earlier.rows(name) if name in earlier.tables else facts.get(name, ())) for name in known}
    question = pickle.dumps((CheckedProgram(program.relations, known, rest), given))
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        try:
            answer, complaint = worker.communicate(question, budget.seconds)
        except subprocess.TimeoutExpired:
            exceeded = BudgetError(f"out of time after {budget.seconds:g} s in the pyDatalog worker")
            return Model({name: IndexedTable(rows) for name, rows in given.items()}, earlier.errors, exceeded)
        finally:
            worker.kill()
    if worker.returncode != 0:
        last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
        if last.startswith("ModuleNotFoundError") and "pyDatalog" in last:
            raise EngineError("pyDatalog is not installed: pip install datalog-gate[pydatalog]")
        raise EngineError(f"the pyDatalog worker died: {last or worker.returncode}")
    result: dict[str, list[Row]] | str = pickle.loads(answer)  # written by our own child
    if isinstance(result, str):
        raise EngineError(result)
    return Model({**earlier.tables, **{name: IndexedTable(rows) for name, rows in result.items()}}, earlier.errors)
