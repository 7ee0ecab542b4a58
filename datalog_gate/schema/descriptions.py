"""Descriptions of the relations that rules can read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from datalog_gate.base.records import dataclass
from datalog_gate.base.values import Kind, ResourceId, Row, from_python
from datalog_gate.schema import cloud
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import ALL, OLD, Column, Relation, old_version
from datalog_gate.schema.relations import FIXED

MOST_VALUES = 10
"""The maximum number of listed values of a column."""
_TEXTS = (Kind.STRING, Kind.STRING | Kind.RESOURCE)
_FILLED_BY = {
    "heat:environment": "the environments",
    "heat:hook": "the environments",
    "heat:restricted": "the environments",
    "heat:leftover": "a stack that Heat holds, or an inventory",
    "heat:status": "a stack that Heat holds, or an inventory",
    "heat:physical": "a stack that Heat holds, or an inventory",
    "heat:updated": "a stack that Heat holds, or an inventory",
    "heat:tag": "the request, a stack that Heat holds, or an inventory",
    "heat:change": "an operation on a stack whose older state is given",
    "heat:disruption": "an operation on a stack whose older state is given",
    "gate:request": "the request",
    "gate:caller": "the request, where the door knows who asks",
    "gate:role": "the request, where the door knows who asks",
    "gate:now": "the request",
    "gate:inventory_age": "the request, from `gate:inventory`",
    "gate:service": "the request: the enabled services that the caller may use",
    "gate:grant": "the template: its resources of type DatalogGate::Policy",
    "gate:grant_scope": "the template: its resources of type DatalogGate::Policy",
    "gate:grant_option": "the template: its resources of type DatalogGate::Policy",
    "gate:unlocked": "the gate, for the grants that rules with @unlock derive",
}
"""The source of the relations of stacks and requests that are not filled from the template alone."""


@dataclass(frozen=True, slots=True)
class RelationDescription:
    """A relation with its documentation for rule authors."""

    relation: Relation
    type: str | None
    """The resource type that it belongs to, if any."""
    filled_by: str
    """The source of its rows."""
    has_old: bool
    """Whether rules can read its old version: ``old:heat:resource``."""
    example: Row | None
    """A row from a fixture of this project, or None."""
    rule: str
    """A rule that reads the relation."""

    @property
    def mandatory(self) -> tuple[str, ...]:
        """The columns that each row of an inventory must have; empty if the relation has other sources."""
        columns = self.relation.columns if cloud.relation(self.relation.name) else ()
        return tuple(column.name for column in columns if not column.kinds & Kind.NULL)

    def signature(self) -> str:
        """The columns on one line, ``heat:scaling(id*: resource, min?: number, ...)``. A column without a kind is a
        text, or a resource where a template may use `get_resource`. One with ``?`` may be null. Those with ``*`` are
        the key, in which `_id` is a resource and `_index` a number."""
        columns = (_brief_column(column, column.name in self.relation.key) for column in self.relation.columns)
        return f"{self.relation.name}({', '.join(columns)})"


def describe_relations(pattern: str = "*", catalogue: Catalogue = SHIPPED) -> list[RelationDescription]:
    """Describe the relations whose name or resource type matches the shell pattern: ``os:nova:*``,
    ``OS::Nova::Server``. With ``old:heat:*`` or ``all:heat:*``, only relations that have this version."""
    wanted = pattern.removeprefix(OLD).removeprefix(ALL)
    return [
        description
        for description in (describe_relation(name, catalogue) for name in catalogue.names())
        if fnmatchcase(description.relation.name, wanted) or fnmatchcase(description.type or "", wanted)
        if wanted == pattern or catalogue.relation(pattern[: len(OLD)] + description.relation.name)
    ]


@cache
def read_examples() -> Mapping[str, Any]:
    """Read a row of each relation that fixtures fill: ``{"fixture": folder, "row": {column: value}}`` by relation. Null
    columns are left out; a resource is ``{"$resource": path}``. tests/unit/schema/test_relations.py writes the file."""
    examples: Mapping[str, Any] = json.loads((Path(__file__).parent / "data" / "examples.json").read_text("utf-8"))
    return examples


def describe_kinds(column: Column) -> str:
    """The kinds of a column in words, or its only possible values."""
    if not column.closed:
        return column.kinds.describe()
    return ", ".join(_some_values(column)) + (" or null" if column.kinds & Kind.NULL else "")


def _some_values(column: Column) -> list[str]:
    shown = [json.dumps(value, ensure_ascii=False) for value in column.allowed[:MOST_VALUES]]
    more = len(column.allowed) - MOST_VALUES
    return [*shown, f"{more} more"] if more > 0 else shown


def _brief_column(column: Column, is_key: bool) -> str:
    name, kinds = _column_name(column.name) + ("*" if is_key else ""), column.kinds & ~Kind.NULL
    if is_key and name.startswith("_"):
        return name
    if column.kinds == Kind.ANY:
        return f"{name}: anything"
    if column.kinds & Kind.NULL:
        name += "?"
    if column.closed:
        return f"{name}: {' | '.join(_some_values(column))}"
    return name if kinds in _TEXTS else f"{name}: {kinds.describe()}"


def describe_relation(name: str, catalogue: Catalogue = SHIPPED) -> RelationDescription:
    """Describe the relation with this full name in the catalogue."""
    relation = catalogue.relation(name)
    assert relation is not None, name
    is_general = name in FIXED
    is_cloud = relation is cloud.relation(name)
    resource_type = None if is_general or is_cloud else catalogue.owner(name.partition(".")[0])
    filled_by = f"the template: its resources of type {resource_type}" if resource_type else "the template"
    if is_cloud:
        filled_by = "an inventory"
    elif name.startswith(cloud.LIVE):
        filled_by = f"`heat:physical`, with `{cloud.LIVE_TABLES[name.removeprefix(cloud.LIVE)][0]}` of an inventory"
    example = _example(relation)
    return RelationDescription(
        relation=relation,
        type=resource_type,
        filled_by=_FILLED_BY.get(name, filled_by),
        has_old=catalogue.relation(old_version(name)) is not None,
        example=example,
        rule=relation.rule or _rule(relation, example),
    )


def _rule(relation: Relation, example: Row | None) -> str:
    """A rule that reads the first key column and one other column, with the example's value if possible."""
    columns = [column.name for column in relation.columns if column.name not in (*relation.key, "_stack")]
    filled = [name for name in columns if example and example[relation.positions[name]] is not None]
    read = dict(zip([*relation.key[:1], *(filled or columns or relation.key[1:])][:2], ("id", "value"), strict=False))
    arguments = ", ".join(f"{_column_name(name)}={variable}" for name, variable in read.items())
    return f"example({', '.join(read.values())}) :- {relation.name}({arguments})."


def _column_name(name: str) -> str:
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else json.dumps(name, ensure_ascii=False)


def _example(relation: Relation) -> Row | None:
    """The row of a fixture, if the relation has its columns."""
    example = read_examples().get(relation.name)
    if example is None or not example["row"].keys() <= relation.positions.keys():
        return None
    return tuple(_value(example["row"].get(name)) for name in relation.positions)


def _value(cell: Any) -> Any:
    return ResourceId(cell["$resource"]) if isinstance(cell, dict) else from_python(cell)
