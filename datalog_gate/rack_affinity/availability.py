"""The state and free capacity of hosts and pools in OpenStack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from datalog_gate.base.records import dataclass, field
from datalog_gate.rack_affinity.demand import VOLUMES
from datalog_gate.rack_affinity.problem import Kind
from datalog_gate.services.claims import PlacementClaim
from datalog_gate.services.placement import Placement, Provider

SCHEDULER: Mapping[Kind, str] = {"server": "Nova", "volume": "Cinder"}


@dataclass(frozen=True, slots=True)
class PlaceService:
    """A compute service, or a volume backend with the free gigabytes of its pools, if known."""

    zone: str
    problem: str
    """Why nothing can be placed there now; empty otherwise."""
    left: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Promise:
    """The reservation of a claim for one item at a place. `own` if the coming decision replaces it, `built` if the
    stack was complete with it."""

    project: str
    own: bool
    built: bool
    amounts: Mapping[str, int]


def find_services(
    placement: Placement, providers: Mapping[str, Provider], kind: Kind
) -> dict[str, PlaceService] | None:
    """Find the service of each host or pool, by uuid of the provider; None if no API is available. Providers without
    one are left out. Errors: UnavailableError."""
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
    if not services.keys() >= set(hosts.values()):  # a hypervisor and its service have different names
        rows = api.recent("/os-hypervisors/detail")["hypervisors"]
        hosts |= {row["id"]: row["service"]["host"] for row in rows if row["id"] in hosts}
    return {uuid: services[host] for uuid, host in hosts.items() if host in services}


def read_left(capabilities: Mapping[str, Any]) -> int | None:
    """The free gigabytes of a pool, counted as in Cinder's CapacityFilter; None without a limit."""
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
    """Compute the remaining part of `left`: without promises that are not built yet, and with own promises returned.

    It is not known which server belongs to which claim. So of the servers of a project at the place (`count_servers`),
    as many count as built as were promised there. They are counted only if less than `needed` might be left.
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
        if promise.own != built:
            continue
        sign = 1 if built else -1
        for name in result.keys() & promise.amounts.keys():
            result[name] += sign * promise.amounts[name]
    return result


def find_promises(
    claims: Iterable[PlacementClaim], consumer: str, lines: Collection[str], prefix: str
) -> dict[str, list[Promise]]:
    """Find the promises of claims for resource classes with this prefix, by uuid of the provider. Those of a consumer
    in these lines are own. An item in several claims of a stack counts once."""
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
    """The sum of own promises."""
    own: Counter[str] = Counter()
    for promise in promises:
        own.update(promise.amounts if promise.own else {})
    return own


def _problem(row: Mapping[str, Any], scheduler: str) -> str:
    if row["status"] != "enabled":
        return f"is disabled in {scheduler}"
    return "" if row["state"] == "up" else f"is down, says {scheduler}"


def _sum_left(left: Mapping[str, int | None], name: str) -> dict[str, int]:
    """The free gigabytes of the pools with this name, or of this backend, together."""
    amounts = [amount for pool, amount in left.items() if name in (pool, pool.partition("#")[0])]
    known: Iterable[int] = [amount for amount in amounts if amount is not None]
    return {VOLUMES: sum(known)} if None not in amounts else {}
