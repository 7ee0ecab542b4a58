"""Where servers and volumes go (layer 5): in, a `Problem` as JSON on standard input; out, an `Answer`, or an error.

    python -m datalog_gate.services.rack_affinity.solver SECONDS MEGABYTES

A process of its own, which the gate never imports: CP-SAT is native code that may run long, grow and crash.

The model counts what is alike (alike.py) instead of naming it: a variable says how many units of a sort a place takes,
and another how many bundles of the same sorts a rack takes. Both agree on how many of a sort are in a rack, so any way
to hand out places by these numbers keeps every constraint and every capacity exactly.

Of all answers it takes one whose fullest rack is emptiest, as a part of what was free in the rack: what an operator
expects who asked for nothing else. It leaves every rack room to grow, and least of the stack fails with one rack; who
wants things close says `same`. Within a rack any place will do, since the scheduler chooses the host: that there is one
shows that the claims fit.

The same problem has the same answer: one worker, a fixed seed, and time counted in CP-SAT's deterministic seconds.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, get_args

from datalog_gate.services.rack_affinity.alike import Sort, Unit, bundles
from datalog_gate.services.rack_affinity.conflict import everything, explain
from datalog_gate.services.rack_affinity.greedy import by_hand
from datalog_gate.services.rack_affinity.problem import (
    Answer,
    Impossible,
    Kind,
    Level,
    Placed,
    Problem,
    ProblemError,
    read_problem,
    to_json,
)

BEGAN = time.monotonic()
try:
    from ortools.sat.python import cp_model
except ImportError:
    cp_model = None

CLOSE_ENOUGH = 0.03
"""The gap at which the search for a better balance ends."""
GLANCE = 0.05
QUESTION = 0.02
"""Deterministic seconds that each question is charged beside its search, for its model to be made."""


class OutOfTimeError(Exception):
    """Neither possible nor impossible within the time."""


def main(arguments: list[str]) -> None:
    """Solve what is on standard input."""
    seconds, megabytes = float(arguments[0]), int(arguments[1])
    gc.disable()  # the process is short, and makes no circles worth looking for
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))  # the parent may be gone
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    try:
        if cp_model is None:
            raise ProblemError("OR-Tools is not installed: pip install 'datalog-gate[placement]'")
        print(to_json(answer(read_problem(sys.stdin.read()), Clock(seconds, BEGAN))))
    except (ProblemError, OutOfTimeError) as error:
        print(json.dumps({"error": str(error)}))


def answer(problem: Problem, clock: Clock) -> Answer:
    """Places, or why there are none. Errors: OutOfTimeError."""
    placed = Model(problem).placed(clock)
    if placed:
        return placed
    try:
        return Impossible(explain(problem, lambda lesser: Model(lesser).possible(clock)), True)
    except OutOfTimeError:
        return Impossible(everything(problem), False)


class Clock:
    """What is left of the time, deterministic, and as the last resort by the wall."""

    def __init__(self, seconds: float, began: float | None = None) -> None:
        self.left = 0.4 * seconds  # one takes 1.1 to 1.7 s by the wall, which is to end no search
        self.end = (time.monotonic() if began is None else began) + 0.85 * seconds

    def solve(self, model: Any, enough: float = 1000) -> tuple[Any, float] | None:
        """The solver after its search and a bound that it proved, or None if there is no answer. The greedy hand's is
        taken where it is one, and no fuller than `enough`; then what a glance finds, or a quarter of the time."""
        self.left -= QUESTION
        hand = None
        for part in (0.0, GLANCE, self.left / 4, self.left):
            wall = self.end - time.monotonic()
            if min(self.left, wall) <= 0:
                break
            solver = cp_model.CpSolver()
            solver.parameters.num_workers = 1
            solver.parameters.interleave_search = True  # several ways of searching, in turns that don't depend on time
            solver.parameters.random_seed = 1
            solver.parameters.fix_variables_to_their_hinted_value = not part
            solver.parameters.cp_model_presolve = part not in (0.0, GLANCE)
            solver.parameters.max_deterministic_time = min(part or self.left, self.left)
            solver.parameters.max_time_in_seconds = wall
            solver.parameters.relative_gap_limit = CLOSE_ENOUGH
            status = solver.solve(model)
            self.left -= solver.response_proto.deterministic_time
            assert status != cp_model.MODEL_INVALID, model.validate()
            if not part:
                hand = solver if status == cp_model.OPTIMAL else None
                if hand and hand.objective_value <= enough:
                    return hand, 0.0
            elif status == cp_model.INFEASIBLE:
                return None
            elif status == cp_model.OPTIMAL or (status == cp_model.FEASIBLE and part != GLANCE):
                better = not hand or solver.objective_value < hand.objective_value
                return solver if better else hand, solver.best_objective_bound
            elif hand and part != GLANCE:
                return hand, 0.0
        if hand:
            return hand, 0.0
        raise OutOfTimeError("no answer within the time")


class Model:
    """A problem as numbers of what is alike."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.model = cp_model.CpModel()
        self.places = {kind: problem.of(kind) for kind in get_args(Kind)}
        self.racks = list(problem.racks())
        self.names = {(kind, level): self._names(kind, level) for kind in self.places for level in get_args(Level)}
        self.bundles = bundles(problem)
        self.counts = Counter(sort for some in self.bundles.values() for one in some for sort, _ in one)
        self.needed: Counter[tuple[str, str]] = Counter()
        for sort, count in self.counts.items():
            self.needed.update({(sort.kind, one): amount * count for one, amount in sort.demand})
        self.free = {(kind, one): self._free(kind, one) for kind, one in self.needed}
        self.hand = by_hand(problem, self.bundles, self.free)
        self.taken = self._taken()
        self.in_rack = self._in_rack()
        self._fit()
        for at, one in enumerate(problem.constraints):
            if one.at_least:
                self._spread(at, one.level, one.at_least)
            elif one.level == "zone" and one.items:
                self._same_zone(at)

    def possible(self, clock: Clock) -> bool:
        """Whether there is any answer."""
        return clock.solve(self.model) is not None

    def placed(self, clock: Clock) -> Placed | None:
        """The best answer that is found, if there is one."""
        least = self._balance()
        solved = clock.solve(self.model, least * (1 + CLOSE_ENOUGH))
        if solved is None:
            return None
        solver, bound = solved
        best = solver.objective_value
        gap = max(0.0, round(1 - max(least, bound) / best, 4)) if best else 0.0
        return Placed(dict(sorted(self._handed_out(solver.value))), gap)

    def _taken(self) -> dict[Sort, dict[str, Any]]:
        """How many of a sort each place takes, by its name, where it can take one."""
        taken: dict[Sort, dict[str, Any]] = {}
        for sort, count in sorted(self.counts.items()):
            most = {
                one.name: min([count, *(one.capacity.get(name, 0) // amount for name, amount in sort.demand)])
                for one in self.places[sort.kind]
                if sort.may(one)
            }
            taken[sort] = {
                name: self._variable(upper, self.hand.taken[sort, name]) for name, upper in most.items() if upper
            }
            self._equal(taken[sort].values(), count)
        return taken

    def _in_rack(self) -> dict[tuple[Sort, ...], dict[str, Any]]:
        """How many bundles of the same sorts each rack takes."""
        taken: dict[tuple[Sort, ...], dict[str, Any]] = {}
        terms: dict[tuple[Sort, str], list[tuple[Any, int]]] = defaultdict(list)
        for sorts, some in self.bundles.items():
            taken[sorts] = {rack: self._variable(len(some), self.hand.in_rack[sorts, rack]) for rack in self.racks}
            self._equal(taken[sorts].values(), len(some))
            for sort, times in Counter(sorts).items():
                for rack in self.racks:
                    terms[sort, rack].append((taken[sorts][rack], times))
        for sort, there in self.taken.items():
            for rack, names in self.names[sort.kind, "rack"].items():
                bundled = terms.pop((sort, rack))
                self.model.add(_sum(bundled) == _sum((there[name], 1) for name in names if name in there))
        for nowhere in terms.values():
            self.model.add(_sum(nowhere) == 0)
        return taken

    def _fit(self) -> None:
        """No place takes more than is free there; most are too large to be asked."""
        for (kind, resource_class), needed in self.needed.items():
            demanding = [
                (there, amount)
                for sort, there in self.taken.items()
                for name, amount in sort.demand
                if (sort.kind, name) == (kind, resource_class)
            ]
            for place in self.places[kind]:
                if (free := place.capacity.get(resource_class, 0)) < needed:
                    terms = [(there[place.name], amount) for there, amount in demanding if place.name in there]
                    if terms:
                        self.model.add(_sum(terms) <= free)

    def _spread(self, at: int, level: Level, at_least: int) -> None:
        used = []
        for there in self._by_location(at, level).values():
            used.append(self._variable(1, any(self.hand.taken[one] for one in there)))
            self.model.add(_sum((self.taken[sort][name], 1) for sort, name in there) >= used[-1])
        self.model.add(_sum((one, 1) for one in used) >= at_least)

    def _same_zone(self, at: int) -> None:
        count = sum(number for sort, number in self.counts.items() if at in sort.marks)
        chosen = []
        for there in self._by_location(at, "zone").values():
            chosen.append(self._variable(1, any(self.hand.taken[one] for one in there)))
            self.model.add(_sum((self.taken[sort][name], 1) for sort, name in there) == count * chosen[-1])
        self._equal(chosen, 1)

    def _balance(self) -> int:
        """The fullest rack, in thousandths of what was free there: at least as full as all are together."""
        average = [-(-1000 * amount // (sum(self.free[key].values()) or 1)) for key, amount in self.needed.items()]
        least = min(1000, max(average, default=0))
        fullest = self._variable(1000, self.hand.fullest, least)
        terms: dict[tuple[str, str, str], list[tuple[Any, int]]] = defaultdict(list)
        for sort, there in self.taken.items():
            for rack, names in self.names[sort.kind, "rack"].items():
                for one, amount in sort.demand:
                    terms[sort.kind, one, rack] += [(there[name], 1000 * amount) for name in names if name in there]
        for (kind, one, rack), some in terms.items():
            if some:
                self.model.add(_sum(some) <= self.free[kind, one][rack] * fullest)
        self.model.minimize(fullest)
        return least

    def _handed_out(self, value: Callable[[Any], int]) -> Iterable[tuple[str, str]]:
        """Items with their places, by the numbers."""
        waiting: dict[tuple[Sort, str], list[Unit]] = defaultdict(list)
        for sorts, there in self.in_rack.items():
            bundle = iter(self.bundles[sorts])
            for rack, variable in there.items():
                for _ in range(value(variable)):
                    for sort, unit in next(bundle):
                        waiting[sort, rack].append(unit)
        for sort, taken in self.taken.items():
            for one in self.places[sort.kind]:
                for _ in range(value(taken[one.name]) if one.name in taken else 0):
                    for id_ in waiting[sort, one.rack].pop():
                        yield id_, one.name

    def _free(self, kind: str, resource_class: str) -> dict[str, int]:
        """What is free by rack."""
        free: Counter[str] = Counter()
        for one in self.places[kind]:
            free[one.rack] += one.capacity.get(resource_class, 0)
        return free

    def _names(self, kind: str, level: str) -> dict[str, list[str]]:
        """The places of a kind by where they are."""
        names: dict[str, list[str]] = defaultdict(list)
        for one in self.places[kind]:
            names[one.at(level)].append(one.name)
        return names

    def _by_location(self, at: int, level: str) -> dict[str, list[tuple[Sort, str]]]:
        """Where what a constraint sees could be, by rack, zone or host."""
        found: dict[str, list[tuple[Sort, str]]] = defaultdict(list)
        for sort, there in self.taken.items():
            if at in sort.marks:
                for where, names in self.names[sort.kind, level].items():
                    found[where] += [(sort, name) for name in names if name in there]
        return found

    def _variable(self, upper: int, hint: int, lower: int = 0) -> Any:
        variable = self.model.new_int_var(lower, upper, "")
        self.model.add_hint(variable, hint)
        return variable

    def _equal(self, variables: Iterable[Any], count: int) -> None:
        self.model.add(_sum((one, 1) for one in variables) == count)


def _sum(terms: Iterable[tuple[Any, int]]) -> Any:
    variables, factors = [], []
    for variable, factor in terms:
        variables.append(variable)
        factors.append(factor)
    return cp_model.LinearExpr.weighted_sum(variables, factors)


if __name__ == "__main__":
    main(sys.argv[1:])
