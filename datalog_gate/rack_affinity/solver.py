"""The placement solver, which runs in a process of its own.

CP-SAT is native code that may run long, grow and crash. The same problem has the same answer: one worker, a fixed seed,
and time in CP-SAT's deterministic seconds.
"""

from __future__ import annotations

import gc
import os
import pickle
import resource
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from typing import Any

from datalog_gate.rack_affinity.conflict import describe, find_conflict, group_assumptions
from datalog_gate.rack_affinity.greedy import Bundles, Sort, Unit, bundle_items, place_greedily
from datalog_gate.rack_affinity.problem import Answer, Constraint, Impossible, LateError, Level, Problem, SolverError

COMMAND = (sys.executable, "-P", "-m", "datalog_gate.rack_affinity.solver")
MEGABYTES = 1024
"""The address space of the process: 500 servers and volumes need less than half."""
LINE = 300
"""The maximum number of characters of an error."""
QUESTION = 0.02
"""Deterministic seconds charged for building the model of each search."""


def installed() -> bool:
    """Whether OR-Tools is installed. Imports nothing."""
    return find_spec("ortools") is not None


def solve(problem: Problem, seconds: float = 10, megabytes: int = MEGABYTES) -> Answer:
    """Solve a problem in a new process within so many seconds. Errors: SolverError; LateError if the time is over."""
    command = [*COMMAND, str(seconds), str(megabytes)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # otherwise each core gets a thread, which takes memory
    try:
        process = subprocess.run(
            command, input=pickle.dumps(problem), capture_output=True, timeout=seconds, env=environment
        )
    except subprocess.TimeoutExpired:
        raise LateError(f"the solver gave no answer in {seconds:g} s") from None
    except OSError as error:
        raise SolverError(f"the solver can't be started: {error}") from error
    if process.returncode < 0:
        raise SolverError(f"the solver was ended by signal {-process.returncode}")
    if process.returncode:
        lines = process.stderr.decode(errors="replace").split("\n")
        last_line = next((line for line in reversed(lines) if line.strip()), "it printed nothing")
        raise SolverError(f"the solver failed: {last_line[:LINE]}")
    try:
        result: Answer | SolverError = pickle.loads(process.stdout)
    except Exception:  # noqa: BLE001 - wrong bytes may raise anything
        raise SolverError("the solver's answer can't be read") from None
    if isinstance(result, SolverError):
        raise result
    return result


class Clock:
    """The remaining time: deterministic seconds, and as a last resort wall clock seconds."""

    def __init__(self, seconds: float, started: float) -> None:
        self.left = 0.4 * seconds  # a deterministic second takes 1.1 to 1.7 s, and should run out first
        self.end = started + 0.85 * seconds


def main(arguments: list[str]) -> None:
    """Solve the problem on standard input. The arguments are SECONDS and MEGABYTES."""
    started, seconds, megabytes = time.monotonic(), float(arguments[0]), int(arguments[1])
    gc.disable()  # the process is short and makes few reference cycles
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))  # the parent may have ended
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    result: Answer | SolverError
    try:
        result = answer(pickle.load(sys.stdin.buffer), Clock(seconds, started))
    except SolverError as error:
        result = error
    sys.stdout.buffer.write(pickle.dumps(result))


def answer(problem: Problem, clock: Clock) -> Answer:
    """Find a place for each item, or explain why there is none. Errors: SolverError."""
    places = _find_places(problem, clock)
    if places is not None:
        return dict(sorted(places.items()))
    try:
        conflict, irreducible = find_conflict(problem, lambda lesser: _find_places(lesser, clock) is not None), True
    except LateError:
        conflict, irreducible = group_assumptions(problem), False
    return Impossible(tuple(describe(problem, group) for group in conflict), irreducible)


def _find_places(problem: Problem, clock: Clock) -> dict[str, str] | None:
    """The name of a place by id of each item, or None if it is impossible. Errors: SolverError."""
    bundles = bundle_items(problem)
    places = place_greedily(problem, bundles)
    return _Model(problem, bundles).solve(clock) if places is None else places


class _Model:
    """A CP-SAT model that counts interchangeable units and bundles.

    Variables are the number of units of a sort in each place, and the number of equal bundles in each rack. Both agree
    on the units of a sort in each rack, so any assignment with these counts satisfies all constraints.
    """

    def __init__(self, problem: Problem, bundles: Bundles) -> None:
        self._problem, self._bundles = problem, bundles
        self._model = cp_model().CpModel()
        self._count: Counter[Sort] = Counter()
        for sorts, group in bundles.items():
            for sort in sorts:
                self._count[sort] += len(group)
        self._candidates = {
            sort: [place for place in problem.of(sort.kind) if sort.allows(place)] for sort in sorted(self._count)
        }
        self._taken: dict[Sort, dict[str, Any]] = {}
        """The number of units of a sort in each place."""
        self._in_rack: dict[tuple[Sort, ...], dict[str, Any]] = {}
        """The number of bundles of these sorts in each rack."""

    def solve(self, clock: Clock) -> dict[str, str] | None:
        """A place for each item, or None if there is no answer. Errors: LateError."""
        clock.left -= QUESTION
        wall = clock.end - time.monotonic()
        if min(clock.left, wall) <= 0:
            raise LateError("no answer within the time")
        if not self._build():
            return None
        solver = cp_model().CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.interleave_search = True  # several strategies, alternating independently of time
        solver.parameters.random_seed = 1
        solver.parameters.max_deterministic_time = clock.left
        solver.parameters.max_time_in_seconds = wall
        status = solver.solve(self._model)
        clock.left -= solver.response_proto.deterministic_time
        assert status != cp_model().MODEL_INVALID, self._model.validate()
        if status == cp_model().UNKNOWN:
            raise LateError("no answer within the time")
        return None if status == cp_model().INFEASIBLE else self._assign(solver)

    def _build(self) -> bool:
        """Require that each bundle has a rack whose places take its units; return whether that is possible."""
        for sort, count in self._count.items():
            self._taken[sort] = {}
            for place in self._candidates[sort]:
                most = min([count, *(place.capacity[name] // amount for name, amount in sort.demand)])
                self._taken[sort][place.name] = self._variable(most)
            self._model.add(_sum(self._taken[sort].values()) == count)
        for sorts, group in self._bundles.items():
            racks = set.intersection(*({place.rack for place in self._candidates[sort]} for sort in sorts))
            if not racks:
                return False
            self._in_rack[sorts] = {rack: self._variable(len(group)) for rack in sorted(racks)}
            self._model.add(_sum(self._in_rack[sorts].values()) == len(group))
        self._equate_counts()
        self._limit_places()
        for index, constraint in enumerate(self._problem.constraints):
            if constraint.at_least or (constraint.level == "zone" and constraint.items):
                self._locate(index, constraint)
        return True

    def _equate_counts(self) -> None:
        """Require that the places of a rack take the units of its bundles."""
        bundled: dict[tuple[Sort, str], list[Any]] = defaultdict(list)
        for sorts, racks in self._in_rack.items():
            for sort in sorts:
                for rack, variable in racks.items():
                    bundled[sort, rack].append(variable)
        for sort in self._candidates:
            for rack, variables in self._by_location([sort], "rack").items():
                self._model.add(_sum(variables) == _sum(bundled[sort, rack]))

    def _limit_places(self) -> None:
        """Require that no place takes more than is free. Most are so large that they need no limit."""
        needed: Counter[str] = Counter()
        for item in self._problem.items:
            needed.update(item.demand)
        demands: dict[tuple[str, str, str], list[Any]] = defaultdict(list)
        for sort, taken in self._taken.items():
            for name, amount in sort.demand:
                for place_name, variable in taken.items():
                    demands[sort.kind, place_name, name].append(amount * variable)
        for place in self._problem.places:
            for name, free in place.capacity.items():
                if free < needed[name]:
                    self._model.add(_sum(demands[place.kind, place.name, name]) <= free)

    def _locate(self, index: int, constraint: Constraint) -> None:
        """Require that the constraint's units are in so many locations, or all in one zone. Other shared locations are
        expressed by units and bundles."""
        sorts = [sort for sort in self._candidates if index in sort.constraints]
        count = sum(self._count[sort] for sort in sorts)
        used = []
        for variables in self._by_location(sorts, constraint.level).values():
            used.append(self._variable(1))
            units = _sum(variables)
            self._model.add(units >= used[-1] if constraint.at_least else units == count * used[-1])
        self._model.add(_sum(used) >= constraint.at_least if constraint.at_least else _sum(used) == 1)

    def _by_location(self, sorts: Iterable[Sort], level: Level) -> dict[str, list[Any]]:
        locations: dict[str, list[Any]] = defaultdict(list)
        for sort in sorts:
            taken = self._taken[sort]
            for place in self._candidates[sort]:
                locations[place.at(level)].append(taken[place.name])
        return locations

    def _assign(self, solver: Any) -> dict[str, str]:
        waiting: dict[tuple[Sort, str], list[Unit]] = defaultdict(list)
        for sorts, racks in self._in_rack.items():
            group = iter(self._bundles[sorts])
            for rack, variable in racks.items():
                for _ in range(solver.value(variable)):
                    for sort, unit in next(group):
                        waiting[sort, rack].append(unit)
        places: dict[str, str] = {}
        for sort, taken in self._taken.items():
            for place in self._candidates[sort]:
                for _ in range(solver.value(taken[place.name])):
                    places.update(dict.fromkeys(waiting[sort, place.rack].pop(), place.name))
        return places

    def _variable(self, most: int) -> Any:
        return self._model.new_int_var(0, most, "")


def _sum(variables: Iterable[Any]) -> Any:
    return cp_model().LinearExpr.sum(list(variables))


@cache
def cp_model() -> Any:
    """Import CP-SAT on demand, since that takes longer than the greedy search. Errors: SolverError."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise SolverError("OR-Tools is not installed: pip install 'datalog-gate[placement]'") from None
    return cp_model


if __name__ == "__main__":
    main(sys.argv[1:])
