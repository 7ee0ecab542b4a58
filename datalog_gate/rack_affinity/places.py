"""Where servers and volumes can be (layer 5): in, the providers of Placement, and what a file says of them; out, hosts
and storage pools with their racks and zones.

A provider that has an inventory of the class for VCPU is a host, any other that has one for DISK_GB a storage pool. Its
rack and zone are those of its traits CUSTOM_RACK_R1 and CUSTOM_ZONE_AZ1, in small letters: r1 and az1. The file has one
JSON object a line, of which the last one counts:

    {"provider": "compute-1", "rack": "R 1", "zone": "az1"}
    {"aggregate": "8d3c..", "name": "ssd", "rack": "r2", "zone": "az2"}

by the name of a provider, or for all in an aggregate of Placement. A provider in no rack is no place; all that are in
no zone are in one.
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
class Where:
    """Where a provider stands."""

    provider: Provider
    rack: str
    zone: str
    aggregates: tuple[str, ...]


class Places:
    """The providers, as Placement has them now: `where` they stand by uuid, and the `uuids` of places. `prefix` is that
    of our resource classes, `known` the uuids of those that may have nothing left. Errors: UnavailableError."""

    def __init__(
        self, placement: Placement, rows: Collection[Mapping[str, str]], prefix: str, known: Collection[str]
    ) -> None:
        providers = {**placement.providers(prefix + VOLUMES), **placement.providers(prefix + SERVERS)}
        for uuid in sorted(set(known) - providers.keys()):
            if provider := placement.provider(uuid):
                providers[uuid] = provider
        members = {row["aggregate"]: placement.members(row["aggregate"]) for row in rows if "aggregate" in row}
        self._prefix = prefix
        self.where: dict[str, Where] = {}
        self.uuids: dict[tuple[Kind, str], str] = {}
        for provider in providers.values():
            rack, zone = (_trait(provider.traits, of) for of in (RACK, ZONE))
            aggregates = []
            for row in rows:
                if row.get("provider") == provider.name or provider.uuid in members.get(row.get("aggregate", ""), ()):
                    rack, zone = row.get("rack", rack), row.get("zone", zone)
                    aggregates += [row.get("name", row["aggregate"])] if "aggregate" in row else []
            if rack:
                self.where[provider.uuid] = Where(provider, rack, zone, tuple(sorted(set(aggregates))))
                self.uuids[self._kind(provider), provider.name] = provider.uuid

    @property
    def providers(self) -> list[Provider]:
        """Those that are places."""
        return [one.provider for one in self.where.values()]

    def places(self, free: Amounts) -> Iterator[Place]:
        """With what is free."""
        for uuid, one in self.where.items():
            capacity = {
                name.removeprefix(self._prefix): min(max(0, free[uuid, name]), LARGEST)
                for name in one.provider.capacity
                if name.startswith(self._prefix)
            }
            yield Place(self._kind(one.provider), one.provider.name, one.rack, one.zone, capacity)

    def _kind(self, provider: Provider) -> Kind:
        return "server" if self._prefix + SERVERS in provider.capacity else "volume"


def read_places(file: str) -> list[dict[str, str]]:
    """The rows of a file. Errors: OSError, and ValueError."""
    rows = [json.loads(line) for line in Path(file).read_text().splitlines()] if file else []
    for row in rows:
        right = isinstance(row, dict) and not row.keys() - FIELDS and all(isinstance(one, str) for one in row.values())
        if not right or ("provider" in row) == ("aggregate" in row):
            raise ValueError(f"{Path(file).name}: this is no place: {json.dumps(row)}")
    return rows


def _trait(traits: Collection[str], prefix: str) -> str:
    """What the one trait with the prefix says."""
    found = [trait.removeprefix(prefix).lower() for trait in traits if trait.startswith(prefix)]
    return found[0] if len(found) == 1 else ""
