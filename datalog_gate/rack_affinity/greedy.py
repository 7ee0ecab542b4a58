"""Bundles of interchangeable items, and a greedy search for their places.

A *unit* is a set of items that must share a host or pool, with their demands summed. Indistinguishable units have the
same *sort*. A *bundle* is a set of units that must share a rack. Within a rack any place will do, since the scheduler
chooses the host: the place only shows that the claims fit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

from datalog_gate.rack_affinity.problem import Item, Level, Place, Problem


@dataclass(frozen=True, slots=True, order=True)
class Sort:
    """The properties that distinguish units. `fixed` holds levels with the location that the unit must have there.
    `constraints` are the indices of its constraints that bundles don't express: spreads, and shared zones."""

    kind: str
    demand: tuple[tuple[str, int], ...]
    fixed: tuple[tuple[Level, str], ...]
    constraints: tuple[int, ...]

    def allows(self, place: Place) -> bool:
        """Whether the unit may be at the place, and one fits."""
        return all(place.at(level) == location for level, location in self.fixed) and all(
            amount <= place.capacity.get(name, 0) for name, amount in self.demand
        )


Unit = tuple[str, ...]
"""Ids of items in one place."""
Bundle = tuple[tuple[Sort, Unit], ...]
"""Units in one rack."""
Bundles = dict[tuple[Sort, ...], list[Bundle]]
"""Bundles by the sorts of their units."""


def bundle_items(problem: Problem) -> Bundles:
    """Group all items into bundles."""
    items = {item.id: item for item in problem.items}
    constraints: dict[str, list[int]] = defaultdict(list)
    for index, constraint in enumerate(problem.constraints):
        if constraint.at_least or constraint.level == "zone":
            for id_ in constraint.items:
                constraints[id_].append(index)
    units = _join_items(problem, "host")
    sorts = {unit: _sort_of([items[id_] for id_ in unit], constraints) for unit in set(units.values())}
    bundles: Bundles = defaultdict(list)
    for ids in sorted(set(_join_items(problem, "host", "rack").values())):
        bundle = tuple(sorted((sorts[unit], unit) for unit in {units[id_] for id_ in ids}))
        bundles[tuple(sort for sort, _ in bundle)].append(bundle)
    return dict(sorted(bundles.items()))


def _sort_of(unit: list[Item], constraints: dict[str, list[int]]) -> Sort:
    demand: Counter[str] = Counter()
    fixed: set[tuple[Level, str]] = set()
    for item in unit:
        demand.update(item.demand)
        if item.zone is not None:
            fixed.add(("zone", item.zone))
        if item.place is not None:
            fixed.add(("host", item.place))
    return Sort(
        kind=unit[0].kind,
        demand=tuple(sorted((name, amount) for name, amount in demand.items() if amount)),
        fixed=tuple(sorted(fixed)),
        constraints=tuple(sorted({index for item in unit for index in constraints[item.id]})),
    )


def _join_items(problem: Problem, *levels: Level) -> dict[str, tuple[str, ...]]:
    """Map each item to all items, itself included, that must share a location of these levels with it."""
    groups = {item.id: [item.id] for item in problem.items}
    for constraint in problem.constraints:
        if not constraint.at_least and constraint.level in levels:
            for id_ in constraint.items[1:]:
                first, second = groups[constraint.items[0]], groups[id_]
                if first is not second:
                    first += second
                    groups.update(dict.fromkeys(second, first))
    ordered = {id(group): tuple(sorted(group)) for group in groups.values()}
    return {id_: ordered[id(group)] for id_, group in groups.items()}


def place_greedily(problem: Problem, bundles: Bundles) -> dict[str, str] | None:
    """Find a place for each item: the largest bundle first, in the rack that it leaves emptiest, each unit in the first
    place with room. Racks that a spread still lacks come first. None does not mean that there is no answer."""
    search = _Search(problem)
    for sorts in sorted(bundles, key=lambda sorts: (-search.share(sorts), sorts)):
        ranks = [search.rank(sorts, rack) for rack in search.racks(sorts)]
        heapify(ranks)
        for bundle in bundles[sorts]:
            while ranks and not search.put(bundle, ranks[0][-1]):
                heappop(ranks)  # no room now means no room for the next bundle
            if not ranks:
                return None
            heapreplace(ranks, search.rank(sorts, ranks[0][-1]))
    if any(
        len(search.locations[index]) < (constraint.at_least or 0)
        for index, constraint in enumerate(problem.constraints)
    ):
        return None
    return search.placed


class _Search:
    def __init__(self, problem: Problem) -> None:
        self.placed: dict[str, str] = {}
        self.locations: dict[int, set[str]] = defaultdict(set)
        """The locations of a constraint's items, by its index."""
        self.constraints = problem.constraints
        self._racks = list(problem.racks())
        self._places: dict[tuple[str, str], list[Place]] = defaultdict(list)
        self._left: Counter[tuple[str, str, str]] = Counter()
        """The remaining capacity by kind, place and resource class."""
        self._free: Counter[tuple[str, str, str]] = Counter()
        """The initial capacity by rack, kind and resource class."""
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
        """The largest share of any resource class that a bundle of these sorts takes."""
        return max((amount / (self._total[key] or 1) for key, amount in _needs(sorts).items()), default=0)

    def racks(self, sorts: tuple[Sort, ...]) -> list[str]:
        """The racks that have a place for each of these sorts."""
        kinds = {sort.kind for sort in sorts}
        return [rack for rack in self._racks if all((kind, rack) in self._places for kind in kinds)]

    def rank(self, sorts: tuple[Sort, ...], rack: str) -> tuple[int, float, int, str]:
        """The rank of a rack for a bundle of these sorts, lower is better: spreads that lack it, how full it gets, its
        number of bundles."""
        new = sum(self._new_locations(self._lacking(sort), self._places[sort.kind, rack][0]) for sort in sorts)
        needs = {(rack, *key): amount for key, amount in _needs(sorts).items()}
        shares = ((self._used[key] + amount) / (self._free[key] or 1e-9) for key, amount in needs.items())
        fullness = max(shares, default=0.0)
        return -new, fullness, self._bundles[sorts, rack], rack

    def put(self, bundle: Bundle, rack: str) -> bool:
        """Put a bundle in a rack; return whether it fits."""
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
                self.locations[index].add(place.at(self.constraints[index].level))
        return True

    def _choose(
        self, sort: Sort, rack: str, taken: Counter[tuple[str, str, str]], zones: dict[int, str]
    ) -> Place | None:
        """The first place for a unit that gives most spreads a new location. `taken` is the capacity that units of the
        same bundle take, and `zones` their zones by constraint."""
        lacking = self._lacking(sort)
        places = sorted(self._places[sort.kind, rack], key=lambda place: -self._new_locations(lacking, place))
        return next((place for place in places if self._fits(sort, place, taken, zones)), None)

    def _fits(self, sort: Sort, place: Place, taken: Counter[tuple[str, str, str]], zones: dict[int, str]) -> bool:
        keys = {(sort.kind, place.name, name): amount for name, amount in sort.demand}
        if any(amount > self._left[key] - taken[key] for key, amount in keys.items()):
            return False
        shared = [index for index in sort.constraints if not self.constraints[index].at_least]
        used = set().union(*(self.locations[index] | {zones.get(index, place.zone)} for index in shared))
        return used <= {place.zone} and sort.allows(place)

    def _lacking(self, sort: Sort) -> list[int]:
        return [
            index for index in sort.constraints if len(self.locations[index]) < (self.constraints[index].at_least or 0)
        ]

    def _new_locations(self, lacking: list[int], place: Place) -> int:
        return sum(place.at(self.constraints[index].level) not in self.locations[index] for index in lacking)


def _needs(sorts: tuple[Sort, ...]) -> Counter[tuple[str, str]]:
    needs: Counter[tuple[str, str]] = Counter()
    for sort in sorts:
        for name, amount in sort.demand:
            needs[sort.kind, name] += amount
    return needs
