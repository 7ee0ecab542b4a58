"""Servers and volumes go where a grant of rack_affinity decided."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from subprocess import run
from typing import Any

import pytest

from tests.cloud.rig import COMMAND, STACKS, Cloud, User, waited
from tests.cloud.templates import of, template

NUMBER = STACKS or 5
"""How many are made at once."""
CLASSES = ("CUSTOM_GATE_VCPU", "CUSTOM_GATE_MEMORY_MB", "CUSTOM_GATE_DISK_GB")


def decided(name: str) -> dict[str, Any]:
    """The properties that lead a resource to where the grant decided."""
    return {key: {"get_attr": ["g", "decision", name, key]} for key in ("availability_zone", "scheduler_hints")}


def server(name: str, **properties: Any) -> dict[str, Any]:
    basic = {"image": "debian", "flavor": "m1.small", "networks": [{"network": "private"}]}
    return of("OS::Nova::Server", **{**basic, **decided(name), **properties})


def volume(name: str, **properties: Any) -> dict[str, Any]:
    return of("OS::Cinder::Volume", **{"size": 1, **decided(name), **properties})


def granted(options: Mapping[str, Any], **scope: Mapping[str, Any]) -> dict[str, Any]:
    """A template with a grant for these resources, and its decision as an output."""
    grant = of("DatalogGate::Policy", service="rack_affinity", scope=sorted(scope), options=options)
    return {**template(g=grant, **scope), "outputs": {"decision": {"value": {"get_attr": ["g", "decision"]}}}}


SPREAD = {"spread": {"level": "rack", "at_least": 3}}
APART = granted(SPREAD, a=server("a"), b=server("b"), c=server("c"))
KINDS: list[tuple[dict[str, Any], str, int, int]] = [
    (granted({"same": "rack"}, a=server("a"), b=server("b"), v=volume("v")), "rack", 1, 1),
    (APART, "rack", 3, 3),
    (granted({"same": "zone"}, a=server("a"), v=volume("v")), "availability_zone", 1, 1),
    (granted({"same": "host"}, a=server("a"), b=server("b")), "host", 1, 1),
    (granted({"spread": {"level": "host", "at_least": 3}}, a=server("a"), b=server("b"), c=server("c")), "host", 3, 3),
]
"""Templates, with the attribute of a decision that has so many values at least and at most."""


@pytest.fixture(scope="module")
def ann(cloud: Cloud) -> Iterator[User]:
    """A member who may have as many servers as there is room for."""
    user = cloud.users["ann"]
    cloud.admin.set_compute_quotas(user.project, cores=-1, instances=-1, ram=-1)
    cloud.admin.set_volume_quotas(user.project, volumes=-1, gigabytes=-1)
    yield user
    for name in user.names():
        user.delete(name)
    assert holdings(cloud) == {}


def holdings(cloud: Cloud) -> dict[str, dict[str, int]]:
    """What is claimed of each provider in Placement."""
    held = {}
    for provider in cloud.admin.placement.resource_providers():
        usages = cloud.admin.placement.get(f"/resource_providers/{provider.id}/usages").json()["usages"]
        if claimed := {name: usages[name] for name in CLASSES if usages.get(name)}:
            held[provider.name] = claimed
    return held


def decision(user: User, name: str) -> dict[str, Any]:
    [output] = user.stack(name)["outputs"]
    value: dict[str, Any] = output["output_value"]
    return value


def locations(cloud: Cloud, user: User, name: str) -> dict[str, str]:
    """Where Nova and Cinder have the members of a stack, by their paths as in a decision."""
    hosts = {}
    answer = user.ask("GET", f"stacks/{name}/{user.stack(name)['id']}/resources?nested_depth=3")
    for row in answer.json()["resources"]:
        path = row["resource_name"]
        if row["resource_type"] == "OS::Nova::Server":
            hosts[path] = cloud.admin.compute.get_server(row["physical_resource_id"]).compute_host
        if row["resource_type"] == "OS::Cinder::Volume":
            hosts[path] = cloud.admin.block_storage.get(f"/volumes/{row['physical_resource_id']}").json()["volume"][
                "os-vol-host-attr:host"
            ]
    return hosts


def create(user: User, body: Mapping[str, Any]) -> str:
    name, answer = user.create(body)
    assert answer.status_code == 201, answer.text
    return name


def refusal(user: User, body: Mapping[str, Any]) -> str:
    name, answer = user.create(body)
    assert (answer.status_code, name in user.names()) == (403, False)
    message: str = answer.json()["error"]["message"]
    return message


def test_stacks_made_at_once_are_where_they_were_granted(cloud: Cloud, ann: User) -> None:
    kinds = [KINDS[number % len(KINDS)] for number in range(NUMBER)]
    with ThreadPoolExecutor(NUMBER) as pool:
        names = list(pool.map(lambda kind: create(ann, kind[0]), kinds))
    outcomes = {name: ann.outcome(name) for name in names}
    assert outcomes == dict.fromkeys(names, ("CREATE_COMPLETE", "Stack CREATE completed successfully"))
    for name, (_, attribute, least, most) in zip(names, kinds, strict=True):
        places = decision(ann, name)
        assert locations(cloud, ann, name) == {path: place["host"] for path, place in places.items()}
        assert least <= len({place[attribute] for place in places.values()}) <= most
    for name in names:
        ann.ask("DELETE", f"stacks/{name}/{ann.stack(name)['id']}")
    waited(ann.names, lambda left: not left)
    assert holdings(cloud) == {}


def test_a_rack_and_three_of_four_hosts_hold_in_both_engines(engine: Cloud, ann: User) -> None:
    names = [create(ann, body) for body in (KINDS[0][0], KINDS[4][0])]
    for name in names:
        assert ann.outcome(name)[0] == "CREATE_COMPLETE"
        places = {path: place["host"] for path, place in decision(ann, name).items()}
        assert locations(engine, ann, name) == places
    assert len(set(places.values())) == 3
    for name in names:
        ann.delete(name)
    assert holdings(engine) == {}


def test_hints_that_are_forged_or_reserved_for_another_project_lead_nowhere(cloud: Cloud, ann: User) -> None:
    name = create(ann, granted({"same": "rack"}, a=server("a"), v=volume("v")))
    assert ann.outcome(name)[0] == "CREATE_COMPLETE"
    places = decision(ann, name)
    olga = cloud.users["olga"]
    forged = {
        "another project's": (olga, places["a"]["scheduler_hints"]),
        "a rack alone": (ann, {"rack": "r1"}),
        "another host": (ann, {**places["a"]["scheduler_hints"], "datalog_gate_host": "compute-9"}),
    }
    for user, hints in forged.values():  # sent to Nova, since Heat tries again and again
        compute = user.connection.compute
        image, flavor = compute.find_image("debian").id, compute.find_flavor("m1.small").id
        body = {"name": "forged", "imageRef": image, "flavorRef": flavor, "networks": "none"}
        created = compute.post("/servers", json={"server": body, "os:scheduler_hints": hints}, microversion="2.74")
        forged_id = created.json()["server"]["id"]
        shown = waited(partial(compute.get_server, forged_id), lambda server: server.status != "BUILD")
        assert (shown.status, "No valid host was found" in shown.fault["message"]) == ("ERROR", True)
        compute.delete_server(forged_id)
    storage = olga.connection.block_storage
    hints = places["v"]["scheduler_hints"]
    stolen = storage.post("/volumes", json={"volume": {"size": 1}, "OS-SCH-HNT:scheduler_hints": hints}).json()[
        "volume"
    ]
    assert (
        waited(partial(storage.get_volume, stolen["id"]), lambda volume: volume.status != "creating").status == "error"
    )
    storage.delete_volume(stolen["id"])
    ann.delete(name)


def test_a_rack_that_is_full_is_refused_by_its_name(ann: User) -> None:
    full = create(ann, granted({"same": "zone"}, v=volume("v", size=500, availability_zone="az2")))
    assert ann.outcome(full)[0] == "CREATE_COMPLETE"
    wide = granted(SPREAD, a=volume("a"), b=volume("b"), c=volume("c"))
    assert "DISK_GB of the storage pools in rack r3: 0 free, at most 0 on one" in refusal(ann, wide)
    ann.delete(full)


def test_a_host_that_nova_filled_itself_is_refused_by_its_name(cloud: Cloud, ann: User) -> None:
    compute = cloud.admin.compute
    flavor = compute.create_flavor(name="whole-host", vcpus=10, ram=16, disk=0)
    [provider] = cloud.admin.placement.resource_providers(name="compute-1")
    path = f"/resource_providers/{provider.id}"
    inventory = cloud.admin.placement.get(f"{path}/inventories").json()["inventories"]["VCPU"]
    used = cloud.admin.placement.get(f"{path}/usages").json()["usages"]["VCPU"]
    number = (int(inventory["total"] * inventory["allocation_ratio"]) - used) // 10
    image = compute.find_image("debian")
    cloud.admin.set_compute_quotas(cloud.admin.current_project_id, cores=-1, instances=-1, ram=-1)
    body = {"name": "plain", "flavorRef": flavor.id, "imageRef": image.id, "networks": "none", "host": "compute-1"}
    compute.post("/servers", json={"server": {**body, "min_count": number}}, microversion="2.74")
    try:
        waited(
            lambda: [plain.status for plain in compute.servers(name="plain")],
            lambda states: states == ["ACTIVE"] * number,
        )
        assert "compute-1 has 0 VCPU left in Nova" in refusal(ann, APART)
    finally:
        for plain in compute.servers(name="plain"):
            compute.delete_server(plain)
        waited(lambda: list(compute.servers(name="plain")), lambda left: not left)
        compute.delete_flavor(flavor)


def test_a_pool_whose_traits_lie_about_its_zone_is_refused_by_its_name(own_cloud: Cloud, ann: User) -> None:
    placement = own_cloud.admin.placement
    [pool] = placement.resource_providers(name="cloud@p3#fake")
    path, version = f"/resource_providers/{pool.id}/traits", {"microversion": "1.6"}

    def put_traits(*traits: str) -> None:
        generation = placement.get(path, **version).json()["resource_provider_generation"]
        body = {"resource_provider_generation": generation, "traits": traits}
        assert placement.put(path, json=body, **version).status_code == 200

    put_traits("CUSTOM_RACK_R3", "CUSTOM_ZONE_AZ1")
    try:
        message = refusal(ann, granted({"same": "zone"}, v=volume("v", availability_zone="az2")))
    finally:
        put_traits("CUSTOM_RACK_R3", "CUSTOM_ZONE_AZ2")
    assert "cloud@p3#fake is in zone az2 for Cinder, and not in az1" in message


UNSTEERED = (
    "the zone az1 has the racks r1, r2, and nothing places a {} in the right one: the operator must make a zone "
    "of each "
    "rack, or install the filters for schedulers and set rack_affinity.steering=hint"
)


def test_without_the_filters_a_rack_in_a_zone_of_several_is_refused(own_cloud: Cloud, ann: User) -> None:
    options = "[datalog_gate]\nservice_option = rack_affinity.steering=zone\nservice_option = rack_affinity.hint=\n"
    with own_cloud.options(options, "heat-engine", "heat-api"):
        message = refusal(ann, KINDS[0][0])
        assert UNSTEERED.format("server") in message
        name = create(ann, KINDS[2][0])
        assert ann.outcome(name)[0] == "CREATE_COMPLETE"
        ann.delete(name)


@pytest.mark.parametrize("by_heat", [False, True])
def test_a_server_that_moves_stays_in_its_rack_and_is_named(own_cloud: Cloud, ann: User, by_heat: bool) -> None:
    cloud = own_cloud
    name = create(ann, granted({"same": "host"}, a=server("a", availability_zone="az1")))
    other = create(ann, granted({"same": "host"}, a=server("a", availability_zone="az1")))
    moved = None
    for stack in (name, other):  # racks are taken in turn, and one of the two has another host
        assert ann.outcome(stack)[0] == "CREATE_COMPLETE"
        moved = stack if decision(ann, stack)["a"]["rack"] == "r2" else moved
    assert moved
    before = locations(cloud, ann, moved)["a"]
    row = ann.ask("GET", f"stacks/{moved}/{ann.stack(moved)['id']}/resources/a").json()["resource"]
    server_id = row["physical_resource_id"]
    if by_heat:
        larger = granted({"same": "host"}, a=server("a", availability_zone="az1", flavor="m1.medium"))
        assert ann.ask("PUT", f"stacks/{moved}/{ann.stack(moved)['id']}", template=larger).status_code == 202
        assert ann.outcome(moved)[0] == "UPDATE_COMPLETE"
    else:
        cloud.admin.compute.migrate_server(server_id)
        waited(lambda: cloud.admin.compute.get_server(server_id).status, lambda status: status == "VERIFY_RESIZE")
        cloud.admin.compute.confirm_server_resize(server_id)
    after = locations(cloud, ann, moved)["a"]
    assert {before, after} == {"compute-2", "compute-3"}
    command = ["services", "reconcile", "--format", "json", "--heat-conf", f"{cloud.folder}/etc/heat/heat.conf"]
    lines = [run_gate(*command) for _ in range(2)][-1]
    events = {event["stack"]: (event["done"], event["why"]) for event in map(json.loads, lines)}
    text = f"1 server of those granted on {before} is not there, and the stack has others on {after}"
    assert events[ann.stack(moved)["id"]] == ("misplaced", text)
    ann.delete(moved)
    ann.delete(other if moved == name else name)


def run_gate(*arguments: str) -> list[str]:
    """The lines that `datalog-gate` prints."""
    shown = run([COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert shown.returncode in (0, 1), shown.stderr
    return shown.stdout.splitlines()
