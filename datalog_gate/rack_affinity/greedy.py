"""A first guess (layer 5): in, a problem as what is alike; out, where a greedy hand puts it.

The largest bundle first, in a rack that a spread lacks, else in the one that is then least full, and there each unit in
the first place that takes it. What leaves nothing out is an answer; what it finds no place for it leaves out, and the
solver begins there, and mends it. On its own CP-SAT takes seconds for a balance as good, and more where hundreds are
spread.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

from datalog_gate.rack_affinity.bundles import Bundles, Sort
from datalog_gate.rack_affinity.problem import Place, Problem

Free = Mapping[tuple[str, str], Mapping[str, int]]
"""What is free in each rack, by kind and resource class."""


@dataclass(frozen=True, slots=True)
class Hand:
    """How many of a sort are in a place, and how many bundles in a rack; whether that is all, with every constraint
    kept; how full the fullest rack is, in 1/1000."""

    taken: Counter[tuple[Sort, str]] = field(default_factory=Counter)
    in_rack: Counter[tuple[tuple[Sort, ...], str]] = field(default_factory=Counter)
    complete: bool = False
    fullest: int = 0


def by_hand(problem: Problem, bundles: Bundles, free: Free) -> Hand:
    """Put everything somewhere."""
    hand = Hand()
    places: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for place in problem.places:
        places[place.kind, place.rack].append(place)
    left: dict[tuple[str, str], dict[str, int]] = {
        (place.kind, place.name): dict(place.capacity) for place in problem.places
    }
    used: Counter[tuple[tuple[str, str], str]] = Counter()
    where: dict[int, set[str]] = defaultdict(set)
    size = {sorts: _needs(sorts) for sorts in bundles}
    racks = list(problem.racks())
    total = {key: sum(there.values()) or 1 for key, there in free.items()}

    def lacking(sort: Sort) -> list[tuple[int, str]]:
        asked = ((at, problem.constraints[at]) for at in sort.marks)
        return [(at, constraint.level) for at, constraint in asked if len(where[at]) < (constraint.at_least or 0)]

    def welcome(lacks: list[tuple[int, str]], place: Place) -> int:
        return sum(place.at(level) not in where[at] for at, level in lacks)

    def suits(sort: Sort, place: Place) -> bool:
        there = left[sort.kind, place.name]
        return (
            all(need <= there.get(one, 0) for one, need in sort.demand)
            and sort.may(place)
            and not any(where[at] - {place.zone} for at in sort.marks if not problem.constraints[at].at_least)
        )

    def key(sorts: tuple[Sort, ...], rack: str) -> tuple[int, float, int, str]:
        """The least is best: where a spread lacks something, then where it is emptiest."""
        full = [(used[key, rack] + need) / (free[key].get(rack) or 1e-9) for key, need in size[sorts].items()]
        new = sum(welcome(lacking(sort), place) for sort in sorts for place in places[sort.kind, rack][:1])
        return -new, max(full, default=0.0), hand.in_rack[sorts, rack], rack

    def put(sorts: tuple[Sort, ...], rack: str) -> bool:
        done: list[tuple[Sort, Place]] = []
        for sort in sorts:
            lacks, best, most = lacking(sort), None, -1
            for place in places[sort.kind, rack]:
                if (new := welcome(lacks, place)) > most and suits(sort, place):
                    best, most = place, new
                    if new == len(lacks):
                        break
            if best is None:
                for sort, place in done:
                    for one, need in sort.demand:
                        left[sort.kind, place.name][one] += need
                return False
            done.append((sort, best))
            for one, need in sort.demand:
                left[sort.kind, best.name][one] -= need
        for sort, place in done:
            hand.taken[sort, place.name] += 1
            for at in sort.marks:
                where[at].add(place.at(problem.constraints[at].level))
        hand.in_rack[sorts, rack] += 1
        used.update({(key, rack): need for key, need in size[sorts].items()})
        return True

    for sorts in sorted(bundles, key=lambda s: (-max((n / total[key] for key, n in size[s].items()), default=0), s)):
        best = [key(sorts, rack) for rack in racks]
        heapify(best)
        for _ in bundles[sorts]:
            while best and not put(sorts, best[0][-1]):
                heappop(best)  # what it has no room for now it never has
            if best:
                heapreplace(best, key(sorts, best[0][-1]))
    most = max((-(-1000 * amount // free[key][rack]) for (key, rack), amount in used.items()), default=0)
    spread = all(len(where[at]) >= (constraint.at_least or 0) for at, constraint in enumerate(problem.constraints))
    complete = spread and hand.in_rack.total() == sum(map(len, bundles.values()))
    return Hand(hand.taken, hand.in_rack, complete, most)


def _needs(sorts: tuple[Sort, ...]) -> Counter[tuple[str, str]]:
    needs: Counter[tuple[str, str]] = Counter()
    for sort in sorts:
        needs.update({(sort.kind, one): need for one, need in sort.demand})
    return needs
