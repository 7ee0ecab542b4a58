"""The explanation of a problem that has no answer.

A conflict is a smallest set of assumptions that exclude each other. QuickXplain (Junker, AAAI 2004) first searches a
few large groups, such as the memory of all hosts, then splits a group if that is quick and the result is short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import chain, count
from typing import get_args

from datalog_gate.base.records import replace
from datalog_gate.rack_affinity.problem import Assumption, Kind, Place, Problem

Group = tuple[Assumption, ...]
READABLE = 8
"""The maximum number of reasons of a conflict after a group is split."""
PATIENCE = 16
"""The maximum number of questions for splitting a group: enough to find one of two hundred assumptions."""
NAMED = 3
"""The number of names that a reason lists before it counts the others."""
PLURAL = {"server": "hosts", "volume": "storage pools"}
SINGULAR = {"server": "host", "volume": "storage pool"}


class _OutOfPatienceError(Exception):
    """Splitting a group needs too many questions."""


def find_conflict(problem: Problem, possible: Callable[[Problem], bool]) -> list[Group]:
    """Find a conflict in an impossible problem: no group in it can be left out. `possible` may raise any error when its
    time is over."""
    every = list(assumptions(problem))

    def conflicts(groups: Iterable[Group]) -> bool:
        kept = set(chain.from_iterable(groups))
        return not possible(without(problem, (assumption for assumption in every if assumption not in kept)))

    conflict = _quickxplain((), group_assumptions(problem), conflicts)
    for group in list(conflict):
        others = [other for other in conflict if other is not group]
        pieces = _take_apart(others, group, conflicts) if len(group) > 1 else []
        if 0 < len(pieces) <= READABLE - len(others):
            conflict = [*others, *pieces]
    return sorted(conflict, key=lambda group: every.index(group[0]))


def group_assumptions(problem: Problem) -> list[Group]:
    """All assumptions in few groups."""
    groups: dict[tuple[object, ...], list[Assumption]] = {}
    for assumption, common in assumptions(problem).items():
        groups.setdefault(common, []).append(assumption)
    return [tuple(group) for group in groups.values()]


def assumptions(problem: Problem) -> dict[Assumption, tuple[object, ...]]:
    """List all assumptions that can be left out of a problem, each with what those of its group have in common.

    ("constraint", INDEX)                   a constraint
    ("where", ITEM)                         the zone or place in which an item must be
    ("missing", KIND, RACK)                 a rack has no place of this kind
    ("room", KIND, RACK, RESOURCE_CLASS)    the capacity of the places of a rack
    ("demand", ITEM)                        what an item takes
    """
    every: dict[Assumption, tuple[object, ...]] = {}
    for index, constraint in enumerate(problem.constraints):
        every["constraint", str(index)] = ("constraint", constraint.at_least is None, constraint.level)
    for item in problem.items:
        if item.zone is not None or item.place is not None:
            every["where", item.id] = ("where", item.zone, item.place)
    for kind in sorted({item.kind for item in problem.items}):
        racks = {place.rack for place in problem.of(kind)}
        demanded = {name for item in problem.items if item.kind == kind for name in item.demand if item.demand[name]}
        every |= {("missing", kind, rack): ("missing", kind) for rack in problem.racks() or [""] if rack not in racks}
        for name in sorted(demanded):
            every |= {("room", kind, rack, name): ("room", kind, name) for rack in sorted(racks)}
    # last, so left out first: without demands all servers are equal, and the model is small
    return every | {("demand", item.id): ("demand", item.kind) for item in problem.items if any(item.demand.values())}


def without(problem: Problem, left_out: Iterable[Assumption]) -> Problem:
    """The problem without some assumptions. Without `room`, each place in the rack has as much of the class as all
    items demand. Without `missing`, the rack has one place in each of its zones with enough of everything."""
    absent = set(left_out)
    total: Counter[str] = Counter()
    for item in problem.items:
        total.update(item.demand)
    places = []
    for place in problem.places:
        capacity = dict(place.capacity)
        for name in total:
            if ("room", place.kind, place.rack, name) in absent:
                capacity[name] = max(total[name], capacity.get(name, 0))
        places.append(place if capacity == place.capacity else replace(place, capacity=capacity))
    racks = problem.racks()
    for kind in get_args(Kind):
        for rack in sorted(assumption[2] for assumption in absent if assumption[:2] == ("missing", kind)):
            places += [Place(kind, f"one more in {rack} {zone}", rack, zone, total) for zone in racks.get(rack, {""})]
    items = []
    for item in problem.items:
        loose = replace(item, zone=None, place=None) if ("where", item.id) in absent else item
        items.append(replace(loose, demand={}) if ("demand", item.id) in absent else loose)
    constraints = [
        constraint for index, constraint in enumerate(problem.constraints) if ("constraint", str(index)) not in absent
    ]
    return Problem(tuple(places), tuple(items), tuple(constraints))


def describe(problem: Problem, group: Group) -> str:
    """A group of a conflict in words."""
    names = [assumption[1] for assumption in group]
    racks = sorted({assumption[2] for assumption in group if len(assumption) > 2})
    by_id = {item.id: item for item in problem.items}
    match group[0]:
        case ("constraint", _):
            constraints = [problem.constraints[int(name)] for name in names]
            grants = sorted({constraint.grant for constraint in constraints})
            items = sorted({id_ for constraint in constraints for id_ in constraint.items})
            options = " and ".join(sorted({constraint.option for constraint in constraints}))
            text = f"{options} of {_count('grant', grants)} {_list(grants)} over {_list(items)}"
        case ("where", id_):
            zone, place = by_id[id_].zone, by_id[id_].place
            text = f"{_list(names)} on {place}, where it is" if place else f"the zone {zone} of {_list(names)}"
        case ("demand", id_) if len(group) == 1:
            demand = by_id[id_].demand
            text = f"{', '.join(f'{name} {demand[name]}' for name in sorted(demand) if demand[name])} for {id_}"
        case ("demand", _):
            text = f"what {_list(names)} need"
        case ("room", kind, _, resource_class):
            free = [place.capacity.get(resource_class, 0) for place in problem.of(kind) if place.rack in racks]
            where = f"{PLURAL[kind]} in {_count('rack', racks)} {_list(racks)}"
            text = f"{resource_class} of the {where}: {sum(free)} free, at most {max(free)} on one"
        case (_, kind, ""):
            text = f"there is no {SINGULAR[kind]} with free capacity"
        case (_, kind, _):
            verb = "have" if len(racks) > 1 else "has"
            text = f"{_count('rack', racks)} {_list(racks)} {verb} no {SINGULAR[kind]} with free capacity"
    return text


def _quickxplain(
    given: tuple[Group, ...], groups: list[Group], conflicts: Callable[[Iterable[Group]], bool], changed: bool = False
) -> list[Group]:
    """Find the fewest of `groups` that conflict with the given assumptions. `changed` says that there are more given
    ones than in the last question."""
    if changed and conflicts(given):
        return []
    if len(groups) == 1:
        return groups
    left, right = groups[: len(groups) // 2], groups[len(groups) // 2 :]
    second = _quickxplain((*given, *left), right, conflicts, True)
    first = _quickxplain((*given, *second), left, conflicts, bool(second))
    return first + second


def _take_apart(others: list[Group], group: Group, conflicts: Callable[[Iterable[Group]], bool]) -> list[Group]:
    """Find the relevant assumptions of a group, or nothing if that takes too many questions. The other groups of the
    conflict are still needed."""
    questions = count()

    def conflicts_soon(groups: Iterable[Group]) -> bool:
        if next(questions) == PATIENCE:
            raise _OutOfPatienceError
        return conflicts(groups)

    try:
        return _quickxplain(tuple(others), [(assumption,) for assumption in group], conflicts_soon)
    except _OutOfPatienceError:
        return []


def _count(noun: str, names: list[str]) -> str:
    return f"{noun}s" if len(names) > 1 else noun


def _list(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:NAMED])} and {more} more"
