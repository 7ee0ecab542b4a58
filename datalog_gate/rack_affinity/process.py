"""The call of the placement solver in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

from datalog_gate.base.errors import GateError
from datalog_gate.rack_affinity.problem import Answer, Problem, read_answer, to_json

COMMAND = (sys.executable, "-P", "-m", "datalog_gate.rack_affinity.solver")
MEGABYTES = 1024
"""Address space of the process: 500 servers and volumes need less than half."""
LINE = 300
"""Characters of an error at most."""


class SolverError(GateError):
    """The solver gave no answer: its time was up, it died, or OR-Tools is not installed."""


class LateError(SolverError):
    """The solver's time was up."""


def installed() -> bool:
    """Whether OR-Tools is installed. Imports nothing."""
    return find_spec("ortools") is not None


def solve(problem: Problem, seconds: float = 10, megabytes: int = MEGABYTES) -> Answer:
    """Solve a problem within so many seconds. Errors: SolverError, which is LateError if the time was up."""
    command = [*COMMAND, str(seconds), str(megabytes)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # else each core's thread takes memory at the import
    try:
        process = subprocess.run(
            command,
            input=to_json(problem),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise LateError(f"the solver gave no answer in {seconds:g} s") from None
    except OSError as error:
        raise SolverError(f"the solver can't be started: {error}") from error
    if process.returncode < 0:
        raise SolverError(f"the solver was ended by signal {-process.returncode}")
    if process.returncode:
        last_line = (process.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SolverError(f"the solver failed: {last_line[:LINE]}")
    try:
        data = json.loads(process.stdout)
        if error_text := data.get("error"):
            raise (LateError if data["late"] else SolverError)(error_text)
        return read_answer(data)
    except (ValueError, AttributeError, KeyError):
        raise SolverError("the solver's answer can't be read") from None
