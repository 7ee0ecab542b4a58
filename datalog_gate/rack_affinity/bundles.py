"""Items of a problem grouped into interchangeable units and bundles.

A *unit* is the items that must share a host or pool, with their demands summed. Units that nothing distinguishes are of
one *sort*. A *bundle* is the units that must share a rack. Bundles of the same sorts are interchangeable, so the model
counts them instead of naming them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from datalog_gate.rack_affinity.problem import Item, Level, Place, Problem


@dataclass(frozen=True, slots=True, order=True)
class Sort:
    """Everything that distinguishes a unit from others. `fixed` holds levels with the location that the unit must have
    there. `constraints` are the indices of its constraints that bundles don't express: spreads, and shared zones."""

    kind: str
    demand: tuple[tuple[str, int], ...]
    fixed: tuple[tuple[Level, str], ...]
    constraints: tuple[int, ...]

    def allows(self, place: Place) -> bool:
        """Whether the place is where the unit must be, and has room for one."""
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
