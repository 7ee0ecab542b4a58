"""Why a problem has no answer (layer 5): in, the problem, and whether a lesser one is possible; out, a smallest set of
what can't be had together, in words.

QuickXplain (Junker, AAAI 2004) over few large members first, such as all that `same: rack` asks for, or the memory of
all hosts; then each is taken apart as long as the answer stays short enough to be read. A member left out is a change
of the problem (`without`), not an assumption within the solver's model: so what is tied together stays one in it, and
a hundred questions cost less than one model in which every tie can be cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import chain
from typing import get_args

from datalog_gate.rack_affinity.problem import (
    Kind,
    Part,
    Place,
    Problem,
    Reason,
)

Member = tuple[Part, ...]
READABLE = 8
"""Members that a conflict may have after one is taken apart."""
PATIENCE = 16
"""Questions that taking one apart may cost: enough to find one of two hundred."""
NAMED = 3
PLURAL = {"server": "hosts", "volume": "storage pools"}
SINGULAR = {"server": "host", "volume": "storage pool"}


class _TooManyError(Exception):
    """What is taken apart needs more questions, or falls into more pieces, than it may."""


def parts(problem: Problem) -> list[Part]:
    """Whatever can be left out: ``("constraint", its index)``, ``("where", item)`` where it has to be somewhere,
    ``("demand", item)``, ``("room", kind, rack, resource class)`` and ``("missing", kind, rack)`` where a rack has no
    place of this kind."""
    found: list[Part] = [("constraint", str(at)) for at in range(len(problem.constraints))]
    found += [("where", item.id) for item in problem.items if item.zone is not None or item.place is not None]
    for kind in sorted({item.kind for item in problem.items}):
        there = {place.rack for place in problem.of(kind)}
        demanded = {
            name for item in problem.items if item.kind == kind for name, amount in item.demand.items() if amount
        }
        found += [("missing", kind, rack) for rack in problem.racks() or [""] if rack not in there]
        found += [("room", kind, rack, name) for name in sorted(demanded) for rack in sorted(there)]
    # last, and so asked for last: where demands don't matter, all servers are alike, and the model is small
    return found + [("demand", item.id) for item in problem.items if any(item.demand.values())]


def without(problem: Problem, left_out: Iterable[Part]) -> Problem:
    """The problem that remains. Without `room`, each place in the rack has as much of the class as all items demand;
    without `missing`, the rack has a place with as much of everything, one in each of its zones."""
    out = set(left_out)
    total: Counter[str] = Counter()
    for item in problem.items:
        total.update(item.demand)
    places = []
    for place in problem.places:
        more = {name: total[name] for name in total if ("room", place.kind, place.rack, name) in out}
        capacity = {name: max(amount, place.capacity.get(name, 0)) for name, amount in more.items()}
        places.append(replace(place, capacity={**place.capacity, **capacity}) if more else place)
    racks = problem.racks()
    for kind in get_args(Kind):
        for rack in sorted(part[2] for part in out if part[:2] == ("missing", kind)):
            places += [Place(kind, f"one more in {rack} {zone}", rack, zone, total) for zone in racks.get(rack, {""})]
    items = []
    for item in problem.items:
        if ("where", item.id) in out:
            item = replace(item, zone=None, place=None)
        items.append(replace(item, demand={}) if ("demand", item.id) in out else item)
    kept = [constraint for at, constraint in enumerate(problem.constraints) if ("constraint", str(at)) not in out]
    return Problem(tuple(places), tuple(items), tuple(kept))


def explain(problem: Problem, possible: Callable[[Problem], bool]) -> tuple[Reason, ...]:
    """A conflict of a problem that is not possible. `possible` may raise whatever it likes when its time is up."""
    every = parts(problem)

    def conflicts(members: Iterable[Member]) -> bool:
        kept = set(chain.from_iterable(members))
        return not possible(without(problem, (part for part in every if part not in kept)))

    found = _smallest((), _grouped(problem, every, 0), conflicts, lambda: None)
    whole: set[Member] = set()
    for depth in (1, 2):
        for member in found:
            pieces = _grouped(problem, member, depth)
            others = tuple(one for one in found if one != member)
            if len(pieces) > 1 and member not in whole:
                smaller = _taken_apart(others, pieces, conflicts) or [member]
                whole.update(smaller if smaller == [member] else ())
                found = [*others, *smaller]
    return tuple(reason(problem, member) for member in sorted(found, key=lambda member: every.index(member[0])))


def everything(problem: Problem) -> tuple[Reason, ...]:
    """All that may be in conflict, when there is no time to find out what is."""
    return tuple(reason(problem, member) for member in _grouped(problem, parts(problem), 0))


def reason(problem: Problem, member: Member) -> Reason:
    """A member of a conflict in words."""
    names = [part[1] for part in member]
    match member[0]:
        case ("constraint", _):
            asked = [problem.constraints[int(name)] for name in names]
            grants = sorted({constraint.grant for constraint in asked})
            items = sorted({id_ for constraint in asked for id_ in constraint.items})
            options = " and ".join(sorted({constraint.option for constraint in asked}))
            text = f"{options} of grant{'s' if len(grants) > 1 else ''} {_some(grants)} over {_some(items)}"
        case ("where", item):
            zone, place = next((one.zone, one.place) for one in problem.items if one.id == item)
            text = f"{_some(names)} on {place}, where it is" if place else f"the zone {zone} of {_some(names)}"
        case ("demand", item) if len(member) == 1:
            demand = next(one.demand for one in problem.items if one.id == item)
            amounts = [f"{name} {amount}" for name, amount in sorted(demand.items()) if amount]
            text = f"{', '.join(amounts)} for {item}"
        case ("demand", _):
            text = f"what {_some(names)} need"
        case ("room", kind, _, name):
            racks = sorted({part[2] for part in member})
            free = [place.capacity.get(name, 0) for place in problem.of(kind) if place.rack in set(racks)]
            where = f"{PLURAL[kind]} in rack{'s' if len(racks) > 1 else ''} {_some(racks)}"
            text = f"{name} of the {where}: {sum(free)} free, at most {max(free)} on one"
        case (_, kind, _):
            racks = sorted({part[2] for part in member})
            verb = "have" if len(racks) > 1 else "has"
            text = f"rack{'s' if len(racks) > 1 else ''} {_some(racks)} {verb} no {SINGULAR[kind]} with any room"
            if racks == [""]:
                text = f"there is no {SINGULAR[kind]} with any room"
    return Reason(text, member)


def _smallest(
    given: tuple[Member, ...],
    members: list[Member],
    conflicts: Callable[[Iterable[Member]], bool],
    leaf: Callable[[], None],
    changed: bool = False,
) -> list[Member]:
    """QuickXplain: some of `members`, none of which can be left out, that conflict with what is given. `leaf` is called
    for each that is found."""
    if changed and conflicts(given):
        return []
    if len(members) == 1:
        leaf()
        return members
    left, right = members[: len(members) // 2], members[len(members) // 2 :]
    second = _smallest((*given, *left), right, conflicts, leaf, True)
    first = _smallest((*given, *second), left, conflicts, leaf, bool(second))
    return first + second


def _taken_apart(
    others: tuple[Member, ...], pieces: list[Member], conflicts: Callable[[Iterable[Member]], bool]
) -> list[Member]:
    """Those pieces that matter, or nothing if they are too many to be found or read. What is smallest with the whole
    stays so with the pieces: none of the others can be left out of less."""
    questions, leaves = PATIENCE, READABLE - len(others)

    def asked(members: Iterable[Member]) -> bool:
        nonlocal questions
        questions -= 1
        if questions < 0:
            raise _TooManyError
        return conflicts(members)

    def leaf() -> None:
        nonlocal leaves
        leaves -= 1
        if leaves < 0:
            raise _TooManyError

    try:
        return _smallest(others, pieces, asked, leaf)
    except _TooManyError:
        return []


def _grouped(problem: Problem, some: Iterable[Part], depth: int) -> list[Member]:
    """Members: at depth 0 what is alike is one, at 1 all constraints of an origin are, at 2 nothing is."""
    items = {item.id: item for item in problem.items}
    groups: dict[tuple[object, ...], list[Part]] = {}
    for part in some:
        key: tuple[object, ...] = part
        match part:
            case ("constraint", at) if depth < 2:
                constraint = problem.constraints[int(at)]
                key = (
                    (constraint.grant, constraint.option) if depth else (constraint.at_least is None, constraint.level)
                )
            case ("where", item) if depth == 0:
                key = ("where", items[item].zone, items[item].place)
            case ("demand", item) if depth == 0:
                key = ("demand", items[item].kind)
            case ("room", kind, _, resource_class) if depth == 0:
                key = ("room", kind, resource_class)
            case ("missing", kind, _) if depth == 0:
                key = ("missing", kind)
        groups.setdefault(key, []).append(part)
    return [tuple(group) for group in groups.values()]


def _some(names: list[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:NAMED])} and {more} more"
