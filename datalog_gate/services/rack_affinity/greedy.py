"""A first guess (layer 5): in, a problem as what is alike; out, where a greedy hand puts it.

The largest bundle first, in the rack that is then least full, and there each unit in the first place that takes it. It
sees capacities and zones and nothing else, and leaves out what it finds no place for: the solver begins its
search there, and mends it. On its own CP-SAT takes seconds for a balance as good.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

from datalog_gate.services.rack_affinity.alike import Bundles, Sort
from datalog_gate.services.rack_affinity.problem import Problem

Free = Mapping[tuple[str, str], Mapping[str, int]]
"""What is free in each rack, by kind and resource class."""


@dataclass(frozen=True, slots=True)
class Hand:
    """How many of a sort are in a place, and how many bundles in a rack; how full the fullest rack is, in 1/1000."""

    taken: Counter[tuple[Sort, str]] = field(default_factory=Counter)
    in_rack: Counter[tuple[tuple[Sort, ...], str]] = field(default_factory=Counter)
    fullest: int = 0


def by_hand(problem: Problem, bundles: Bundles, free: Free) -> Hand:
    """Put everything somewhere."""
    hand = Hand()
    places: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for kind in ("server", "volume"):
        for one in problem.places(kind):
            places[kind, one.rack][one.name] = one.zone
    left = {(kind, one.name): dict(one.capacity) for kind in ("server", "volume") for one in problem.places(kind)}
    racks = sorted({rack for _, rack in places})
    used: Counter[tuple[tuple[str, str], str]] = Counter()
    size = {sorts: _needs(sorts) for sorts in bundles}
    total = {key: sum(there.values()) or 1 for key, there in free.items()}

    def fullness(sorts: tuple[Sort, ...], rack: str) -> float:
        return max(
            ((used[key, rack] + need) / (free[key].get(rack) or 1e-9) for key, need in size[sorts].items()), default=0.0
        )

    def put(sorts: tuple[Sort, ...], rack: str) -> bool:
        done: list[tuple[Sort, str]] = []
        for sort in sorts:
            for name, zone in places[sort.kind, rack].items():
                free = left[sort.kind, name]
                if all(need <= free.get(one, 0) for one, need in sort.demand) and not set(sort.zones) - {zone}:
                    done.append((sort, name))
                    for one, need in sort.demand:
                        free[one] -= need
                    break
            else:
                for sort, name in done:
                    for one, need in sort.demand:
                        left[sort.kind, name][one] += need
                return False
        hand.taken.update(done)
        return True

    for sorts in sorted(bundles, key=lambda s: (-max((n / total[key] for key, n in size[s].items()), default=0), s)):
        emptiest = [(fullness(sorts, rack), 0, rack) for rack in racks]
        heapify(emptiest)
        for _ in bundles[sorts]:
            while emptiest and not put(sorts, emptiest[0][2]):
                heappop(emptiest)  # what it has no room for now it never has
            if emptiest:
                _, number, rack = emptiest[0]
                hand.in_rack[sorts, rack] += 1
                used.update({(key, rack): need for key, need in size[sorts].items()})
                heapreplace(emptiest, (fullness(sorts, rack), number + 1, rack))
    most = max((-(-1000 * amount // free[key][rack]) for (key, rack), amount in used.items()), default=0)
    return Hand(hand.taken, hand.in_rack, most)


def _needs(sorts: tuple[Sort, ...]) -> Counter[tuple[str, str]]:
    needs: Counter[tuple[str, str]] = Counter()
    for sort in sorts:
        needs.update({(sort.kind, one): need for one, need in sort.demand})
    return needs
