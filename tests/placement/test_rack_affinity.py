"""The service `rack_affinity` with a real Placement."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

import pytest

from datalog_gate.plugins.plugin_errors import RefusedError
from datalog_gate.rack_affinity.service import RackAffinity
from datalog_gate.services.conformance import claim_of
from datalog_gate.services.contract import Request
from datalog_gate.services.parts import Part
from tests.expressions import worded
from tests.placement.rig import Cloud

CONSUMER = str(uuid5(NAMESPACE_URL, '["rack_affinity", "p", "id"]'))
TYPES = {"s": "OS::Nova::Server", "v": "OS::Cinder::Volume", "g": "OS::Heat::ResourceGroup"}


class Racks:
    """Racks of a test's own: hosts and pools in classes of its own, and the service."""

    def __init__(self, cloud: Cloud, folder: Path, hosts: str, pools: str = "", **settings: str) -> None:
        """`hosts` are ``h1/r1/z1/4`` with their VCPU, `pools` likewise with their gigabytes."""
        self.cloud, self.folder, self.prefix = cloud, folder, f"CUSTOM_T{uuid4().hex.upper()}_"
        self.uuids: dict[str, str] = {}
        for name, text in (("VCPU", hosts), ("DISK_GB", pools)):
            for host, rack, zone, amount in (word.split("/") for word in text.split()):
                traits = [f"CUSTOM_RACK_{rack.upper()}", *([f"CUSTOM_ZONE_{zone.upper()}"] if zone else [])]
                uuid = cloud.provider(f"{host}-{self.prefix}", {self.prefix + name: int(amount)}, *traits)
                self.uuids[host] = uuid
        self.settings = {
            "endpoint": cloud.url,
            "prefix": self.prefix,
            "store": str(folder / "claims"),
            "steering": "hint",
        }
        self.settings |= settings
        self.service = RackAffinity(self.settings)

    def place(self, host: str, rack: str, zone: str | None) -> dict[str, object]:
        """A decision for one resource."""
        return {
            "availability_zone": zone,
            "rack": rack,
            "host": f"{host}-{self.prefix}",
            "aggregates": [],
            "scheduler_hints": {
                "rack": rack,
                "datalog_gate_claim": CONSUMER,
                "datalog_gate_host": f"{host}-{self.prefix}",
            },
        }

    @property
    def used(self) -> dict[str, int]:
        """What is taken of each provider that anything is taken of."""
        used = {name: sum(self.cloud.used(uuid).values()) for name, uuid in self.uuids.items()}
        return {name: amount for name, amount in used.items() if amount}


def part(id_: str, **properties: Any) -> Part:
    """A resource whose kind its name begins with, in the stack `w`."""
    kind = TYPES[id_.rpartition("/")[2][0]] if not id_.rpartition("/")[2].isdecimal() else TYPES["s"]
    opened = properties.pop("open", False)
    return Part(f"w/{id_}", kind, properties, None, frozenset(), False, opened)


def make_request(
    uuid: str, scope: str, name: str = "grant", replaces: tuple[Request, ...] = (), **options: Any
) -> Request:
    """A request for resources, ``v1:10`` with the size of a volume or ``s1:small`` with the flavor of a server."""
    parts = []
    for word in scope.split():
        id_, _, size = word.partition(":")
        parts.append(part(id_, **({"size": int(size)} if size.isdecimal() else {"flavor": size} if size else {})))
    return Request(
        service="rack_affinity", project="p", stack="id", stack_name="w", grant=f"w/{name}", uuid=uuid,
        options=options, scope=tuple(parts), replaces=tuple(old.key for old in replaces),
    )  # fmt: skip


def together(*all_: Request) -> list[Request]:
    return [replace(request, together=tuple(other for other in all_ if other is not request)) for request in all_]


def refused(racks: Racks, request: Request) -> str:
    """Why, at the door and after."""
    reasons = set()
    for ask in (racks.service.facts, racks.service.reserve):
        with pytest.raises(RefusedError) as error:
            ask(request)
        reasons.add(error.value.reason)
    return " / ".join(sorted(reasons))


def test_a_server_and_its_volume_share_a_rack_and_are_claimed_until_released(cloud: Cloud, tmp_path: Path) -> None:
    racks = Racks(cloud, tmp_path, "h1/r1/z1/4 h2/r2/z2/4", "p2/r2/z2/100")
    request = make_request("u", "s v:10", same="rack")
    expected = {"s": racks.place("h2", "r2", "z2"), "v": racks.place("p2", "r2", "z2")}
    racks.service.facts(request)
    assert racks.used == {}
    assert [racks.service.reserve(request) for _ in range(2)] == [expected] * 2
    assert (racks.used, racks.service.status(claim_of(request))) == ({"h2": 1, "p2": 10}, "held")
    racks.service.release(claim_of(request))
    assert racks.used == {}


def test_members_of_a_group_are_spread_and_read_by_index(cloud: Cloud, tmp_path: Path) -> None:
    racks = Racks(cloud, tmp_path, "h1/r1//9 h2/r2//9 h3/r3//1")
    request = make_request("u", "g g/0 g/1 g/2", spread={"level": "rack", "at_least": 3})
    decision = racks.service.reserve(request)
    assert sorted(json.dumps(place) for place in decision.values()) == [
        json.dumps(racks.place(f"h{at}", f"r{at}", None)) for at in (1, 2, 3)
    ]
    assert (sorted(decision), racks.used) == (["g.0", "g.1", "g.2"], {"h1": 1, "h2": 1, "h3": 1})


def test_what_is_impossible_is_refused_with_what_can_not_be_had_together(cloud: Cloud, tmp_path: Path) -> None:
    racks = Racks(cloud, tmp_path, "h1/r1/z1/4", "p2/r2/z2/100")
    assert refused(racks, make_request("u", "s v:10", same="rack")) == (
        "these are not possible together: same: rack of grant w/grant over w/s, w/v; "
        "rack r2 has no host with free capacity; rack r1 has no storage pool with free capacity"
    )
    assert racks.used == {}


def test_a_zone_with_several_racks_is_refused_where_nothing_leads_to_one(cloud: Cloud, tmp_path: Path) -> None:
    racks = Racks(cloud, tmp_path, "h1/r1/z1/4 h2/r2/z1/4 h3/r3/z2/4", steering="zone")
    assert refused(racks, make_request("u", "s", same="rack")) == (
        "the zone z1 has the racks r1, r2, and nothing places a server in the right one: the operator must make "
        "a zone of "
        "each rack, or install the filters for schedulers and set rack_affinity.steering=hint"
    )
    assert racks.used == {}
    decision = racks.service.reserve(make_request("u", "s", same="zone"))  # to which the zone leads
    assert decision["s"]["scheduler_hints"] == {"rack": decision["s"]["rack"]}


def test_a_full_rack_is_refused_by_its_name(cloud: Cloud, tmp_path: Path) -> None:
    racks = Racks(cloud, tmp_path, "h1/r1/z1/4 h2/r2/z1/1")
    racks.service.reserve(make_request("u", "s", spread={"level": "rack", "at_least": 1}))
    racks.service.reserve(replace(make_request("u2", "s1 s2 s3", same="rack"), stack="id2"))
    taken = {"h1": 3, "h2": 1} if racks.used.get("h2") else {"h1": 4}
    assert racks.used == taken
    request = replace(make_request("u3", "s1 s2", spread={"level": "rack", "at_least": 2}), stack="id3")
    full = "r2" if "h2" in taken else "r1"
    assert f"VCPU of the hosts in rack {full}: 0 free, at most 0 on one" in refused(racks, request)


def test_a_host_that_nova_filled_itself_is_refused_by_its_name(cloud: Cloud, tmp_path: Path) -> None:
    racks = Racks(cloud, tmp_path, "")
    name, free = f"h1-{racks.prefix}", {f"{racks.prefix}VCPU": 9, "VCPU": 4, "MEMORY_MB": 4096}
    racks.uuids["h1"] = cloud.provider(name, free, "CUSTOM_RACK_R1")
    plain, granted = str(uuid4()), str(uuid4())
    nova(cloud, plain, "other", racks.uuids["h1"], 1)
    assert racks.service.reserve(make_request("u", "s1 s2", same="rack")).keys() == {"s1", "s2"}
    nova(cloud, granted, "p", racks.uuids["h1"], 1)  # s1 is built and s2 is not: one of four is left
    larger = replace(make_request("u2", "s3 s4", same="rack"), stack="id2")
    assert refused(racks, larger) == (
        "these are not possible together: VCPU of the hosts in rack r1: 1 free, at most 1 on one; VCPU 1 for w/s3; "
        f"VCPU 1 for w/s4; {name} has 1 VCPU left in Nova"
    )
    racks.service.reserve(replace(make_request("u3", "s3", same="rack"), stack="id3"))


def test_what_is_elsewhere_than_decided_is_named(cloud: Cloud, tmp_path: Path) -> None:
    racks = Racks(cloud, tmp_path, "")
    for host in ("h1", "h2"):
        free = {f"{racks.prefix}VCPU": 2, "VCPU": 4, "MEMORY_MB": 4096}
        racks.uuids[host] = cloud.provider(f"{host}-{racks.prefix}", free, f"CUSTOM_RACK_{host.upper()}")
    request = make_request("u", "s1 s2", spread={"level": "host", "at_least": 2})
    racks.service.reserve(request)
    servers = [str(uuid4()) for _ in range(3)]
    members = dict.fromkeys(servers, "OS::Nova::Server") | {str(uuid4()): "OS::Neutron::Port"}
    for server, host in zip(servers, ("h1", "h1", "h2"), strict=True):
        nova(cloud, server, "p", racks.uuids[host], 1)
    held = claim_of(request)
    racks.service.commit(held)
    assert (racks.service.status(held), racks.service.misplaced(held, members)) == ("held", [])
    del members[servers[2]]
    assert racks.service.misplaced(held, members) == [
        f"1 server of those granted on h2-{racks.prefix} is not there, and the stack has others on h1-{racks.prefix}"
    ]
    assert sorted(racks.service.misplaced(held, {})) == [
        f"1 server of those granted on {host}-{racks.prefix} is not there" for host in ("h1", "h2")
    ]
    racks.service.release(held)
    assert racks.service.misplaced(held, {}) == []


def nova(cloud: Cloud, server: str, project: str, provider: str, vcpu: int) -> None:
    """Allocate what Nova would for a server."""
    resources = {provider: {"resources": {"VCPU": vcpu, "MEMORY_MB": 512}}}
    cloud.ask("PUT", f"/allocations/{server}",
              {"allocations": resources, "project_id": project, "user_id": "u", "consumer_generation": None,
               "consumer_type": "INSTANCE"})  # fmt: skip


def test_files_say_what_flavors_take_and_where_providers_stand(cloud: Cloud, tmp_path: Path) -> None:
    aggregate = str(uuid4())
    flavors, places = tmp_path / "flavors", tmp_path / "places"
    flavors.write_text('{"flavor": "large", "VCPU": 3}\n')
    places.write_text("")
    racks = Racks(cloud, tmp_path, "h1/r1/z1/4 h2/r2/z1/2", flavors=str(flavors), places=str(places), hint="")
    cloud.ask("PUT", f"/resource_providers/{racks.uuids['h1']}/aggregates",
              {"aggregates": [aggregate], "resource_provider_generation": 2})  # fmt: skip
    rows = [{"aggregate": aggregate, "name": "ssd", "rack": "A 1"}, {"provider": f"h1-{racks.prefix}", "zone": "Zone"}]
    places.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert racks.service.reserve(make_request("u", "s1:large s2:any", same="rack")) == {
        name: {
            "availability_zone": "Zone", "rack": "A 1", "host": f"h1-{racks.prefix}", "aggregates": ["ssd"],
            "scheduler_hints": {"datalog_gate_claim": CONSUMER, "datalog_gate_host": f"h1-{racks.prefix}"},
        }
        for name in ("s1", "s2")
    }  # fmt: skip
    assert racks.used == {"h1": 4}


def test_all_grants_of_a_stack_are_solved_by_the_first_and_the_others_take_their_share(
    cloud: Cloud, tmp_path: Path
) -> None:
    racks = Racks(cloud, tmp_path, "h1/r1/z1/2 h2/r2/z2/9", "p1/r1/z1/9 p2/r2/z2/9")
    # alone the first would go to the emptier rack, in which there is no room then for the second
    small, large = together(
        make_request("u1", "s1 v1:2", "a", same="rack"), make_request("", "s2 v2:8", "b", same="rack")
    )
    racks.service.facts(small)
    racks.service.facts(large)
    first = racks.service.reserve(small)
    used = racks.used
    later = replace(large, uuid="u2")
    second = racks.service.reserve(later)
    racks_of = {name: place["rack"] for name, place in {**first, **second}.items()}
    assert racks_of["s1"] == racks_of["v1"] != racks_of["v2"] == racks_of["s2"]
    assert (racks.used, sum(used.values())) == (used, 12)
    racks.service.release(claim_of(small))
    assert sum(racks.used.values()) == 9
    assert racks.service.reserve(later) == second
    racks.service.release(claim_of(later))
    assert racks.used == {}


def test_an_unused_share_is_released_with_its_grant(cloud: Cloud, tmp_path: Path) -> None:
    racks = Racks(cloud, tmp_path, "h1/r1/z1/2")
    request, other = together(make_request("u1", "s1", "a"), make_request("", "s2", "b"))
    racks.service.reserve(request)
    assert racks.used == {"h1": 2}
    racks.service.release(claim_of(request))
    assert racks.used == {}
    racks.service.reserve(replace(other, uuid="u2", together=()))
    assert racks.used == {"h1": 1}


def test_one_that_asks_for_something_else_than_its_share_is_solved_beside_what_is_held(
    cloud: Cloud, tmp_path: Path
) -> None:
    racks = Racks(cloud, tmp_path, "h1/r1/z1/2 h2/r2/z1/9")
    request, other = together(make_request("u1", "s1", "a"), make_request("", "s2", "b"))
    first = racks.service.reserve(request)
    changed = replace(other, uuid="u2", scope=(part("s1"), part("s2")), options={"same": "rack"})
    changed = replace(changed, together=(request,))
    assert racks.service.reserve(changed) == {"s1": first["s1"], "s2": first["s1"]}
    assert sum(racks.used.values()) == 2
    racks.service.release(claim_of(request))
    assert sum(racks.used.values()) == 2  # the other one's scope has it too
    racks.service.release(claim_of(changed))
    assert racks.used == {}


def test_an_update_keeps_places_and_what_is_shared_until_the_last_is_released(cloud: Cloud, tmp_path: Path) -> None:
    racks = Racks(cloud, tmp_path, "h1/r1/z1/3 h2/r2/z1/1")
    first = make_request("u1", "s1 s2 s3", same="rack")
    decision = racks.service.reserve(first)
    second = make_request("u2", "s1 s2", replaces=(first,), same="rack")
    racks.service.facts(replace(second, uuid=""))
    assert racks.service.reserve(second) == {name: decision[name] for name in ("s1", "s2")}
    other = make_request("u3", "s4 s5 s6", replaces=(second, first), same="rack")  # others, in the room that these have
    assert racks.service.reserve(other) == dict.fromkeys(("s4", "s5", "s6"), decision["s1"])
    assert racks.used == {"h1": 3}
    racks.service.release(claim_of(other))
    assert (racks.used, racks.service.status(claim_of(first))) == ({"h1": 3}, "held")
    racks.service.release(claim_of(first))
    assert (racks.used, racks.service.status(claim_of(second))) == ({"h1": 2}, "held")
    racks.service.release(claim_of(second))
    assert racks.used == {}


def test_a_server_that_grows_stays_on_its_host_while_there_is_room(cloud: Cloud, tmp_path: Path) -> None:
    flavors, sizes = tmp_path / "flavors", {"small": 1, "large": 3, "huge": 4}
    flavors.write_text("".join(f'{{"flavor": "{name}", "VCPU": {vcpu}}}\n' for name, vcpu in sizes.items()))
    racks = Racks(cloud, tmp_path, "h1/r1/z1/6 h2/r2/z1/4", flavors=str(flavors))
    first = make_request("u1", "s:small", same="rack")
    assert racks.service.reserve(first) == {"s": racks.place("h1", "r1", "z1")}
    racks.service.reserve(replace(make_request("u2", "s:large", same="rack"), stack="id2"))
    assert racks.used == {"h1": 4}
    second = make_request("u3", "s:large", replaces=(first,), same="rack")
    assert racks.service.reserve(second) == {"s": racks.place("h1", "r1", "z1")}
    third = make_request("u4", "s:huge", replaces=(second, first), same="rack")
    assert racks.service.reserve(third) == {"s": racks.place("h2", "r2", "z1")}


def test_a_whole_stack_may_change_in_an_update_of_a_full_cloud(cloud: Cloud, tmp_path: Path) -> None:
    racks = Racks(cloud, tmp_path, "h1/r1/z1/2 h2/r2/z1/2")
    old = together(make_request("u1", "s1 s2", "a", same="rack"), make_request("u2", "s3 s4", "b", same="rack"))
    before = {name: place for request in old for name, place in racks.service.reserve(request).items()}
    new = together(
        make_request("u3", "s1 s5", "a", replaces=(old[0],), same="rack"),
        make_request("u4", "s3 s6", "b", replaces=(old[1],), same="rack"),
    )
    after = [racks.service.reserve(request) for request in new]
    assert after == [{"s1": before["s1"], "s5": before["s1"]}, {"s3": before["s3"], "s6": before["s3"]}]
    assert racks.used == {"h1": 2, "h2": 2}
    for request in (*old, *new):
        racks.service.release(claim_of(request))
    assert racks.used == {}


def test_grants_that_come_at_once_are_decided_on_once(cloud: Cloud, tmp_path: Path) -> None:
    racks = Racks(cloud, tmp_path, "h1/r1/z1/8 h2/r2/z1/8", "p1/r1/z1/8 p2/r2/z1/8")
    grants = together(*(make_request(f"u{at}", f"s{at} v{at}:1", f"g{at}", same="rack") for at in range(16)))
    with ThreadPoolExecutor(16) as pool:
        decisions = list(pool.map(racks.service.reserve, grants))
    where = Counter(str(place["host"]).partition("-")[0] for decision in decisions for place in decision.values())
    assert [len({place["rack"] for place in decision.values()}) for decision in decisions] == [1] * 16
    assert (where, racks.used) == ({"h1": 8, "h2": 8, "p1": 8, "p2": 8}, where)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda request: racks.service.release(claim_of(request)), grants))
    assert racks.used == {}


def test_what_is_not_known_yet_passes_the_door_and_is_refused_after(cloud: Cloud, tmp_path: Path) -> None:
    racks = Racks(cloud, tmp_path, "h1/r1/z1/8")
    group = replace(make_request("u", "s"), scope=(part("g", open=True),))
    for request in (make_request("u", "s", same=worded("x")), group):
        racks.service.facts(request)
        with pytest.raises(RefusedError) as error:
            racks.service.reserve(request)
        assert error.value.reason == (
            "not everything that this grant asks for is known: its options, or the number of members of a group"
        )


def test_a_decision_that_takes_too_long_is_refused_in_words(cloud: Cloud, tmp_path: Path) -> None:
    racks = Racks(cloud, tmp_path, "h1/r1/z1/8", seconds="1e-9")
    assert refused(racks, make_request("u", "s")) == "no placement was found in 1e-09 seconds"
