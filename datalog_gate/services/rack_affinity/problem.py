"""What the solver of `rack_affinity` is asked and what it answers (layer 5), each as JSON too.

A place is a host for servers or a pool for volumes, and stands in a rack and a zone; capacities and demands are whole
units of a resource class, and what a place does not list it has none of.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

from datalog_gate.errors import GateError

Kind = Literal["server", "volume"]
Level = Literal["host", "rack", "zone"]
Part = tuple[str, ...]
"""The smallest that can be left out of a problem: see `conflict.parts`."""
GIGABYTES = "DISK_GB"
LARGEST = 10**12
"""What a capacity or a demand is at most, so that sums of them stay exact in 64 bits."""


class ProblemError(GateError):
    """A problem that makes no sense, in one line."""


@dataclass(frozen=True, slots=True)
class Host:
    """Takes servers. `capacity` is what is free."""

    name: str
    rack: str
    zone: str
    capacity: Mapping[str, int]
    aggregates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pool:
    """Block storage: takes volumes, which demand `DISK_GB` and nothing else."""

    name: str
    rack: str
    zone: str
    gigabytes: int

    @property
    def capacity(self) -> Mapping[str, int]:
        """As a host has it."""
        return {GIGABYTES: self.gigabytes}

    @property
    def aggregates(self) -> tuple[str, ...]:
        """Aggregates are of hosts."""
        return ()


@dataclass(frozen=True, slots=True)
class Item:
    """A server or a volume, and the zone that its template asks for."""

    id: str
    kind: Kind
    demand: Mapping[str, int]
    zone: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """The grant that asks for a constraint, and which of its options does, as the template has it: `same: rack`."""

    grant: str
    option: str


@dataclass(frozen=True, slots=True)
class Same:
    """All items are in one rack or zone, or on one host."""

    level: Level
    items: tuple[str, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class Spread:
    """The items, taken together, are in at least so many racks or zones, or on so many hosts."""

    level: Level
    at_least: int
    items: tuple[str, ...]
    origin: Origin


Constraint = Same | Spread


@dataclass(frozen=True, slots=True)
class Problem:
    """All grants of a stack at once. It orders itself, so that the order in which it came changes no answer.
    Errors: ProblemError."""

    hosts: tuple[Host, ...]
    pools: tuple[Pool, ...]
    items: tuple[Item, ...]
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        _check(self)
        set_ = object.__setattr__
        set_(self, "hosts", tuple(sorted(self.hosts, key=lambda one: one.name)))
        set_(self, "pools", tuple(sorted(self.pools, key=lambda one: one.name)))
        set_(self, "items", tuple(sorted(self.items, key=lambda one: one.id)))
        set_(self, "constraints", tuple(sorted(map(_ordered, self.constraints), key=_key)))

    def places(self, kind: str) -> tuple[Host | Pool, ...]:
        """Where an item of this kind can be."""
        return self.hosts if kind == "server" else self.pools

    def racks(self) -> dict[str, set[str]]:
        """Those with any place, in order, and the zones that they are in."""
        zones: dict[str, set[str]] = {}
        for one in (*self.places("server"), *self.places("volume")):
            zones.setdefault(one.rack, set()).add(one.zone)
        return dict(sorted(zones.items()))


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item goes: `name` is a host's or a pool's."""

    name: str
    rack: str
    zone: str
    aggregates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """A place for each item by its id. `gap` is what is not known of the best balance: 0.0 where none is better, 0.1
    where the fullest rack of the best may be a tenth less full."""

    places: Mapping[str, Place]
    gap: float


@dataclass(frozen=True, slots=True)
class Reason:
    """One member of a conflict, in words, with the grants that it comes from, if any, and what it consists of."""

    text: str
    origins: tuple[Origin, ...]
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
            tuple(Host(**{**one, "aggregates": tuple(one["aggregates"])}) for one in data["hosts"]),
            tuple(Pool(**one) for one in data["pools"]),
            tuple(Item(**one) for one in data["items"]),
            tuple(_constraint(one) for one in data["constraints"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProblemError(f"this is no problem: {error}") from error


def read_answer(text: str) -> Answer:
    """What `to_json` wrote. Errors: ProblemError."""
    try:
        data = json.loads(text)
        if "places" in data:
            places = {
                id_: Place(**{**one, "aggregates": tuple(one["aggregates"])}) for id_, one in data["places"].items()
            }
            return Placed(places, data["gap"])
        return Impossible(tuple(_reason(one) for one in data["conflict"]), data["irreducible"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProblemError(f"this is no answer: {error}") from error


def _constraint(data: dict[str, Any]) -> Constraint:
    fields = {**data, "items": tuple(data["items"]), "origin": Origin(**data["origin"])}
    return Spread(**fields) if "at_least" in data else Same(**fields)


def _reason(data: dict[str, Any]) -> Reason:
    origins = tuple(Origin(**one) for one in data["origins"])
    return Reason(data["text"], origins, tuple(cast(Part, tuple(part)) for part in data["parts"]))


def _ordered(one: Constraint) -> Constraint:
    items = tuple(sorted(set(one.items)))
    if isinstance(one, Same):
        return Same(one.level, items, one.origin)
    return Spread(one.level, one.at_least, items, one.origin)


def _key(one: Constraint) -> tuple[Any, ...]:
    return one.origin, one.level, one.items, one.at_least if isinstance(one, Spread) else 0


def _check(problem: Problem) -> None:
    kinds = {one.id: one.kind for one in problem.items}
    _unique("host", (one.name for one in problem.hosts))
    _unique("pool", (one.name for one in problem.pools))
    _unique("item", (one.id for one in problem.items))
    for place in (*problem.places("server"), *problem.places("volume")):
        _amounts(place.name, place.capacity)
    for item in problem.items:
        if item.kind not in get_args(Kind):
            raise ProblemError(f"{item.id} is a {item.kind}: only servers and volumes have a place")
        if item.kind == "volume" and set(item.demand) - {GIGABYTES}:
            raise ProblemError(f"{item.id} is a volume, which demands {GIGABYTES} and nothing else")
        _amounts(item.id, item.demand)
    for one in problem.constraints:
        said = f"{one.origin.option} of grant {one.origin.grant}"
        if one.level not in get_args(Level):
            raise ProblemError(f"{said}: there is no level {one.level}, only host, rack and zone")
        if isinstance(one, Spread) and (type(one.at_least) is not int or one.at_least < 1):
            raise ProblemError(f"{said}: at_least is a whole number from 1")
        for id_ in one.items:
            if id_ not in kinds:
                raise ProblemError(f"{said}: there is no {id_}")
            if one.level == "host" and kinds[id_] == "volume":
                raise ProblemError(f"{said}: {id_} is a volume, which is in a storage pool and on no host; say rack")


def _unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ProblemError(f"there are two of {what} {name}")
        seen.add(name)


def _amounts(name: str, amounts: Mapping[str, int]) -> None:
    for what, amount in amounts.items():
        if type(amount) is not int or not 0 <= amount <= LARGEST:
            raise ProblemError(f"{what} of {name} is no whole number from 0 to {LARGEST}")
