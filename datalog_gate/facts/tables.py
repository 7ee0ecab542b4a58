"""The rows of the relations of resource types (layer 2).

In: a table of the catalogue and a resource. Out: its rows as `Fact` values. A list or map whose extent nobody knows
gives a *wildcard*: a maybe row that stands for whatever may be in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from datalog_gate.catalogue.resource_types import Table, member_of
from datalog_gate.catalogue.schema import Property, Relation
from datalog_gate.facts.stack import Data, Path, Resource, Stack
from datalog_gate.facts.typed import EMPTY, leaves, path_text, typed
from datalog_gate.values import Row, Unknown, Value, show


class Fact(NamedTuple):
    """A row, the path of its place in the definition of the resource, and what decides whether it is there at all."""

    row: Row
    path: Path = ()
    maybe: Unknown | None = None


def table_rows(table: Table, resource: Resource, stack: Stack) -> Iterator[Fact]:
    """The rows of a table for a resource of its type."""
    if table.steps:
        yield from _below(table, table.steps, resource.properties, (resource.id,), ("properties",))
    else:
        yield Fact((resource.id, stack.id, *cells(table.columns, resource.properties)), ("properties",))


def cells(columns: tuple[Property, ...], data: Mapping[str, Data]) -> Iterator[Value]:
    """The values of scalar properties: what the data says, else the default, else null."""
    for column in columns:
        value = data.get(column.name)
        value = column.default if value is None else value
        yield None if value is None and column.name not in data else typed(column.kind, value)


def entries(relation: Relation, known: Row, data: Data, path: Path, schema: Property | None = None) -> Iterator[Fact]:
    """The scalars of nested data as rows of the known values, the path in the data and the value. An unknown that may
    be a list or map is a maybe row, and a wildcard for what may be below it."""
    for leaf in leaves(data, schema):
        place = (*path, *leaf.path)
        open_to = leaf.value if leaf.open and isinstance(leaf.value, Unknown) else None
        if leaf.path:
            yield Fact((*known, path_text(leaf.path), leaf.value), place, open_to)
        if open_to:
            yield wildcard(relation, known, place, open_to)


def wildcard(relation: Relation, known: Row, path: Path, unknown: Unknown) -> Fact:
    """The maybe row that begins with the known values and holds unknowns in all other columns. Each unknown names its
    column and place, so that it is equal to nothing else, and ends with the expression that decides it. The row's own
    id, if unknown, is none of a resource that was read."""
    where = " ".join((*map(show, known), path_text(path)))
    columns = relation.columns[len(known) :]
    row = (
        Unknown(
            f"any {one.name} of {relation.name} in {where}: {unknown.expression}",
            unknown.place,
            apart=one.name in ("_id", "id"),
        )
        for one in columns
    )
    return Fact((*known, *row), path, unknown)


def _below(
    table: Table, steps: tuple[Property, ...], data: Mapping[str, Data], known: Row, path: Path
) -> Iterator[Fact]:
    """The rows below data that holds the list or map of the first step."""
    step = steps[0]
    path = (*path, step.name)
    found = data.get(step.name)
    found = step.default if found is None else found
    if found is None:
        return
    if step.kind == "map" and isinstance(found, dict):
        yield from _member(table, steps, found, known, path)
    elif step.kind == "list" and isinstance(found, list):
        for index, member in enumerate(found):
            yield from _member(table, steps, member, (*known, index), (*path, index))
    else:
        yield _open(table, found, known, path)


def _member(table: Table, steps: tuple[Property, ...], member: Data, known: Row, path: Path) -> Iterator[Fact]:
    """The rows of one member of a list, or of a map. Heat reads a null in a list as an empty value."""
    item = member_of(steps[0])
    if table.shape == "value" and len(steps) == 1:
        yield Fact((*known, EMPTY.get(item.kind) if member is None else typed(item.kind, member)), path)
    elif not isinstance(member, dict | None):
        yield _open(table, member, known, path)
    elif len(steps) > 1:
        yield from _below(table, steps[1:], member or {}, known, path)
    elif table.shape == "columns":
        yield Fact((*known, *cells(table.columns, member or {})), path)
    else:
        yield from entries(table.relation, known, member or {}, path)


def _open(table: Table, data: Data, known: Row, path: Path) -> Fact:
    """The wildcard for data that is no list or map where Heat wants one: unknown, or something that Heat will refuse
    and that a rule must not miss."""
    unknown = data if isinstance(data, Unknown) else Unknown(f"what Heat makes of {path_text(path)}")
    return wildcard(table.relation, known, path, unknown)
