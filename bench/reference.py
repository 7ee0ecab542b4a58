"""The 25 rules of `gate` in plain Python: the floor for engines.

There is one function for each relation, with nested loops over hash indexes, and rounds over new rows for recursion.
The indexes and rules of the inventory are evaluated before a request, those of the stack for each request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

Row = tuple[Any, ...]
Rows = Collection[Row]
Index = Mapping[Any, Rows]
NONE: Rows = ()


class Inventory:
    """The indexes of an inventory, and the rows that depend on it alone."""

    def __init__(self, facts: Mapping[str, Rows]) -> None:
        self.facts = facts
        self.host = by(facts["host"], 0)
        self.hosts_of_rack = by(facts["host"], 2)
        self.network = by(facts["network"], 0)
        self.flavor = by(facts["flavor"], 0)
        self.image = by(facts["image"], 0)
        self.active_image = {row[0] for row in facts["image"] if row[1] == "active"}
        self.quota = by(facts["quota"], 0, 1)
        self.capacity = by(facts["capacity"], 0)
        self.machines_of_host = by(facts["machine"], 1)
        self.machines_of_project = by(facts["machine"], 2)
        self.up = {(host, zone) for host, zone, _, state in facts["host"] if state == "up"}
        self.up_in = by(self.up, 1)
        self.free = set(self._free())
        self.routed = closure(facts["link"])
        self.crowded = set(self._crowded())
        self.running = by(self._running(), 0)

    def _free(self) -> Iterable[Row]:
        for zone, _ in self.facts["zone"]:
            terms = set()
            for host, _ in self.up_in.get(zone, NONE):
                for _, ram, used in self.capacity.get(host, NONE):
                    terms.add((ram - used, host))
            yield zone, sum(term[0] for term in terms)

    def _crowded(self) -> Iterable[Row]:
        for rack, _, most in self.facts["rack"]:
            terms = set()
            for host, _, _, _ in self.hosts_of_rack.get(rack, NONE):
                for machine, _, _ in self.machines_of_host.get(host, NONE):
                    terms.add(machine)
            if len(terms) > most:
                yield (rack,)

    def _running(self) -> Iterable[Row]:
        for project, item, _ in self.facts["quota"]:
            if item == "servers":
                yield project, len({row[0] for row in self.machines_of_project.get(project, NONE)})


def by(rows: Iterable[Row], *columns: int) -> Index:
    """A hash index: the rows by the values of the columns, one value as it is."""
    index: dict[Any, list[Row]] = defaultdict(list)
    if len(columns) == 1:
        at = columns[0]
        for row in rows:
            index[row[at]].append(row)
    else:
        first, second = columns
        for row in rows:
            index[row[first], row[second]].append(row)
    return dict(index)


def closure(edges: Iterable[Row]) -> set[Row]:
    """All pairs with a path from the first to the second."""
    pairs = set(edges)
    after = by(pairs, 0)
    new = list(pairs)
    while new:
        matches = []
        for a, b in new:
            for _, c in after.get(b, NONE):
                pair = (a, c)
                if pair not in pairs:
                    pairs.add(pair)
                    matches.append(pair)
        new = matches
    return pairs


def reached(edges: Iterable[Row], start: Any) -> set[Row]:
    """All nodes that are reached."""
    after = by(edges, 0)
    rows = {(b,) for _, b in after.get(start, NONE)}
    new = list(rows)
    while new:
        more = []
        for (a,) in new:
            for _, b in after.get(a, NONE):
                if (b,) not in rows:
                    rows.add((b,))
                    more.append((b,))
        new = more
    return rows


def decide(cloud: Inventory, facts: Mapping[str, Rows]) -> dict[str, set[Row]]:
    """The findings by relation."""
    stack = _Stack(cloud, facts)
    open_ssh = set(stack.open_ssh())
    return {
        "unknown_flavor": set(stack.unknown_flavor()),
        "bad_image": set(stack.bad_image()),
        "small_flavor": set(stack.small_flavor()),
        "wrong_zone": set(stack.wrong_zone()),
        "dead_zone": set(stack.dead_zone()),
        "foreign_network": set(stack.foreign_network()),
        "unroutable": set(stack.unroutable()),
        "over_quota": set(stack.over_quota()),
        "full_zone": set(stack.full_zone()),
        "same_host": set(stack.same_host()),
        "uneven": set(stack.uneven()),
        "open_ssh": open_ssh,
        "exposed": set(stack.exposed(open_ssh)),
        "bottleneck": set(stack.bottleneck()),
        "crowding": set(stack.crowding()),
    }


class _Stack:
    """The indexes of a request, and a function for each relation of findings."""

    def __init__(self, cloud: Inventory, facts: Mapping[str, Rows]) -> None:
        self.cloud = cloud
        self.facts = facts
        self.by_type = by(facts["resource"], 1)
        self.path = by(facts["property"], 1)
        self.property = by(facts["property"], 0, 1)
        self.amount = by(facts["amount"], 0, 1)
        self.attribute = by(facts["attribute"], 0, 1)
        self.members = by(facts["member"], 0)
        self.needs = closure(facts["depends"])
        self.needed_by = by(self.needs, 1)
        self.below = by(closure(facts["nested"]), 0)

    def unknown_flavor(self) -> Iterable[Row]:
        for server, _, name in self.path.get("flavor", NONE):
            if name not in self.cloud.flavor:
                yield server, name

    def bad_image(self) -> Iterable[Row]:
        for server, _, name in self.path.get("image", NONE):
            if name not in self.cloud.active_image:
                yield server, name

    def small_flavor(self) -> Iterable[Row]:
        for server, _, flavor in self.path.get("flavor", NONE):
            for _, _, ram in self.cloud.flavor.get(flavor, NONE):
                for _, _, image in self.property.get((server, "image"), NONE):
                    for _, _, least in self.cloud.image.get(image, NONE):
                        if ram < least:
                            yield server, ram, least

    def wrong_zone(self) -> Iterable[Row]:
        for attachment, _ in self.by_type.get("attachment", NONE):
            for _, _, server in self.property.get((attachment, "server"), NONE):
                for _, _, volume in self.property.get((attachment, "volume"), NONE):
                    for _, _, a in self.property.get((server, "zone"), NONE):
                        for _, _, b in self.property.get((volume, "zone"), NONE):
                            if a != b:
                                yield attachment, server, volume

    def dead_zone(self) -> Iterable[Row]:
        for server, _ in self.by_type.get("server", NONE):
            for _, _, zone in self.property.get((server, "zone"), NONE):
                if zone not in self.cloud.up_in:
                    yield server, zone

    def foreign_network(self) -> Iterable[Row]:
        for port, _, network in self.path.get("network", NONE):
            for _, project, external in self.cloud.network.get(network, NONE):
                if external == "no":
                    for (mine,) in self.facts["owner"]:
                        if project != mine:
                            yield port, network

    def unroutable(self) -> Iterable[Row]:
        for a, b in self.facts["depends"]:
            for _, _, n in self.property.get((a, "network"), NONE):
                for _, _, m in self.property.get((b, "network"), NONE):
                    if n != m and (n, m) not in self.cloud.routed:
                        yield a, b

    def over_quota(self) -> Iterable[Row]:
        for (project,) in self.facts["owner"]:
            for _, _, most in self.cloud.quota.get((project, "servers"), NONE):
                for _, have in self.cloud.running.get(project, NONE):
                    n = have + len({row[0] for row in self.by_type.get("server", NONE)})
                    if n > most:
                        yield project, n

    def full_zone(self) -> Iterable[Row]:
        by_value = by(self.path.get("zone", NONE), 2)
        for zone, most in self.cloud.free:
            terms = set()
            for server, _, _ in by_value.get(zone, NONE):
                for _, _, flavor in self.property.get((server, "flavor"), NONE):
                    for _, _, ram in self.cloud.flavor.get(flavor, NONE):
                        terms.add((ram, server))
            n = sum(term[0] for term in terms)
            if n > most:
                yield zone, n

    def same_host(self) -> Iterable[Row]:
        for group, a in self.facts["member"]:
            for _, _, host in self.property.get((a, "host"), NONE):
                for _, b in self.members.get(group, NONE):
                    if a < b:
                        for _, _, other in self.property.get((b, "host"), NONE):
                            if host == other:
                                yield group, a, b

    def uneven(self) -> Iterable[Row]:
        for group in self.members:
            terms = set()
            for _, resource in self.members[group]:
                for _, _, size in self.amount.get((resource, "size"), NONE):
                    terms.add(size)
            if terms:
                high, low = max(terms), min(terms)
                if high > 12 * low:
                    yield group, high, low

    def open_ssh(self) -> Iterable[Row]:
        for rule, _, protocol in self.path.get("protocol", NONE):
            if protocol == "tcp":
                for _, _, prefix in self.property.get((rule, "prefix"), NONE):
                    if prefix == "0.0.0.0/0":
                        for _, _, low in self.amount.get((rule, "port_min"), NONE):
                            if low <= 22:
                                for _, _, high in self.amount.get((rule, "port_max"), NONE):
                                    if high >= 22:
                                        yield (rule,)

    def exposed(self, open_ssh: Iterable[Row]) -> Iterable[Row]:
        servers = {row[0] for row in self.by_type.get("server", NONE)}
        for (rule,) in open_ssh:
            for server, _ in self.needed_by.get(rule, NONE):
                if server in servers:
                    for _, _, name in self.property.get((server, "network"), NONE):
                        for _, _, external in self.cloud.network.get(name, NONE):
                            if external == "yes":
                                yield server, rule

    def bottleneck(self) -> Iterable[Row]:
        for resource, _ in self.facts["resource"]:
            n = len({row[0] for row in self.needed_by.get(resource, NONE)})
            if n > 24:
                yield resource, n

    def crowding(self) -> Iterable[Row]:
        for server, _, host in self.path.get("host", NONE):
            for _, _, rack, _ in self.cloud.host.get(host, NONE):
                if (rack,) in self.cloud.crowded:
                    for _, _, stack in self.attribute.get((server, "stack"), NONE):
                        depth = len({row[1] for row in self.below.get(stack, NONE)})
                        if depth > 2:
                            yield server, host, depth
