"""Problems and answers of the placement solver.

A place is a host for servers or a pool for volumes, in a rack and a zone. Capacities and demands are whole units by
resource class. A place has none of a class that it does not list.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Literal

from datalog_gate.base.errors import GateError
from datalog_gate.base.records import dataclass, replace

Kind = Literal["server", "volume"]
Level = Literal["host", "rack", "zone"]
Assumption = tuple[str, ...]
"""The smallest part that can be left out of a problem, see `conflict.assumptions`."""
LARGEST = 10**12
"""The maximum capacity or demand, so that sums are exact in 64 bits."""


@dataclass(frozen=True, slots=True)
class Place:
    """A host or a storage pool. `capacity` is the free capacity, `aggregates` are the names of its aggregates."""

    kind: Kind
    name: str
    rack: str
    zone: str
    capacity: Mapping[str, int]
    aggregates: tuple[str, ...] = ()

    def at(self, level: Level) -> str:
        """Its location at a level: itself as a host, its rack or its zone."""
        return {"host": self.name, "rack": self.rack, "zone": self.zone}[level]


@dataclass(frozen=True, slots=True)
class Item:
    """A server or a volume. `zone` is the one in its template, `place` the name of a place where it must stay."""

    id: str
    kind: Kind
    demand: Mapping[str, int]
    zone: str | None = None
    place: str | None = None


@dataclass(frozen=True, slots=True)
class Constraint:
    """All items share one location of a level or, with `at_least`, are spread over so many of them. `grant` is the path
    of the requesting grant, `option` its option as in the template: ``same: rack``."""

    grant: str
    option: str
    level: Level
    items: tuple[str, ...]
    at_least: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """The input of the solver for all grants of a stack. Its parts are sorted, so that their order never changes the
    answer."""

    places: tuple[Place, ...]
    items: tuple[Item, ...]
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        constraints = [replace(constraint, items=tuple(sorted({*constraint.items}))) for constraint in self.constraints]
        set_ = object.__setattr__
        set_(self, "places", tuple(sorted(self.places, key=lambda place: (place.kind, place.name))))
        set_(self, "items", tuple(sorted(self.items, key=lambda item: item.id)))
        constraints.sort(key=attrgetter("grant", "option", "level", "items"))
        set_(self, "constraints", tuple(constraints))

    def of(self, kind: str) -> tuple[Place, ...]:
        """The places for items of a kind."""
        return tuple(place for place in self.places if place.kind == kind)

    def racks(self) -> dict[str, set[str]]:
        """The racks with places, in order, with their zones."""
        zones: dict[str, set[str]] = {}
        for place in self.places:
            zones.setdefault(place.rack, set()).add(place.zone)
        return dict(sorted(zones.items()))


@dataclass(frozen=True, slots=True)
class Impossible:
    """Reasons that exclude each other. `irreducible` if all are needed for the conflict; otherwise the time was over
    before others were left out."""

    conflict: tuple[str, ...]
    irreducible: bool


Answer = dict[str, str] | Impossible
"""The name of a place by item id, or why there is none."""


class SolverError(GateError):
    """The solver gave no answer: its time was over, it died, or OR-Tools is not installed."""


class LateError(SolverError):
    """The solver's time was over before it knew whether the problem is possible."""
