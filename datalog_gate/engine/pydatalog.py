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
from datalog_gate.engine.limits import UNLIMITED, Limits
from datalog_gate.engine.model import Model, Table
from datalog_gate.errors import BudgetError, EngineError
from datalog_gate.values import Row

# -P: the folder that the gate was started in may hold files of strangers, and must not be imported from
COMMAND = (sys.executable, "-P", "-m", "datalog_gate.engine.pydatalog_worker")


def evaluate(
    program: CheckedProgram,
    facts: Mapping[str, Collection[Row]],
    limits: Limits = UNLIMITED,
    before: Model | None = None,
) -> Model:
    """All rows of the program over the facts and the model `before`. Only the limit of time is kept.

    Errors: BudgetError past it; EngineError if pyDatalog is not installed, or if an expression fails: which rows are in
    error then, only the native engine tells.
    """
    earlier = before or Model()
    given = {name: list(facts.get(name, earlier.rows(name))) for name in program.inputs}
    question = pickle.dumps((program, given))
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as worker:
        try:
            answer, complaint = worker.communicate(question, limits.seconds)
        except subprocess.TimeoutExpired:
            raise BudgetError(f"out of time after {limits.seconds:g} s in the pyDatalog worker") from None
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
    return Model({**earlier.tables, **{name: Table(rows) for name, rows in result.items()}}, earlier.errors)
