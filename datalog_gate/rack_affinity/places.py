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
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from datalog_gate.rack_affinity.demand import SERVERS, VOLUMES
from datalog_gate.rack_affinity.hints import RACK_TRAIT, ZONE_TRAIT
from datalog_gate.rack_affinity.problem import LARGEST, Kind, Place
from datalog_gate.services.placement import Amounts, Placement, Provider

FIELDS = {"provider", "aggregate", "name", "rack", "zone"}


def find_places(
    placement: Placement,
    rows: Collection[Mapping[str, str]],
    prefix: str,
    known: Collection[str],
    find_free: Callable[[Iterable[Provider]], Amounts],
) -> dict[str, Place]:
    """The places that Placement has now, with what is free of the resource classes with this prefix, by uuid of their
    provider. `known` holds uuids of providers that may have nothing left. Errors: UnavailableError."""
    providers = {**placement.providers(prefix + VOLUMES), **placement.providers(prefix + SERVERS)}
    for uuid in sorted(set(known) - providers.keys()):
        if provider := placement.provider(uuid):
            providers[uuid] = provider
    members = {row["aggregate"]: placement.members(row["aggregate"]) for row in rows if "aggregate" in row}
    free = find_free(providers.values())
    places: dict[str, Place] = {}
    for uuid, provider in providers.items():
        kind: Kind = "server" if prefix + SERVERS in provider.capacity else "volume"
        capacity = {
            name.removeprefix(prefix): min(max(0, free[uuid, name]), LARGEST)
            for name in provider.capacity
            if name.startswith(prefix)
        }
        rack, zone, aggregates = _locate(provider, rows, members)
        if rack:
            places[uuid] = Place(kind, provider.name, rack, zone, capacity, aggregates)
    return places


def read_places(file: str) -> list[dict[str, str]]:
    """Read the rows of a file. Errors: OSError, ValueError."""
    rows = [json.loads(line) for line in Path(file).read_text().splitlines()] if file else []
    for row in rows:
        valid = (
            isinstance(row, dict) and not row.keys() - FIELDS and all(isinstance(text, str) for text in row.values())
        )
        if not valid or ("provider" in row) == ("aggregate" in row):
            raise ValueError(f"{Path(file).name}: this is no place: {json.dumps(row)}")
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
    """The rest of the only trait with the prefix, in small letters; empty if there are none or several."""
    names = [trait.removeprefix(prefix).lower() for trait in traits if trait.startswith(prefix)]
    return names[0] if len(names) == 1 else ""
