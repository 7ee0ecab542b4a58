"""What is alike in a problem (layer 5): in, a `Problem`; out, its items as bundles of units, by their sorts.

Servers that must share a host are one *unit*, with their demands summed. Units that nothing distinguishes are of one
*sort*. Units that must share a rack are a *bundle*; bundles of the same sorts are alike too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from datalog_gate.rack_affinity.problem import Item, Place, Problem


@dataclass(frozen=True, slots=True, order=True)
class Sort:
    """What distinguishes units. `only` are the levels at which they have to be somewhere, and where; `marks` the
    constraints by index that see it: all spreads, and what shares a zone."""

    kind: str
    demand: tuple[tuple[str, int], ...]
    only: tuple[tuple[str, str], ...]
    marks: tuple[int, ...]

    def may(self, place: Place) -> bool:
        """Whether the place is where it has to be."""
        return all(place.at(level) == where for level, where in self.only)


Unit = tuple[str, ...]
"""Items in one place."""
Bundle = tuple[tuple[Sort, Unit], ...]
"""Units in one rack."""
Bundles = dict[tuple[Sort, ...], list[Bundle]]


def bundles(problem: Problem) -> Bundles:
    """All items as bundles of units, those of the same sorts together."""
    items = {item.id: item for item in problem.items}
    marks: dict[str, list[int]] = defaultdict(list)
    for at, constraint in enumerate(problem.constraints):
        if constraint.at_least or constraint.level == "zone":
            for id_ in constraint.items:
                marks[id_].append(at)
    units = _tied(items, problem, ("host",))
    sorts = {unit: _sort([items[id_] for id_ in unit], marks) for unit in set(units.values())}
    found: dict[tuple[Sort, ...], list[Bundle]] = defaultdict(list)
    for tied in sorted(set(_tied(items, problem, ("host", "rack")).values())):
        bundle = tuple(sorted((sorts[unit], unit) for unit in {units[id_] for id_ in tied}))
        found[tuple(sort for sort, _ in bundle)].append(bundle)
    return dict(sorted(found.items()))


def _sort(unit: list[Item], marks: dict[str, list[int]]) -> Sort:
    demand: Counter[str] = Counter()
    for item in unit:
        demand.update(item.demand)
    only = {("zone", item.zone) for item in unit if item.zone is not None}
    only |= {("host", item.place) for item in unit if item.place is not None}
    seen = {at for item in unit for at in marks[item.id]}
    needed = tuple(sorted((name, amount) for name, amount in demand.items() if amount))
    return Sort(unit[0].kind, needed, tuple(sorted(only)), tuple(sorted(seen)))


def _tied(items: Iterable[str], problem: Problem, levels: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """For each item those, itself among them, that have to share one of these levels with it."""
    tied = {id_: [id_] for id_ in items}
    for constraint in problem.constraints:
        if not constraint.at_least and constraint.level in levels:
            for id_ in constraint.items[1:]:
                first, second = tied[constraint.items[0]], tied[id_]
                if first is not second:
                    first += second
                    tied.update(dict.fromkeys(second, first))
    together = {id(group): tuple(sorted(group)) for group in tied.values()}
    return {id_: together[id(group)] for id_, group in tied.items()}
