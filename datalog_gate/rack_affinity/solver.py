"""Where servers and volumes go (layer 5): in, a `Problem` as JSON on standard input; out, an `Answer`, or an error.

    python -m datalog_gate.rack_affinity.solver SECONDS MEGABYTES

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
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, get_args

from datalog_gate.rack_affinity.bundles import Sort, Unit, bundles
from datalog_gate.rack_affinity.conflict import everything, explain
from datalog_gate.rack_affinity.greedy import by_hand
from datalog_gate.rack_affinity.problem import (
    Answer,
    Impossible,
    Kind,
    Level,
    Place,
    Placed,
    Problem,
    ProblemError,
    read_problem,
    to_json,
)

BEGAN = time.monotonic()
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
        print(to_json(answer(read_problem(sys.stdin.read()), Clock(seconds, BEGAN))))
    except (ProblemError, OutOfTimeError) as error:
        print(json.dumps({"error": str(error), "late": isinstance(error, OutOfTimeError)}))


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

    def solve(self, model: Any, hand: int | None = None) -> tuple[Any, float] | None:
        """The solver after its search, or None in its place if it found nothing better than the greedy `hand`, and a
        bound that it proved; None for both if there is no answer. What a glance finds proves that there is none or is
        the best; then what is found in a quarter of the time, or in all of it."""
        self.left -= QUESTION
        for part in (GLANCE, self.left / 4, self.left):
            wall = self.end - time.monotonic()
            if min(self.left, wall) <= 0:
                break
            solver = cp_model().CpSolver()
            solver.parameters.num_workers = 1
            solver.parameters.interleave_search = True  # several ways of searching, in turns that don't depend on time
            solver.parameters.random_seed = 1
            solver.parameters.cp_model_presolve = part != GLANCE
            solver.parameters.max_deterministic_time = min(part, self.left)
            solver.parameters.max_time_in_seconds = wall
            solver.parameters.relative_gap_limit = CLOSE_ENOUGH
            status = solver.solve(model)
            self.left -= solver.response_proto.deterministic_time
            assert status != cp_model().MODEL_INVALID, model.validate()
            if status == cp_model().INFEASIBLE:
                return None
            if status == cp_model().OPTIMAL or (status == cp_model().FEASIBLE and part != GLANCE):
                better = hand is None or solver.objective_value < hand
                return solver if better else None, solver.best_objective_bound
            if hand is not None and part != GLANCE:
                break
        if hand is not None:
            return None, 0.0
        raise OutOfTimeError("no answer within the time")


Counts = Mapping[tuple[Any, str], int]
"""How many are in a place, or in a rack."""


class Model:
    """A problem as numbers of what is alike."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
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
        self._places_of: dict[Sort, list[Place]] = {}

    def possible(self, clock: Clock) -> bool:
        """Whether there is any answer."""
        return self.hand.complete or (not self._hopeless() and clock.solve(self._model()) is not None)

    def placed(self, clock: Clock) -> Placed | None:
        """The best answer that is found, if there is one."""
        if not self.hand.complete and self._hopeless():
            return None
        least, hand = self._least(), self.hand
        best, bound = hand.fullest, 0.0
        taken: Counts = hand.taken
        in_rack: Counts = hand.in_rack
        if not hand.complete or best > least * (1 + CLOSE_ENOUGH):
            model = self._model()
            self._balance(least)
            solved = clock.solve(model, best if hand.complete else None)
            if solved is None:
                return None
            solver, bound = solved
            if solver:
                best = round(solver.objective_value)
                taken, in_rack = (_counted(solver, one) for one in (self.taken, self.in_rack))
        gap = max(0.0, round(1 - max(least, bound) / best, 4)) if best else 0.0
        return Placed(dict(sorted(self._handed_out(taken, in_rack))), gap)

    def _hopeless(self) -> bool:
        """Whether it takes no search to see that there is no answer: more is needed than is free, no rack takes a
        bundle, or something is spread over more than can be reached."""
        if any(amount > sum(self.free[key].values()) for key, amount in self.needed.items()):
            return True
        reached: dict[int, set[str]] = defaultdict(set)
        for sorts in self.bundles:
            racks = set.intersection(*({place.rack for place in self._where(sort)} for sort in sorts))
            if not racks:
                return True
            for sort in sorts:
                for at in sort.marks:
                    level = self.problem.constraints[at].level
                    reached[at] |= {place.at(level) for place in self._where(sort) if place.rack in racks}
        return any(
            len(reached[at]) < (constraint.at_least or 0) for at, constraint in enumerate(self.problem.constraints)
        )

    def _where(self, sort: Sort) -> list[Place]:
        """The places that take one of a sort."""
        if sort not in self._places_of:
            self._places_of[sort] = [
                place
                for place in self.places[sort.kind]
                if sort.may(place) and all(amount <= place.capacity.get(name, 0) for name, amount in sort.demand)
            ]
        return self._places_of[sort]

    def _model(self) -> Any:
        """All but the balance."""
        self.model = cp_model().CpModel()
        self.taken = self._taken()
        self.in_rack = self._in_rack()
        self._fit()
        for at, constraint in enumerate(self.problem.constraints):
            if constraint.at_least:
                self._spread(at, constraint.level, constraint.at_least)
            elif constraint.level == "zone" and constraint.items:
                self._same_zone(at)
        return self.model

    def _taken(self) -> dict[Sort, dict[str, Any]]:
        """How many of a sort each place takes, by its name, where it can take one."""
        taken: dict[Sort, dict[str, Any]] = {}
        for sort, count in sorted(self.counts.items()):
            most = {
                place.name: min([count, *(place.capacity[name] // amount for name, amount in sort.demand)])
                for place in self._where(sort)
            }
            taken[sort] = {name: self._variable(upper, self.hand.taken[sort, name]) for name, upper in most.items()}
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

    def _least(self) -> int:
        """The fullest rack is at least as full as all are together, in thousandths of what was free."""
        average = [-(-1000 * amount // (sum(self.free[key].values()) or 1)) for key, amount in self.needed.items()]
        return min(1000, max(average, default=0))

    def _balance(self, least: int) -> None:
        """The fullest rack is to be as empty as can be."""
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

    def _handed_out(self, taken: Counts, in_rack: Counts) -> Iterable[tuple[str, str]]:
        """Items with their places, by the numbers."""
        waiting: dict[tuple[Sort, str], list[Unit]] = defaultdict(list)
        for sorts, some in self.bundles.items():
            bundle = iter(some)
            for rack in self.racks:
                for _ in range(in_rack.get((sorts, rack), 0)):
                    for sort, unit in next(bundle):
                        waiting[sort, rack].append(unit)
        for sort in sorted(self.counts):
            for place in self.places[sort.kind]:
                for _ in range(taken.get((sort, place.name), 0)):
                    for id_ in waiting[sort, place.rack].pop():
                        yield id_, place.name

    def _free(self, kind: str, resource_class: str) -> dict[str, int]:
        """What is free by rack."""
        free: Counter[str] = Counter()
        for place in self.places[kind]:
            free[place.rack] += place.capacity.get(resource_class, 0)
        return free

    def _names(self, kind: str, level: str) -> dict[str, list[str]]:
        """The places of a kind by where they are."""
        names: dict[str, list[str]] = defaultdict(list)
        for place in self.places[kind]:
            names[place.at(level)].append(place.name)
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
        self.model.add(_sum((variable, 1) for variable in variables) == count)


def _counted(solver: Any, variables: dict[Any, dict[str, Any]]) -> Counts:
    return {(what, name): solver.value(one) for what, there in variables.items() for name, one in there.items()}


@cache
def cp_model() -> Any:
    """Imported once it is needed: that takes longer than what the greedy hand does. Errors: ProblemError."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise ProblemError("OR-Tools is not installed: pip install 'datalog-gate[placement]'") from None
    return cp_model


def _sum(terms: Iterable[tuple[Any, int]]) -> Any:
    variables, factors = [], []
    for variable, factor in terms:
        variables.append(variable)
        factors.append(factor)
    return cp_model().LinearExpr.weighted_sum(variables, factors)


if __name__ == "__main__":
    main(sys.argv[1:])
