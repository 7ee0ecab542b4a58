"""Relations of a cloud inventory: Congress's, and additional ones."""

from __future__ import annotations

import json
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Any

from datalog_gate.base.values import Kind
from datalog_gate.schema.declaration import Column, Relation

CLOUD = frozenset((
    "nova", "neutronv2", "neutronv2_qos", "cinder", "keystone", "keystonev3", "glancev2", "swift", "ironic", "monasca",
    "monasca_webhook", "aodh", "mistral", "tacker", "vitrage", "doctor", "config", "plexxi", "vcenter",
    "nova_placement", "octavia",
))  # fmt: skip
"""The namespaces of an inventory; Placement's is not `placement`, since folders of rules have that name. Congress's
tables of Heat are in `heat`, beside the relations of a template."""
OLD_WIDTHS = {"nova:servers": 11, "cinder:volumes": 17, "neutronv2:security_group_rules": 10}
"""The original number of columns in Congress, for relations that now have more. The additional ones may be null."""
LIVE = "live:"
"""The prefix of a relation in a rule that reads what the cloud has of the resources of a type."""
LIVE_TABLES = {
    "os:cinder:volume": ("cinder:volumes", "id"),
    "os:neutron:floating_ip": ("neutronv2:floating_ips", "id"),
    "os:neutron:net": ("neutronv2:networks", "id"),
    "os:neutron:port": ("neutronv2:ports", "id"),
    "os:neutron:port.fixed_ips": ("neutronv2:fixed_ips", "port_id"),
    "os:neutron:port.security_groups": ("neutronv2:security_group_port_bindings", "port_id"),
    "os:neutron:router": ("neutronv2:routers", "id"),
    "os:neutron:security_group": ("neutronv2:security_groups", "id"),
    "os:neutron:security_group.rules": ("neutronv2:security_group_rules", "security_group_id"),
    "os:neutron:subnet": ("neutronv2:subnets", "id"),
    "os:nova:server": ("nova:servers", "id"),
    "os:nova:server_group": ("nova:server_groups", "id"),
    "os:octavia:listener": ("octavia:listeners", "id"),
    "os:octavia:load_balancer": ("octavia:load_balancers", "id"),
}
"""The inventory table with the live resources of a type, and its column with their physical id."""
NUMBER, TEXT = Kind.NUMBER, Kind.STRING
KINDS = {"s": TEXT, "n": NUMBER, "b": Kind.BOOLEAN, "m": NUMBER | TEXT, "a": Kind.ANY, "?": Kind.NULL}
"""The kinds by their letters in the data; several letters mean any of these kinds."""


def relation(name: str) -> Relation | None:
    """The inventory relation with this full name, ``nova:servers``."""
    return _relation(name) if name.partition(":")[0] in CLOUD or name.startswith(("heat:", "gate:")) else None


def names() -> tuple[str, ...]:
    return tuple(_data())


@cache
def live_relation(name: str) -> Relation | None:
    """The relation ``live:os:nova:server``: rows of an inventory table, each with its resource as `_id`."""
    if not name.startswith(LIVE) or name.removeprefix(LIVE) not in LIVE_TABLES:
        return None
    table, column = LIVE_TABLES[name.removeprefix(LIVE)]
    declared = _relation(table)
    assert declared
    own = tuple(key for key in declared.key if key != column)
    resource = Column("_id", Kind.RESOURCE, "The resource.")
    meaning = f"{declared.meaning} Of those that are resources of a live stack, with `_id`."
    return Relation(name, (resource, *declared.columns), ("_id", *own), meaning, named_only=True)


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "inventory.json").read_text("utf-8"))
    return data


@cache
def _relation(name: str) -> Relation | None:
    if name not in _data():
        return None
    data = _data()[name]
    kinds = {column: [KINDS[letter] for letter in letters] for column, letters in data["columns"].items()}
    words, units = data.get("words", {}), data.get("units", {})
    columns = [
        Column(column, reduce(or_, several), allowed=tuple(words.get(column, "").split()), unit=units.get(column, ""))
        for column, several in kinds.items()
    ]
    return Relation(name, tuple(columns), tuple(data["key"]), data["meaning"])
