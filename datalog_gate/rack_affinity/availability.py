"""What Nova and Cinder say of hosts and pools, and have left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from typing import Any

from datalog_gate.base.records import dataclass
from datalog_gate.rack_affinity.demand import VOLUMES
from datalog_gate.rack_affinity.problem import Kind
from datalog_gate.services.claims import PlacementClaim
from datalog_gate.services.placement import Placement, Provider

SCHEDULER: Mapping[Kind, str] = {"server": "Nova", "volume": "Cinder"}


@dataclass(frozen=True, slots=True)
class PlaceService:
    """A compute service, or a backend of volumes with the gigabytes that its pools have left, if that is known."""

    zone: str
    problem: str
    """Why nothing can go there now; empty if all is well."""
    left: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Promise:
    """What a claim holds for one item at a place. `own` if the decision to come replaces it, `built` if the stack was
    complete with it."""

    project: str
    own: bool
    built: bool
    amounts: Mapping[str, int]


def find_services(
    placement: Placement, providers: Mapping[str, Provider], kind: Kind
) -> dict[str, PlaceService] | None:
    """Find the service of each host or pool, by uuid of the provider; None if nobody can be asked. A provider without
    one is left out. Errors: UnavailableError."""
    if placement.nova is None or placement.cinder is None:
        return None
    api, binary = (placement.nova, "nova-compute") if kind == "server" else (placement.cinder, "cinder-volume")
    services = {
        host: PlaceService(row["zone"], _problem(row, SCHEDULER[kind]))
        for row in api.recent(f"/os-services?binary={binary}")["services"]
        for host in {row["host"], row.get("cluster") or row["host"]}
    }
    if kind == "volume":
        pools = api.recent("/scheduler-stats/get_pools?detail=true")["pools"]
        left = {pool["name"]: read_left(pool["capabilities"]) for pool in pools}
        return {
            uuid: PlaceService(services[backend].zone, services[backend].problem, _sum_left(left, provider.name))
            for uuid, provider in providers.items()
            if (backend := provider.name.partition("#")[0]) in services
            and any(provider.name in (name, name.partition("#")[0]) for name in left)
        }
    hosts = {uuid: provider.name for uuid, provider in providers.items()}
    if not services.keys() >= set(hosts.values()):  # the name of a hypervisor is not that of its service
        rows = api.recent("/os-hypervisors/detail")["hypervisors"]
        hosts |= {row["id"]: row["service"]["host"] for row in rows if row["id"] in hosts}
    return {uuid: services[host] for uuid, host in hosts.items() if host in services}


def read_left(capabilities: Mapping[str, Any]) -> int | None:
    """The gigabytes that a pool has left for volumes, as Cinder's CapacityFilter counts them; None without a limit."""
    total, free = capabilities.get("total_capacity_gb"), capabilities.get("free_capacity_gb")
    if not isinstance(total, int | float) or not isinstance(free, int | float):
        return None  # infinite or unknown
    reserved = total * float(capabilities.get("reserved_percentage") or 0) / 100
    ratio = float(capabilities.get("max_over_subscription_ratio") or 1)
    thin = capabilities.get("thin_provisioning_support") in (True, "True") and ratio >= 1
    if thin:
        return int((total - reserved) * ratio - float(capabilities.get("provisioned_capacity_gb") or 0))
    return int(free - reserved)


def count_left(
    left: Mapping[str, int],
    promises: Collection[Promise],
    needed: Mapping[str, int],
    count_servers: Callable[[], Counter[str]],
) -> dict[str, int]:
    """What is left of `left` beside what was promised and is not built yet, and with what own promises give back.

    Nobody tells which server is that of which claim: of the servers that a project has at the place, `count_servers`,
    as many count as built as it was promised there. They are counted only if as much as is `needed` might not be left.
    """
    result, servers = dict(left), Counter[str]()
    unbuilt: Counter[str] = Counter()
    for promise in promises:
        unbuilt.update({} if promise.built else promise.amounts)
    if any(unbuilt[name] and left[name] - unbuilt[name] < needed.get(name, 0) for name in left):
        servers = count_servers()
        servers.subtract(promise.project for promise in promises if promise.built)
    for promise in sorted(promises, key=lambda promise: (not promise.own, sum(promise.amounts.values()))):
        built = promise.built or servers[promise.project] > 0
        if built and not promise.built:
            servers[promise.project] -= 1
        sign = {(True, True): 1, (False, False): -1}.get((promise.own, built), 0)
        for name in result.keys() & promise.amounts.keys():
            result[name] += sign * promise.amounts[name]
    return result


def find_promises(
    claims: Iterable[PlacementClaim], consumer: str, lines: Collection[str], prefix: str
) -> dict[str, list[Promise]]:
    """Find what claims promise of the resource classes with this prefix, by uuid of the provider. Those of a consumer
    in these lines are own. What an item takes in several claims of a stack counts once."""
    promises: dict[tuple[str, str, str], Promise] = {}
    for claim in claims:
        own, built = claim.consumer == consumer and claim.line in lines, claim.state == "built"
        for item, takes in claim.items.items():
            for uuid in {uuid for uuid, name, _ in takes if name.startswith(prefix)}:
                amounts = {name.removeprefix(prefix): units for place, name, units in takes if place == uuid}
                key = claim.consumer, item, uuid
                other = promises.get(key, Promise(claim.project, True, False, amounts))
                promises[key] = Promise(claim.project, own and other.own, built or other.built, amounts)
    by_place: dict[str, list[Promise]] = {}
    for (_, _, uuid), promise in promises.items():
        by_place.setdefault(uuid, []).append(promise)
    return by_place


def sum_own(promises: Iterable[Promise]) -> Counter[str]:
    """What own promises hold together."""
    own: Counter[str] = Counter()
    for promise in promises:
        own.update(promise.amounts if promise.own else {})
    return own


def _problem(row: Mapping[str, Any], scheduler: str) -> str:
    if row["status"] != "enabled":
        return f"is disabled in {scheduler}"
    return "" if row["state"] == "up" else f"is down, says {scheduler}"


def _sum_left(left: Mapping[str, int | None], name: str) -> dict[str, int]:
    """What the pools of this name, or of the backend of this name, have left together."""
    amounts = [amount for pool, amount in left.items() if name in (pool, pool.partition("#")[0])]
    known: Iterable[int] = [amount for amount in amounts if amount is not None]
    return {VOLUMES: sum(known)} if None not in amounts else {}
