"""Relations of an inventory of the cloud: those of Congress, and ours."""

from __future__ import annotations

import json
from functools import cache, reduce
from operator import or_
from pathlib import Path

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
"""The number of columns of Congress, for relations that have more since: those that follow may be null."""
NUMBER, TEXT = Kind.NUMBER, Kind.STRING
KINDS = {"s": TEXT, "n": NUMBER, "b": Kind.BOOLEAN, "m": NUMBER | TEXT, "a": Kind.ANY, "?": Kind.NULL}
"""The kinds by the letters in the data; several letters mean any of their kinds."""


def relation(name: str) -> Relation | None:
    """The relation of the inventory by its full name, ``nova:servers``."""
    return _all().get(name) if name.partition(":")[0] in CLOUD or name.startswith(("heat:", "gate:")) else None


def names() -> tuple[str, ...]:
    return tuple(_all())


@cache
def _all() -> dict[str, Relation]:
    text = (Path(__file__).parent / "data" / "inventory.json").read_text("utf-8")
    relations = {}
    for name, data in json.loads(text).items():
        kinds = {column: [KINDS[letter] for letter in letters] for column, letters in data["columns"].items()}
        columns = tuple(Column(column, reduce(or_, several)) for column, several in kinds.items())
        relations[name] = Relation(name, columns, tuple(data["key"]), data["meaning"])
    return relations
