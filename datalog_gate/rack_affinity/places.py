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
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from datalog_gate.rack_affinity.demand import SERVERS, VOLUMES
from datalog_gate.rack_affinity.problem import LARGEST, Kind, Place
from datalog_gate.services.placement import Amounts, Placement, Provider

RACK, ZONE = "CUSTOM_RACK_", "CUSTOM_ZONE_"
FIELDS = {"provider", "aggregate", "name", "rack", "zone"}


@dataclass(frozen=True, slots=True)
class Location:
    """The location of a provider, with the names of its aggregates."""

    provider: Provider
    rack: str
    zone: str
    aggregates: tuple[str, ...]


class Places:
    """The places that Placement has now: `locations` by uuid of a provider, and `uuids` by kind and name. `prefix` is
    that of the service's resource classes, `known` holds uuids of providers that may have nothing left. Errors:
    UnavailableError."""

    def __init__(
        self, placement: Placement, rows: Collection[Mapping[str, str]], prefix: str, known: Collection[str]
    ) -> None:
        providers = {**placement.providers(prefix + VOLUMES), **placement.providers(prefix + SERVERS)}
        for uuid in sorted(set(known) - providers.keys()):
            if provider := placement.provider(uuid):
                providers[uuid] = provider
        members = {row["aggregate"]: placement.members(row["aggregate"]) for row in rows if "aggregate" in row}
        self._prefix = prefix
        self.locations: dict[str, Location] = {}
        self.uuids: dict[tuple[Kind, str], str] = {}
        for provider in providers.values():
            location = _locate(provider, rows, members)
            if location.rack:
                self.locations[provider.uuid] = location
                self.uuids[self._kind(provider), provider.name] = provider.uuid

    @property
    def providers(self) -> list[Provider]:
        return [location.provider for location in self.locations.values()]

    def places(self, free: Amounts) -> Iterator[Place]:
        """The places with what is free of our resource classes."""
        for uuid, location in self.locations.items():
            provider = location.provider
            capacity = {
                name.removeprefix(self._prefix): min(max(0, free[uuid, name]), LARGEST)
                for name in provider.capacity
                if name.startswith(self._prefix)
            }
            yield Place(self._kind(provider), provider.name, location.rack, location.zone, capacity)

    def _kind(self, provider: Provider) -> Kind:
        return "server" if self._prefix + SERVERS in provider.capacity else "volume"


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


def _locate(provider: Provider, rows: Collection[Mapping[str, str]], members: Mapping[str, frozenset[str]]) -> Location:
    rack, zone = _read_trait(provider.traits, RACK), _read_trait(provider.traits, ZONE)
    aggregates = set()
    for row in rows:
        if row.get("provider") == provider.name or provider.uuid in members.get(row.get("aggregate", ""), ()):
            rack, zone = row.get("rack", rack), row.get("zone", zone)
            if "aggregate" in row:
                aggregates.add(row.get("name", row["aggregate"]))
    return Location(provider, rack, zone, tuple(sorted(aggregates)))


def _read_trait(traits: Collection[str], prefix: str) -> str:
    """The rest of the only trait with the prefix, in small letters; empty if there are none or several."""
    names = [trait.removeprefix(prefix).lower() for trait in traits if trait.startswith(prefix)]
    return names[0] if len(names) == 1 else ""
