"""Hosts and storage pools, with their racks and zones.

A provider that has an inventory of the resource class for VCPU is a host. Any other that has one for DISK_GB is a
storage pool. Its rack and zone are those of its traits CUSTOM_RACK_R1 and CUSTOM_ZONE_AZ1, in small letters: r1 and
az1. The file has one JSON object a line, and the last that applies counts:

    {"provider": "compute-1", "rack": "R 1", "zone": "az1"}
    {"aggregate": "8d3c..", "name": "ssd", "rack": "r2", "zone": "az2"}

by the name of a provider, or for all providers in an aggregate of Placement. A provider without a rack is no place.
Providers without a zone are all in one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import get_args

from datalog_gate.base.records import dataclass
from datalog_gate.plugins.plugin_settings import check_path
from datalog_gate.rack_affinity.availability import SCHEDULER, PlaceService, Promise, count_left, find_services, sum_own
from datalog_gate.rack_affinity.demand import SERVERS, VOLUMES
from datalog_gate.rack_affinity.hints import RACK_TRAIT, ZONE_TRAIT
from datalog_gate.rack_affinity.problem import LARGEST, Kind, Place
from datalog_gate.services.placement import Amounts, Placement, Provider

FIELDS = {"provider", "aggregate", "name", "rack", "zone"}


@dataclass(frozen=True, slots=True)
class Places:
    """The places of the cloud by uuid of their provider, and why others are not places or have little room."""

    by_uuid: Mapping[str, Place]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRequest:
    """What places are looked for."""

    rows: Collection[Mapping[str, str]]
    """Those of the file."""
    prefix: str
    """That of the resource classes."""
    known: Collection[str] = ()
    """The uuids of providers that may be full."""
    promises: Mapping[str, Collection[Promise]]
    """By uuid of the provider."""
    needed: Mapping[Kind, Mapping[str, int]]
    """The total of all items of each requested kind."""


def find_places(
    placement: Placement, request: PlaceRequest, find_free: Callable[[Iterable[Provider]], Amounts]
) -> Places:
    """The current places, with the free amounts of the resource classes: the minimum of what the service may promise
    (`find_free`) and what Nova and Cinder have left. Errors: UnavailableError."""
    prefix, rows = request.prefix, request.rows
    providers = {**placement.providers(prefix + VOLUMES), **placement.providers(prefix + SERVERS)}
    for uuid in sorted(set(request.known) - providers.keys()):
        if provider := placement.provider(uuid):
            providers[uuid] = provider
    members = {row["aggregate"]: placement.members(row["aggregate"]) for row in rows if "aggregate" in row}
    free = find_free(providers.values())
    kinds = {uuid: _kind(provider, prefix) for uuid, provider in providers.items()}
    places: dict[str, Place] = {}
    notes = []
    for kind in get_args(Kind):
        of_kind = {uuid: provider for uuid, provider in providers.items() if kinds[uuid] == kind}
        services = find_services(placement, of_kind, kind) if of_kind and kind in request.needed else None
        for uuid, provider in of_kind.items():
            rack, zone, aggregates = _locate(provider, rows, members)
            if not rack:
                continue
            service = services.get(uuid) if services is not None else PlaceService(zone, "")
            own = sum_own(request.promises.get(uuid, ()))  # existing items stay, whatever happened to their place
            if problem := _compare(service, zone, SCHEDULER[kind]):
                notes.append(f"{provider.name} {problem}")
                if not own:
                    continue
            left = own if problem else _count_left(placement, request, provider, service)
            room = {name: free[uuid, prefix + name] for name in _own_classes(provider, prefix)}
            amounts = {
                name: min(most, max(left.get(name, 0 if problem else LARGEST), own[name]))
                for name, most in room.items()
            }
            capacity = {name: min(max(0, amount), LARGEST) for name, amount in amounts.items()}
            for name, amount in () if problem else amounts.items():
                if amount < min(room[name], request.needed.get(kind, {}).get(name, 0)):
                    notes.append(f"{provider.name} has {capacity[name]} {name} left in {SCHEDULER[kind]}")
            places[uuid] = Place(kind, provider.name, rack, service.zone if service else zone, capacity, aggregates)
    return Places(places, tuple(sorted(notes)))


def _own_classes(provider: Provider, prefix: str) -> list[str]:
    """The resource classes with the prefix, without it."""
    return [name.removeprefix(prefix) for name in provider.capacity if name.startswith(prefix)]


def _kind(provider: Provider, prefix: str) -> Kind:
    return "server" if prefix + SERVERS in provider.capacity else "volume"


def _count_left(
    placement: Placement, request: PlaceRequest, provider: Provider, service: PlaceService | None
) -> Mapping[str, int]:
    """The remaining capacity of a place according to Nova or Cinder, by resource class without prefix."""
    kind, promises = _kind(provider, request.prefix), request.promises.get(provider.uuid, ())
    needed = request.needed.get(kind, {})
    if kind == "volume":
        return count_left(service.left if service else {}, promises, needed, Counter)
    left = {name: amount - provider.used.get(name, 0) for name, amount in provider.capacity.items()}
    return count_left(left, promises, needed, partial(placement.servers, provider.uuid))


def _compare(service: PlaceService | None, zone: str, scheduler: str) -> str:
    """Why a provider is not a place, according to its service and the zone of its traits or rows."""
    if service is None:
        return f"is not known to {scheduler}"
    if zone and zone.casefold() != service.zone.casefold():
        return f"is in zone {service.zone} for {scheduler}, and not in {zone}"
    return service.problem


def read_places(file: str) -> list[dict[str, str]]:
    """Read the rows of a file. Errors: OSError, ValueError."""
    rows = [json.loads(line) for line in Path(check_path(file)).read_text().splitlines()] if file else []
    for row in rows:
        valid = (
            isinstance(row, dict) and not row.keys() - FIELDS and all(isinstance(text, str) for text in row.values())
        )
        if not valid or ("provider" in row) == ("aggregate" in row):
            raise ValueError(f"{Path(file).name}: this is not a place: {json.dumps(row)}")
    return rows


def _locate(
    provider: Provider, rows: Collection[Mapping[str, str]], members: Mapping[str, frozenset[str]]
) -> tuple[str, str, tuple[str, ...]]:
    """The rack and the zone of a provider, and the names of its aggregates."""
    rack, zone = _read_trait(provider.traits, RACK_TRAIT), _read_trait(provider.traits, ZONE_TRAIT)
    aggregates = set()
    for row in rows:
        if row.get("provider") == provider.name or provider.uuid in members.get(row.get("aggregate", ""), ()):
            rack, zone = row.get("rack", rack), row.get("zone", zone)
            if "aggregate" in row:
                aggregates.add(row.get("name", row["aggregate"]))
    return rack, zone, tuple(sorted(aggregates))


def _read_trait(traits: Collection[str], prefix: str) -> str:
    """The rest of the only trait with the prefix, in lower case; empty if there are none or several."""
    names = [trait.removeprefix(prefix).lower() for trait in traits if trait.startswith(prefix)]
    return names[0] if len(names) == 1 else ""
