"""What Nova and Cinder have left, and what claims promise of it."""

from __future__ import annotations

from collections import Counter
from typing import Any, NoReturn

import pytest

from datalog_gate.rack_affinity.availability import (
    PlaceService,
    Promise,
    count_left,
    find_promises,
    find_services,
    read_left,
    sum_own,
)
from datalog_gate.rack_affinity.service import unsteered
from datalog_gate.services.claims import PlacementClaim
from datalog_gate.services.placement import Provider


class Answers:
    """An API that answers from a table."""

    def __init__(self, **bodies: Any) -> None:
        self.bodies = bodies

    def recent(self, path: str) -> Any:
        return self.bodies[path.strip("/").partition("?")[0].replace("/", "_").replace("-", "_")]


class Apis:
    """Placement's neighbours, as `find_services` asks them."""

    def __init__(self, nova: Answers | None, cinder: Answers | None) -> None:
        self.nova, self.cinder = nova, cinder


def row(host: str, zone: str, **more: str) -> dict[str, str]:
    return {"host": host, "zone": zone, "status": "enabled", "state": "up", **more}


def providers(**names: str) -> dict[str, Provider]:
    return {uuid: Provider(uuid, name, {}, {}, frozenset()) for uuid, name in names.items()}


SERVICES = [row("h1", "az1"), row("h2", "az2", status="disabled"), row("h3", "az2", state="down")]
POOLS = [
    {"name": "c@b#p", "capabilities": {"total_capacity_gb": 100, "free_capacity_gb": 40, "reserved_percentage": 10}},
    {"name": "c@b#q", "capabilities": {"total_capacity_gb": 100, "free_capacity_gb": 7}},
    {"name": "d@b#p", "capabilities": {"total_capacity_gb": "infinite", "free_capacity_gb": "infinite"}},
]


def test_hosts_have_the_zone_of_their_service_and_say_why_nothing_goes_there() -> None:
    nova = Answers(
        os_services={"services": SERVICES},
        os_hypervisors_detail={"hypervisors": [{"id": "u3", "service": {"host": "h3"}}]},
    )
    hosts = providers(u1="h1", u2="h2", u3="h3.example", u4="elsewhere")
    apis: Any = Apis(nova, Answers())
    assert find_services(apis, hosts, "server") == {
        "u1": PlaceService("az1", ""),
        "u2": PlaceService("az2", "is disabled in Nova"),
        "u3": PlaceService("az2", "is down, says Nova"),
    }


def test_pools_have_the_zone_of_their_backend_and_what_is_left() -> None:
    rows = [row("c@b", "az1"), row("x@b", "az2", cluster="d@b")]
    cinder = Answers(os_services={"services": rows}, scheduler_stats_get_pools={"pools": POOLS})
    pools = providers(u1="c@b#p", u2="c@b", u3="d@b#p", u4="c@b#none", u5="e@b")
    apis: Any = Apis(Answers(), cinder)
    assert find_services(apis, pools, "volume") == {
        "u1": PlaceService("az1", "", {"DISK_GB": 30}),
        "u2": PlaceService("az1", "", {"DISK_GB": 37}),
        "u3": PlaceService("az2", ""),
    }


def test_without_keystone_no_request_is_sent() -> None:
    apis: Any = Apis(None, None)
    assert find_services(apis, {}, "server") is None


@pytest.mark.parametrize(
    ("capabilities", "left"),
    [
        ({}, None),
        ({"total_capacity_gb": 100, "free_capacity_gb": "unknown"}, None),
        ({"total_capacity_gb": 100, "free_capacity_gb": 50.5, "reserved_percentage": 20}, 30),
        (
            {
                "total_capacity_gb": 100,
                "free_capacity_gb": 50,
                "reserved_percentage": 20,
                "thin_provisioning_support": True,
                "max_over_subscription_ratio": "2.0",
                "provisioned_capacity_gb": 150,
            },
            10,
        ),
    ],
)
def test_a_pool_has_left_what_cinder_would_still_put_there(capabilities: dict[str, Any], left: int | None) -> None:
    assert read_left(capabilities) == left


def promise(project: str = "p", own: bool = False, built: bool = False, vcpu: int = 2) -> Promise:
    return Promise(project, own, built, {"VCPU": vcpu})


LEFT: dict[str, tuple[list[Promise], dict[str, int], int]] = {
    "nothing promised": ([], {}, 10),
    "what is built is used already": ([promise(built=True)], {}, 10),
    "what is not built will be used": ([promise()], {}, 8),
    "what its project has there counts as built": ([promise()], {"p": 1}, 10),
    "but no more than there is": ([promise(), promise(vcpu=3)], {"p": 1}, 7),
    "nor that of another project": ([promise()], {"q": 5}, 8),
    "nor what is built for certain": ([promise(built=True), promise()], {"p": 1}, 8),
    "own servers give back what they take": ([promise(own=True, built=True)], {}, 12),
    "own promises alone take nothing": ([promise(own=True)], {}, 10),
    "own servers are built first": ([promise(), promise(own=True, vcpu=4)], {"p": 1}, 12),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_counts_each_server_once(name: str) -> None:
    promises, servers, left = LEFT[name]
    assert count_left({"VCPU": 10, "DISK_GB": 1}, promises, {"VCPU": 10}, lambda: Counter(servers)) == {
        "VCPU": left,
        "DISK_GB": 1,
    }


def test_servers_are_counted_only_if_it_matters() -> None:
    def count() -> NoReturn:
        raise AssertionError

    assert count_left({"VCPU": 10}, [promise()], {"VCPU": 8}, count) == {"VCPU": 8}


def claim(state: Any, line: str, consumer: str = "c", **items: Any) -> PlacementClaim:
    return PlacementClaim(key=f"{line}{state}", consumer=consumer, line=line, project="p", items=items, state=state)


def test_promises_are_read_from_claims_and_what_a_stack_shares_is_one() -> None:
    taken = [("u1", "CUSTOM_GATE_VCPU", 2), ("u1", "CUSTOM_GATE_MEMORY_MB", 512)]
    claims = [
        claim("built", "l1", db=taken),
        claim("held", "l1", db=taken, web=[("u2", "CUSTOM_GATE_VCPU", 1)]),
        claim("held", "l2", web=[("u2", "CUSTOM_GATE_VCPU", 1)]),
        claim("held", "l1", "other", seat=[("u2", "CUSTOM_LICENSE_X", 1)]),
    ]
    promises = find_promises(claims, "c", ["l1"], "CUSTOM_GATE_")
    assert promises == {
        "u1": [Promise("p", True, True, {"VCPU": 2, "MEMORY_MB": 512})],
        "u2": [Promise("p", False, False, {"VCPU": 1})],
    }
    assert [sum_own(promises[uuid]) for uuid in ("u1", "u2")] == [{"VCPU": 2, "MEMORY_MB": 512}, {}]


def test_a_place_without_steering_is_reported_with_a_fix() -> None:
    assert unsteered("server", "az1", "rack", ["r1", "r2"]) == (
        "the zone az1 has the racks r1, r2, and nothing places a server in the right one: the operator must make "
        "a zone of "
        "each rack, or install the filters for schedulers and set rack_affinity.steering=hint"
    )
