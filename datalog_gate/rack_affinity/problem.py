"""What the solver of `rack_affinity` is asked and what it answers (layer 5), each as JSON too.

A place is a host for servers or a pool for volumes, and stands in a rack and a zone; capacities and demands are whole
units of a resource class, and what a place does not list it has none of.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from datalog_gate.base.errors import GateError

Kind = Literal["server", "volume"]
Level = Literal["host", "rack", "zone"]
Part = tuple[str, ...]
"""The smallest that can be left out of a problem: see `conflict.parts`."""
LARGEST = 10**12
"""What a capacity or a demand is at most, so that sums of them stay exact in 64 bits."""


class ProblemError(GateError):
    """A problem that makes no sense, in one line."""


@dataclass(frozen=True, slots=True)
class Place:
    """Takes what is of its kind. `capacity` is what is free."""

    kind: Kind
    name: str
    rack: str
    zone: str
    capacity: Mapping[str, int]

    def at(self, level: str) -> str:
        """Its host, which it is itself, its rack or its zone."""
        return {"host": self.name, "rack": self.rack, "zone": self.zone}[level]


@dataclass(frozen=True, slots=True)
class Item:
    """A server or a volume, the zone that its template asks for, and the place where it has to stay."""

    id: str
    kind: Kind
    demand: Mapping[str, int]
    zone: str | None = None
    place: str | None = None


@dataclass(frozen=True, slots=True)
class Constraint:
    """All items are in one rack or zone, or on one host; with `at_least` they are, taken together, in at least so many.
    `grant` asks for it, by an `option` as the template has it: ``same: rack``."""

    grant: str
    option: str
    level: Level
    items: tuple[str, ...]
    at_least: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """All grants of a stack at once. It orders itself, so that the order in which it came changes no answer.
    Errors: ProblemError."""

    places: tuple[Place, ...]
    items: tuple[Item, ...]
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        _check(self)
        constraints = [replace(constraint, items=tuple(sorted({*constraint.items}))) for constraint in self.constraints]
        set_ = object.__setattr__
        set_(self, "places", tuple(sorted(self.places, key=lambda one: (one.kind, one.name))))
        set_(self, "items", tuple(sorted(self.items, key=lambda one: one.id)))
        set_(self, "constraints", tuple(sorted(constraints, key=_key)))

    def of(self, kind: str) -> tuple[Place, ...]:
        """Where an item of this kind can be."""
        return tuple(place for place in self.places if place.kind == kind)

    def racks(self) -> dict[str, set[str]]:
        """Those with any place, in order, and the zones that they are in."""
        zones: dict[str, set[str]] = {}
        for place in self.places:
            zones.setdefault(place.rack, set()).add(place.zone)
        return dict(sorted(zones.items()))


@dataclass(frozen=True, slots=True)
class Placed:
    """The name of a place for each item by its id. `gap` is what is not known of the best balance: 0.0 where none is
    better, 0.1 where the fullest rack of the best may be a tenth less full."""

    places: Mapping[str, str]
    gap: float


@dataclass(frozen=True, slots=True)
class Reason:
    """One member of a conflict, in words, and what it consists of."""

    text: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Impossible:
    """What can't be had together. `irreducible`: without any one of them it could be; else time ran out before all that
    has no part in it was left out."""

    conflict: tuple[Reason, ...]
    irreducible: bool


Answer = Placed | Impossible


def to_json(value: Problem | Answer) -> str:
    """One line."""
    return json.dumps(asdict(value))


def read_problem(text: str) -> Problem:
    """What `to_json` wrote. Errors: ProblemError."""
    try:
        data = json.loads(text)
        return Problem(
            tuple(Place(**one) for one in data["places"]),
            tuple(Item(**one) for one in data["items"]),
            tuple(Constraint(**one) for one in data["constraints"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProblemError(f"this is no problem: {error}") from error


def read_answer(text: str) -> Answer:
    """What `to_json` wrote. Errors: ProblemError."""
    try:
        data = json.loads(text)
        if "places" in data:
            return Placed(dict(data["places"]), data["gap"])
        conflict = [Reason(one["text"], tuple(map(tuple, one["parts"]))) for one in data["conflict"]]
        return Impossible(tuple(conflict), data["irreducible"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProblemError(f"this is no answer: {error}") from error


def _key(constraint: Constraint) -> tuple[Any, ...]:
    return constraint.grant, constraint.option, constraint.level, constraint.items, constraint.at_least or 0


def _check(problem: Problem) -> None:
    kinds = {item.id: item.kind for item in problem.items}
    _unique("place", (f"{place.kind} {place.name}" for place in problem.places))
    _unique("item", (item.id for item in problem.items))
    for name, kind, amounts in [
        *((place.name, place.kind, place.capacity) for place in problem.places),
        *((item.id, item.kind, item.demand) for item in problem.items),
    ]:
        if kind not in get_args(Kind):
            raise ProblemError(f"{name} is a {kind}: only servers and volumes have a place")
        for what, amount in amounts.items():
            if type(amount) is not int or not 0 <= amount <= LARGEST:
                raise ProblemError(f"{what} of {name} is no whole number from 0 to {LARGEST}")
    for constraint in problem.constraints:
        said = f"{constraint.option} of grant {constraint.grant}"
        if constraint.level not in get_args(Level):
            raise ProblemError(f"{said}: there is no level {constraint.level}, only host, rack and zone")
        if constraint.at_least is not None and (type(constraint.at_least) is not int or constraint.at_least < 1):
            raise ProblemError(f"{said}: at_least is a whole number from 1")
        for id_ in constraint.items:
            if id_ not in kinds:
                raise ProblemError(f"{said}: there is no {id_}")
            if constraint.level == "host" and kinds[id_] == "volume":
                raise ProblemError(f"{said}: {id_} is a volume, which is in a storage pool and on no host; say rack")


def _unique(what: str, names: Iterable[Any]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise ProblemError(f"there are two of {what} {name}")
