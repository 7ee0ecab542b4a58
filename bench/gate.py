"""A gate of 25 rules over a stack and an inventory.

The facts are drawn from a seed. `reference` gives the same answers in plain Python.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection, Iterable, Mapping

from datalog_gate.base.values import Row
from datalog_gate.schema.declaration import RelationRef

Facts = dict[str, list[Row]]
Given = Mapping[str, Collection[Row]]
"""Facts with each row once, as `flatten` gives them."""

RULES = """
// What is in the cloud.
relation zone(zone: string, region: string).
relation rack(rack: string, zone: string, most_servers: number).
relation host(host: string, zone: string, rack: string, state: string).
relation capacity(host: string, ram: number, used: number) key(host).
relation network(network: string, project: string, external: string).
relation link(network: string, to: string).
relation image(image: string, status: string, min_ram: number).
relation flavor(flavor: string, vcpus: number, ram: number) key(flavor).
relation quota(project: string, item: string, most: number).
relation user(user: string, project: string).
relation machine(machine: string, host: string, project: string).

// What a stack would build.
relation owner(project: string).
relation resource(resource: string, type: string).
relation property(resource: string, path: string, value: string) key(resource, path).
relation amount(resource: string, path: string, value: number).
relation attribute(resource: string, name: string, value: string).
relation depends(resource: string, on: string).
relation member(group: string, resource: string).
relation nested(stack: string, parent: string).

// Six rules that read the inventory only.
up(host, zone) :- host(host, zone, _, "up").
free(zone, n) :- zone(zone, _), n = sum{ ram - used, host : up(host, zone), capacity(host, ram, used) }.
routed(a, b) :- link(a, b).
routed(a, c) :- routed(a, b), link(b, c).
crowded(rack) :- rack(rack, _, most), n = count{ m : host(host, _, rack, _), machine(m, host, _) }, n > most.
running(project, n) :- quota(project, "servers", _), n = count{ m : machine(m, _, project) }.

// Four that carry on within the stack.
needs(a, b) :- depends(a, b).
needs(a, c) :- needs(a, b), depends(b, c).
below(stack, parent) :- nested(stack, parent).
below(stack, top) :- below(stack, parent), nested(parent, top).

// Fifteen that find something.
unknown_flavor(server, name) :- property(server, "flavor", name), not flavor(name, _, _).
bad_image(server, name) :- property(server, "image", name), not image(name, "active", _).
small_flavor(server, ram, least) :- property(server, "flavor", flavor), flavor(flavor, _, ram),
    property(server, "image", image), image(image, _, least), ram < least.
wrong_zone(attachment, server, volume) :- resource(attachment, "attachment"),
    property(attachment, "server", server), property(attachment, "volume", volume),
    property(server, "zone", a), property(volume, "zone", b), a != b.
dead_zone(server, zone) :- resource(server, "server"), property(server, "zone", zone), not up(_, zone).
foreign_network(port, network) :- property(port, "network", network), network(network, project, "no"),
    owner(mine), project != mine.
unroutable(a, b) :- depends(a, b), property(a, "network", n), property(b, "network", m), n != m, not routed(n, m).
over_quota(project, n) :- owner(project), quota(project, "servers", most), running(project, have),
    n = have + count{ s : resource(s, "server") }, n > most.
full_zone(zone, n) :- free(zone, most), n = sum{ ram, s : property(s, "zone", zone), property(s, "flavor", f),
    flavor(f, _, ram) }, n > most.
same_host(group, a, b) :- member(group, a), member(group, b), a < b, property(a, "host", h), property(b, "host", h).
uneven(group, high, low) :- member(group, _), high = max{ size : member(group, r), amount(r, "size", size) },
    low = min{ size : member(group, r), amount(r, "size", size) }, high > 12 * low.
open_ssh(rule) :- property(rule, "protocol", "tcp"), property(rule, "prefix", "0.0.0.0/0"),
    amount(rule, "port_min", low), amount(rule, "port_max", high), low <= 22, 22 <= high.
exposed(server, rule) :- resource(server, "server"), property(server, "network", n), network(n, _, "yes"),
    needs(server, rule), open_ssh(rule).
bottleneck(resource, n) :- resource(resource, _), n = count{ other : needs(other, resource) }, n > 24.
crowding(server, host, depth) :- property(server, "host", host), host(host, _, rack, _), crowded(rack),
    attribute(server, "stack", stack), depth = count{ top : below(stack, top) }, depth > 2.
"""

FINDINGS = (
    "unknown_flavor",
    "bad_image",
    "small_flavor",
    "wrong_zone",
    "dead_zone",
    "foreign_network",
    "unroutable",
    "over_quota",
    "full_zone",
    "same_host",
    "uneven",
    "open_ssh",
    "exposed",
    "bottleneck",
    "crowding",
)
"""The relations whose rows are the answer."""
SIZES = {"1k stack + 10k inventory facts": (50, 10_000), "40k stack + 200k inventory facts": (2000, 200_000)}
"""Resources of the stack and facts of the inventory."""


def inventory(size: int, seed: int = 5) -> Facts:
    """A cloud of about `size` facts: two thirds are running machines, a fifth are users."""
    draw = random.Random(seed)
    zones = [f"zone-{at}" for at in range(8)]
    hosts, networks = max(20, size // 100), max(20, size // 500)
    projects = [f"project-{at}" for at in range(max(10, size // 400))]
    racks = [f"rack-{at}" for at in range(max(8, hosts // 20))]
    facts: Facts = {
        "zone": [(zone, f"region-{at % 2}") for at, zone in enumerate(zones)],
        "rack": [(rack, zones[at % 8], draw.randint(1000, 1500)) for at, rack in enumerate(racks)],
        "host": [],
        "capacity": [],
        "network": [(f"net-{at}", draw.choice(projects), "no" if at % 4 else "yes") for at in range(networks)],
        "link": [(f"net-{at}", f"net-{at + draw.randint(1, 9)}") for at in range(networks - 9) if at % 20],
        "image": [(f"image-{at}", "active" if at % 9 else "queued", 512 << at % 5) for at in range(size // 200)],
        "flavor": [(f"flavor-{at}", 1 + at % 16, 1024 << at % 6) for at in range(60)],
        "quota": [
            (project, item, draw.randint(100, 900)) for project in projects for item in ("servers", "volumes", "ports")
        ],
        "user": [(f"user-{at}", draw.choice(projects)) for at in range(size // 5)],
    }
    for at in range(hosts):
        zone = zones[at % 8]
        state = "down" if zone == "zone-7" or not at % 17 else "up"
        ram = 1024 * draw.choice((256, 512))
        facts["host"].append((f"host-{at}", zone, racks[at % len(racks)], state))
        facts["capacity"].append((f"host-{at}", ram, ram - 1024 * draw.randint(0, 64)))
    left = size - sum(map(len, facts.values()))
    facts["machine"] = [(f"machine-{at}", f"host-{draw.randrange(hosts)}", draw.choice(projects)) for at in range(left)]
    return facts


def stack(resources: int, cloud: Mapping[str, Collection[Row]], seed: int = 6) -> Facts:
    """A stack with about 20 facts for each resource, most of which no rule reads."""
    draw = random.Random(seed)
    counts = {name: len(cloud[name]) for name in ("host", "network", "image")}
    facts: Facts = {name: [] for name in ("resource", "property", "amount", "attribute", "depends", "member", "nested")}
    facts["owner"] = [("project-3",)]
    kinds = ("server", "volume", "attachment", "port", "rule")
    depth = max(5, resources // 50)
    facts["nested"] = [(f"stack-{at}", f"stack-{(at - 1) // 2}") for at in range(1, depth)]
    for at in range(resources):
        kind, name = kinds[at % 5], f"r{at}"
        facts["resource"].append((name, kind))
        properties = {f"metadata.key_{key}": f"value-{draw.randrange(500)}" for key in range(9)}
        properties |= {"name": f"name-{at}", "description": f"{kind} {at}"}
        amounts: dict[str, int] = {}
        match kind:
            case "server":
                properties["flavor"] = f"flavor-{draw.randrange(62)}"
                properties["image"] = f"image-{draw.randrange(counts['image'])}"
                properties["zone"] = f"zone-{draw.randrange(8)}"
                properties["network"] = f"net-{draw.randrange(counts['network'])}"
                properties["host"] = f"host-{draw.randrange(counts['host'])}"
            case "volume":
                properties["zone"] = f"zone-{draw.randrange(8)}"
                amounts["size"] = draw.randint(5, 200)
            case "attachment":
                properties |= {"server": f"r{at - 2}", "volume": f"r{at - 1}", "mountpoint": "/dev/vdb"}
            case "port":
                properties["network"] = f"net-{draw.randrange(counts['network'])}"
            case _:
                low = draw.randrange(60)
                properties["protocol"] = draw.choice(("tcp", "udp"))
                properties["prefix"] = draw.choice(("0.0.0.0/0", "10.0.0.0/8"))
                amounts |= {"port_min": low, "port_max": low + draw.randrange(60)}
        facts["property"] += [(name, path, value) for path, value in properties.items()]
        facts["amount"] += [(name, path, value) for path, value in amounts.items()]
        facts["attribute"] += [
            (name, "stack", f"stack-{draw.randrange(depth)}"),
            (name, "action", "CREATE"),
            (name, "status", "INIT"),
        ]
        # Within a tier of fifty: what a resource needs stays a part of the stack.
        first = at - at % 50
        facts["depends"] += [(name, f"r{draw.randrange(first, at)}") for _ in range(2) if at > first]
        facts["member"].append((f"group-{at % max(4, resources // 25)}", name))
    return facts


def of_module(facts: Mapping[str, Collection[Row]]) -> dict[RelationRef, Collection[Row]]:
    """The facts under the full names that the relations have in the module `job`."""
    return {f"job:{name}": rows for name, rows in facts.items()}


def digest(answer: Iterable[tuple[object, ...]]) -> str:
    """A digest of a set of rows, whatever their order."""
    lines = sorted({"\t".join(map(str, row)) for row in answer})
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:10]
