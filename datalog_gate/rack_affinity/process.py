"""The solver in a process of its own (layer 5): in, a `Problem` and how long its answer may take; out, an `Answer`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

from datalog_gate.base.errors import GateError
from datalog_gate.rack_affinity.problem import Answer, Problem, ProblemError, read_answer, to_json

COMMAND = (sys.executable, "-P", "-m", "datalog_gate.rack_affinity.solver")
MEGABYTES = 1024
"""Address space that the process may take: 500 servers and volumes need less than half."""
LINE = 300


class SolverError(GateError):
    """No answer, and why, in one line: the time was up, the process died, or there is no OR-Tools."""


class LateError(SolverError):
    """The time was up."""


def installed() -> bool:
    """Whether there is an OR-Tools; nothing is imported."""
    return find_spec("ortools") is not None


def solve(problem: Problem, seconds: float = 10, megabytes: int = MEGABYTES) -> Answer:
    """Where everything goes, or why it can't; `seconds` after the call at the latest. Errors: SolverError."""
    command = [*COMMAND, str(seconds), str(megabytes)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # else each core's thread takes memory at the import
    try:
        done = subprocess.run(
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
    if done.returncode < 0:
        raise SolverError(f"the solver was ended by signal {-done.returncode}")
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise SolverError(f"the solver failed: {said[:LINE]}")
    try:
        given = json.loads(done.stdout)
        if said := given.get("error"):
            raise (LateError if given.get("late") else SolverError)(said)
        return read_answer(done.stdout)
    except (ValueError, AttributeError, ProblemError):
        raise SolverError("the solver's answer can't be read") from None
