"""The demand of a grant: items with their demands, and constraints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast, get_args

from datalog_gate.base.values import Unknown
from datalog_gate.plugins.plugin_errors import RefusedError
from datalog_gate.plugins.plugin_settings import check_path
from datalog_gate.rack_affinity.problem import LARGEST, Constraint, Item, Kind, Level, Problem
from datalog_gate.services.contract import Request
from datalog_gate.services.parts import Part
from datalog_gate.stack.model import Data

KINDS: Mapping[str, Kind] = {"OS::Nova::Server": "server", "OS::Cinder::Volume": "volume"}
SERVERS, VOLUMES = "VCPU", "DISK_GB"
"""The resource class of every server, and the only one of volumes: they distinguish hosts from pools."""
LEVELS = get_args(Level)
LONG = 4000
"""The maximum number of digits, close to Python's limit."""

Flavors = Mapping[str, Mapping[str, int]]
"""Amounts by resource class, by the name or id of a flavor."""


def read_demand(request: Request, flavors: Flavors) -> Problem | None:
    """Read the items and constraints of a request; None if the options, or the number of members of a group, are
    unknown. Errors: RefusedError for invalid options."""
    options = request.options
    if unknown := sorted(options.keys() - {"same", "spread"}):
        raise RefusedError(f"there is no option {', '.join(unknown)}, only same and spread")
    if any(isinstance(data, Unknown) for data in _walk(options)) or any(part.open for part in request.scope):
        return None
    items = tuple(_read_item(part, flavors) for part in request.scope if part.type in KINDS)
    if not items:
        raise RefusedError("there is no server and no volume in scope")
    constraints = _read_constraints(request, tuple(item.id for item in items))
    for item in items:
        if item.kind == "volume" and any(constraint.level == "host" for constraint in constraints):
            raise RefusedError(f"{item.id} is a volume, which is not on a host: use rack, or remove it from the scope")
    return Problem((), items, constraints)


def read_flavors(file: str) -> Flavors:
    """Read one JSON object per line: ``{"flavor": "m1.small", "VCPU": 1, "MEMORY_MB": 2048}``. Errors: OSError,
    ValueError."""
    flavors: dict[str, dict[str, int]] = {}
    if not file:
        return flavors
    for line in Path(check_path(file)).read_text().splitlines():
        row: Any = json.loads(line)
        match row:
            case {"flavor": str(flavor), **amounts} if all(
                type(amount) is int and amount >= 0 for amount in amounts.values()
            ):
                flavors[flavor] = {SERVERS: 1, **cast(dict[str, int], amounts)}
            case _:
                raise ValueError(f"{Path(file).name}: this is not a flavor: {line}")
    return flavors


def _read_item(part: Part, flavors: Flavors) -> Item:
    """An unknown amount counts as 1."""
    zone, flavor, size = (part.properties.get(name) for name in ("availability_zone", "flavor", "size"))
    kind = KINDS[part.type]
    demand: Mapping[str, int]
    if kind == "volume":
        text = str(size)
        number = (int(text) if len(text) < LONG else 10 * LARGEST) if text.isdecimal() else 1
        demand = {VOLUMES: min(number, 10 * LARGEST)}
    else:
        demand = flavors.get(flavor, {SERVERS: 1}) if isinstance(flavor, str) else {SERVERS: 1}
    return Item(part.id, kind, demand, zone if isinstance(zone, str) and zone else None)


def _read_constraints(request: Request, ids: tuple[str, ...]) -> tuple[Constraint, ...]:
    constraints = []
    if (level := request.options.get("same")) is not None:
        constraints.append(Constraint(request.grant, f"same: {level}", _check_level("same", level), ids))
    match request.options.get("spread"):
        case None:
            pass
        case {"level": level, "at_least": int(least), **rest} if (
            not rest and type(least) is int and 0 < least <= LARGEST
        ):
            option = f"spread: {level}, at least {least}"
            constraints.append(Constraint(request.grant, option, _check_level("spread", level), ids, least))
        case _:
            raise RefusedError("the option spread must be {level: rack, at_least: 2}, with a whole number from 1")
    return tuple(constraints)


def _check_level(option: str, level: object) -> Level:
    if level not in LEVELS:
        raise RefusedError(f"the option {option} must name a level, {', '.join(LEVELS[:-1])} or {LEVELS[-1]}")
    return cast(Level, level)


def _walk(data: Data) -> Iterator[Data]:
    yield data
    if isinstance(data, Mapping):
        for value in data.values():
            yield from _walk(value)
