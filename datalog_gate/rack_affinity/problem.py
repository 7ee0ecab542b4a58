"""Problems and answers of the placement solver, also as JSON.

A place is a host for servers or a pool for volumes, and stands in a rack and a zone. Capacities and demands are whole
units by resource class. A place has none of a class that it does not list.
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
Assumption = tuple[str, ...]
"""The smallest thing that can be left out of a problem, see `conflict.assumptions`."""
LARGEST = 10**12
"""The largest capacity or demand: sums of them stay exact in 64 bits."""


class ProblemError(GateError):
    """A problem or an answer that is not valid, in one line."""


@dataclass(frozen=True, slots=True)
class Place:
    """A host or a storage pool. `capacity` is what is free."""

    kind: Kind
    name: str
    rack: str
    zone: str
    capacity: Mapping[str, int]

    def at(self, level: Level) -> str:
        """Its host, which it is itself, its rack or its zone."""
        match level:
            case "host":
                return self.name
            case "rack":
                return self.rack
            case "zone":
                return self.zone


@dataclass(frozen=True, slots=True)
class Item:
    """A server or a volume. `zone` is what its template asks for, `place` the name of a place where it must stay."""

    id: str
    kind: Kind
    demand: Mapping[str, int]
    zone: str | None = None
    place: str | None = None


@dataclass(frozen=True, slots=True)
class Constraint:
    """All items share one location of a level or, with `at_least`, are spread over so many of them. `grant` is the path
    of the grant that asks for it, `option` its option as in the template: ``same: rack``."""

    grant: str
    option: str
    level: Level
    items: tuple[str, ...]
    at_least: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Everything that the solver needs for all grants of a stack at once. Its parts are sorted, so that their order
    changes no answer. Errors: ProblemError."""

    places: tuple[Place, ...]
    items: tuple[Item, ...]
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        _check(self)
        constraints = [replace(constraint, items=tuple(sorted({*constraint.items}))) for constraint in self.constraints]
        set_ = object.__setattr__
        set_(self, "places", tuple(sorted(self.places, key=lambda place: (place.kind, place.name))))
        set_(self, "items", tuple(sorted(self.items, key=lambda item: item.id)))
        set_(self, "constraints", tuple(sorted(constraints, key=_key)))

    def of(self, kind: str) -> tuple[Place, ...]:
        """The places for items of a kind."""
        return tuple(place for place in self.places if place.kind == kind)

    def racks(self) -> dict[str, set[str]]:
        """The racks that have a place, in order, with their zones."""
        zones: dict[str, set[str]] = {}
        for place in self.places:
            zones.setdefault(place.rack, set()).add(place.zone)
        return dict(sorted(zones.items()))


@dataclass(frozen=True, slots=True)
class Placed:
    """The name of a place by id of each item. `gap` bounds how much better racks could be balanced: 0.0 if not at all,
    0.1 if another answer might leave its fullest rack a tenth less full."""

    places: Mapping[str, str]
    gap: float


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason of a conflict in words, and the assumptions that it stands for."""

    text: str
    assumptions: tuple[Assumption, ...]


@dataclass(frozen=True, slots=True)
class Impossible:
    """Reasons that can't hold together. `irreducible` if all of them are needed for the conflict; otherwise time ran
    out before the others were left out."""

    conflict: tuple[Reason, ...]
    irreducible: bool


Answer = Placed | Impossible


def to_json(value: Problem | Answer) -> str:
    """The value as one line of JSON."""
    return json.dumps(asdict(value))


def read_problem(text: str) -> Problem:
    """Read what `to_json` wrote. Errors: ProblemError."""
    try:
        data = json.loads(text)
        return Problem(
            tuple(Place(**place) for place in data["places"]),
            tuple(Item(**item) for item in data["items"]),
            tuple(Constraint(**constraint) for constraint in data["constraints"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProblemError(f"this is no problem: {error}") from error


def read_answer(text: str) -> Answer:
    """Read what `to_json` wrote. Errors: ProblemError."""
    try:
        data = json.loads(text)
        if "places" in data:
            return Placed(dict(data["places"]), data["gap"])
        conflict = [Reason(reason["text"], tuple(map(tuple, reason["assumptions"]))) for reason in data["conflict"]]
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
        for resource_class, amount in amounts.items():
            if type(amount) is not int or not 0 <= amount <= LARGEST:
                raise ProblemError(f"{resource_class} of {name} is no whole number from 0 to {LARGEST}")
    for constraint in problem.constraints:
        where = f"{constraint.option} of grant {constraint.grant}"
        if constraint.level not in get_args(Level):
            raise ProblemError(f"{where}: there is no level {constraint.level}, only host, rack and zone")
        if constraint.at_least is not None and (type(constraint.at_least) is not int or constraint.at_least < 1):
            raise ProblemError(f"{where}: at_least is a whole number from 1")
        for id_ in constraint.items:
            if id_ not in kinds:
                raise ProblemError(f"{where}: there is no {id_}")
            if constraint.level == "host" and kinds[id_] == "volume":
                raise ProblemError(f"{where}: {id_} is a volume, which is in a storage pool and on no host; say rack")


def _unique(what: str, names: Iterable[Any]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise ProblemError(f"there are two of {what} {name}")
