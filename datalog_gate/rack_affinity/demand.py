"""What a grant of `rack_affinity` asks (layer 5): in, a `Request` and what flavors take; out, its servers and volumes
with what they need, and what is to be together or spread."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from datalog_gate.base.values import Unknown
from datalog_gate.plugins.errors import RefusedError
from datalog_gate.preflight.snapshot import Part
from datalog_gate.rack_affinity.problem import Constraint, Item, Kind, Level
from datalog_gate.services.contract import Request
from datalog_gate.stack.model import Data

KINDS: Mapping[str, Kind] = {"OS::Nova::Server": "server", "OS::Cinder::Volume": "volume"}
SERVERS, VOLUMES = "VCPU", "DISK_GB"
"""What each server takes at least, and what each volume takes alone: they tell hosts and storage pools apart."""
LEVELS = get_args(Level)

Flavors = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Demand:
    """By `grant`. It is not `sure` while nobody knows the options, or how many members a group has."""

    grant: str
    items: tuple[Item, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    sure: bool = True


def read_demand(request: Request, flavors: Flavors) -> Demand:
    """What a request asks. Errors: RefusedError for options that are wrong."""
    options = request.options
    if unknown := sorted(options.keys() - {"same", "spread"}):
        raise RefusedError(f"there is no option {', '.join(unknown)}, only same and spread")
    if any(isinstance(one, Unknown) for one in _all(options)) or any(part.open for part in request.scope):
        return Demand(request.grant, sure=False)
    items = tuple(_item(part, flavors) for part in request.scope if part.type in KINDS)
    if not items:
        raise RefusedError("there is no server and no volume in scope")
    ids = tuple(item.id for item in items)
    constraints = []
    if (level := options.get("same")) is not None:
        constraints.append(Constraint(request.grant, f"same: {level}", _level("same", level), ids))
    match options.get("spread"):
        case None:
            pass
        case {"level": level, "at_least": int(least), **rest} if not rest and type(least) is int and least > 0:
            option = f"spread: {level}, at least {least}"
            constraints.append(Constraint(request.grant, option, _level("spread", level), ids, least))
        case _:
            raise RefusedError("the option spread must be {level: rack, at_least: 2}, with a whole number from 1")
    for item in items:
        if item.kind == "volume" and any(asks.level == "host" for asks in constraints):
            raise RefusedError(f"{item.id} is a volume, which is on no host: say rack, or leave it out of the scope")
    return Demand(request.grant, items, tuple(constraints))


def read_flavors(file: str) -> Flavors:
    """One JSON object a line: ``{"flavor": "m1.small", "VCPU": 1, "MEMORY_MB": 2048}``, by name or id. Errors:
    OSError, and ValueError."""
    flavors: dict[str, dict[str, int]] = {}
    for line in Path(file).read_text().splitlines() if file else ():
        row: Any = json.loads(line)
        amounts = {name: one for name, one in row.items() if name != "flavor"} if isinstance(row, dict) else {"": -1}
        if not all(type(amount) is int and amount >= 0 for amount in amounts.values()) or not isinstance(
            row.get("flavor"), str
        ):
            raise ValueError(f"{Path(file).name}: this is no flavor: {line}")
        flavors[row["flavor"]] = {SERVERS: 1, **amounts}
    return flavors


def _item(part: Part, flavors: Flavors) -> Item:
    """What nobody knows counts 1."""
    zone, flavor, size = (part.properties.get(name) for name in ("availability_zone", "flavor", "size"))
    demand: Mapping[str, int] = {VOLUMES: int(str(size)) if str(size).isdecimal() else 1}
    if KINDS[part.type] == "server":
        demand = flavors.get(flavor, {SERVERS: 1}) if isinstance(flavor, str) else {SERVERS: 1}
    return Item(part.id, KINDS[part.type], demand, zone if isinstance(zone, str) and zone else None)


def _level(option: str, level: object) -> Level:
    if level not in LEVELS:
        raise RefusedError(f"the option {option} must name a level, {', '.join(LEVELS[:-1])} or {LEVELS[-1]}")
    return cast(Level, level)


def _all(data: Data) -> Iterator[Data]:
    yield data
    if isinstance(data, Mapping):
        for one in data.values():
            yield from _all(one)
