"""A greedy search for places, which also balances racks.

Within a rack any place will do, since the scheduler chooses the host: a place only shows that the claims fit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from heapq import heapify, heappop, heapreplace

from datalog_gate.rack_affinity.bundles import Bundle, Bundles, Sort
from datalog_gate.rack_affinity.problem import Place, Problem


def place_greedily(problem: Problem, bundles: Bundles) -> dict[str, str] | None:
    """Find a place for each item: the largest bundle first, in the rack that it leaves emptiest, each unit in the first
    place with room. Racks that a spread still lacks come first. None says nothing of whether there is an answer."""
    search = _Search(problem)
    for sorts in sorted(bundles, key=lambda sorts: (-search.share(sorts), sorts)):
        ranks = [search.rank(sorts, rack) for rack in search.racks(sorts)]
        heapify(ranks)
        for bundle in bundles[sorts]:
            while ranks and not search.put(bundle, ranks[0][-1]):
                heappop(ranks)  # without room now, without room for the next bundle too
            if not ranks:
                return None
            heapreplace(ranks, search.rank(sorts, ranks[0][-1]))
    if any(len(search.locations[index]) < (constraint.at_least or 0) for index, constraint in search.constraints):
        return None
    return search.placed


class _Search:
    def __init__(self, problem: Problem) -> None:
        self.placed: dict[str, str] = {}
        self.locations: dict[int, set[str]] = defaultdict(set)
        """Where a constraint's items are, by its index."""
        self.constraints = list(enumerate(problem.constraints))
        self._racks = list(problem.racks())
        self._places: dict[tuple[str, str], list[Place]] = defaultdict(list)
        self._left: Counter[tuple[str, str, str]] = Counter()
        """What is left by kind, place and resource class."""
        self._free: Counter[tuple[str, str, str]] = Counter()
        """What was free at the beginning by rack, kind and resource class."""
        self._total: Counter[tuple[str, str]] = Counter()
        self._used: Counter[tuple[str, str, str]] = Counter()
        self._bundles: Counter[tuple[tuple[Sort, ...], str]] = Counter()
        for place in problem.places:
            self._places[place.kind, place.rack].append(place)
            for name, amount in place.capacity.items():
                self._left[place.kind, place.name, name] = amount
                self._free[place.rack, place.kind, name] += amount
                self._total[place.kind, name] += amount

    def share(self, sorts: tuple[Sort, ...]) -> float:
        """The largest part of any resource class that a bundle of these sorts takes."""
        return max((amount / (self._total[key] or 1) for key, amount in _needs(sorts).items()), default=0)

    def racks(self, sorts: tuple[Sort, ...]) -> list[str]:
        """The racks that have a place for each of these sorts."""
        kinds = {sort.kind for sort in sorts}
        return [rack for rack in self._racks if all((kind, rack) in self._places for kind in kinds)]

    def rank(self, sorts: tuple[Sort, ...], rack: str) -> tuple[int, float, int, str]:
        """How good a rack is for a bundle of these sorts, the best least: spreads that lack it, how full it gets, how
        many bundles it has."""
        new = sum(self._new_locations(self._lacking(sort), self._places[sort.kind, rack][0]) for sort in sorts)
        needs = {(rack, *key): amount for key, amount in _needs(sorts).items()}
        shares = ((self._used[key] + amount) / (self._free[key] or 1e-9) for key, amount in needs.items())
        fullness = max(shares, default=0.0)
        return -new, fullness, self._bundles[sorts, rack], rack

    def put(self, bundle: Bundle, rack: str) -> bool:
        """Put a bundle in a rack, if there is room."""
        taken: Counter[tuple[str, str, str]] = Counter()
        chosen: list[Place] = []
        zones: dict[int, str] = {}
        for sort, _ in bundle:
            place = self._choose(sort, rack, taken, zones)
            if place is None:
                return False
            chosen.append(place)
            for name, amount in sort.demand:
                taken[sort.kind, place.name, name] += amount
            zones |= dict.fromkeys(sort.constraints, place.zone)
        self._left.subtract(taken)
        self._bundles[tuple(sort for sort, _ in bundle), rack] += 1
        for (sort, unit), place in zip(bundle, chosen, strict=True):
            self.placed.update(dict.fromkeys(unit, place.name))
            for name, amount in sort.demand:
                self._used[rack, sort.kind, name] += amount
            for index in sort.constraints:
                self.locations[index].add(place.at(self.constraints[index][1].level))
        return True

    def _choose(
        self, sort: Sort, rack: str, taken: Counter[tuple[str, str, str]], zones: dict[int, str]
    ) -> Place | None:
        """The first place that takes a unit and gives most spreads a new location. `taken` and `zones` are what the
        units of the same bundle take, and where they are by constraint."""
        lacking = self._lacking(sort)
        places = sorted(self._places[sort.kind, rack], key=lambda place: -self._new_locations(lacking, place))
        return next((place for place in places if self._fits(sort, place, taken, zones)), None)

    def _fits(self, sort: Sort, place: Place, taken: Counter[tuple[str, str, str]], zones: dict[int, str]) -> bool:
        keys = {(sort.kind, place.name, name): amount for name, amount in sort.demand}
        if any(amount > self._left[key] - taken[key] for key, amount in keys.items()):
            return False
        shared = [index for index in sort.constraints if not self.constraints[index][1].at_least]
        used = set().union(*(self.locations[index] | {zones.get(index, place.zone)} for index in shared))
        return used <= {place.zone} and sort.allows(place)

    def _lacking(self, sort: Sort) -> list[int]:
        """Spreads of a sort that need more locations."""
        return [
            index
            for index in sort.constraints
            if len(self.locations[index]) < (self.constraints[index][1].at_least or 0)
        ]

    def _new_locations(self, lacking: list[int], place: Place) -> int:
        return sum(place.at(self.constraints[index][1].level) not in self.locations[index] for index in lacking)


def _needs(sorts: tuple[Sort, ...]) -> Counter[tuple[str, str]]:
    """What a bundle of these sorts needs by kind and resource class."""
    needs: Counter[tuple[str, str]] = Counter()
    for sort in sorts:
        for name, amount in sort.demand:
            needs[sort.kind, name] += amount
    return needs
