"""The rows of the relations of resource types (layer 2).

In: a table of the catalogue and a resource. Out: its rows, each a `Fact`. A list or map whose extent nobody knows
gives a *wildcard*: a maybe row that stands for whatever may be in it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

from datalog_gate.base.unknown import derived
from datalog_gate.base.values import ResourceId, Row, Unknown, Value, show
from datalog_gate.facts.batch import Batch, Fact, RelationRows
from datalog_gate.schema.declaration import Property, Relation
from datalog_gate.schema.resource_types import Table, member_of
from datalog_gate.stack.model import Data, Path
from datalog_gate.stack.property_values import EMPTY, Leaf, leaves, path_text, typed

_PROPERTIES = ("properties",)
_ABSENT = object()
_SMALL = 2**63
"""Integers below it are their own values; whether others are is asked of `typed`."""


class _Column(NamedTuple):
    """A column of a table, the types whose values stand for themselves in it, and its value where the data says
    nothing: the default, else null."""

    property: Property
    own: frozenset[type]
    blank: Value

    def values(self, data: Collection[Mapping[str, Data]]) -> list[Value]:
        """The values in it of all that data. They are mostly of one type, which then is looked at once."""
        name, kind = self.property.name, self.property.kind
        values: list[Any]
        try:
            values = [one[name] for one in data]
        except KeyError:
            values = [one.get(name, _ABSENT) for one in data]
        types = set(map(type, values))
        if types <= self.own or (types == {int} and kind in ("integer", "number") and max(map(abs, values)) < _SMALL):
            return values
        return [self._value(value) for value in values]

    def _value(self, data: Data) -> Value:
        if data is _ABSENT:
            return self.blank
        return typed(self.property.kind, self.property.default if data is None else data)


class TableRows:
    """Makes the rows of one table; what of it depends on the catalogue alone is computed once."""

    __slots__ = ("_columns", "_default", "_flat", "_item", "_shape", "_steps", "relation")

    def __init__(self, table: Table) -> None:
        self.relation, self._steps, self._shape = table.relation, table.steps, table.shape
        self._columns = [
            _Column(
                column,
                frozenset({str, ResourceId, Unknown} if column.kind in ("string", "any") else {ResourceId, Unknown}),
                None if column.default is None else typed(column.kind, column.default),
            )
            for column in table.columns
        ]
        self._item = member_of(table.steps[-1]).kind if table.shape == "value" else ""
        self._default = table.steps[0].default if table.steps else None
        self._flat = len(table.steps) == 1 and table.steps[0].kind == "list" and table.shape != "free"

    def rows(self, batch: Batch, found: RelationRows) -> None:
        """Add the rows of resources of the table's type."""
        alike, context, certain = batch.alike, batch.context, found.certain
        if not self._steps:
            rows = self._rows((alike.ids, repeat(context.stack.id)), alike.properties.values(), batch.property_names)
            certain |= dict.fromkeys(rows, context)
            return
        name, maps, texts = self._steps[0].name, self._shape == "columns", self._item in ("string", "any")
        if name not in batch.property_names and self._default is None:
            return
        ids, indexes, members = [], [], []
        for id, (own, properties) in zip(alike.ids, alike.properties.items(), strict=True):
            data = properties.get(name)
            if self._flat and type(data) is list:
                for index, member in enumerate(data):
                    if maps and type(member) is dict:
                        ids.append(id)
                        indexes.append(index)
                        members.append(member)
                    elif texts and type(member) is str:
                        certain[id, index, member] = context
                    else:
                        fact = self._member(self._steps, member, (id, index), ("properties", name, index))
                        found.add(context.resource(own), fact)
            elif data is not None or self._default is not None:
                found.add(context.resource(own), self._below(self._steps, properties, (id,), _PROPERTIES))
        certain |= dict.fromkeys(self._rows((ids, indexes), members, set().union(*members)), context)

    def _rows(
        self, known: Iterable[Iterable[Value]], data: Collection[Mapping[str, Data]], said: Container[str]
    ) -> Iterator[Row]:
        """The rows that begin with the known columns and go on with what each piece of data says, made by column. All
        keys of the data are `said`."""
        columns = (
            column.values(data) if column.property.name in said else repeat(column.blank) for column in self._columns
        )
        return zip(*known, *columns, strict=False)

    def _below(self, steps: tuple[Property, ...], data: Mapping[str, Data], known: Row, path: Path) -> Iterator[Fact]:
        """The rows below data that holds the list or map of the first step."""
        step = steps[0]
        found = data.get(step.name)
        found = step.default if found is None else found
        if found is None:
            return
        path = (*path, step.name)
        if step.kind == "map" and isinstance(found, dict):
            yield from self._member(steps, found, known, path)
        elif step.kind == "list" and isinstance(found, list):
            for index, member in enumerate(found):
                yield from self._member(steps, member, (*known, index), (*path, index))
        else:
            yield self._open(found, known, path)

    def _member(self, steps: tuple[Property, ...], member: Data, known: Row, path: Path) -> Iterable[Fact]:
        """The rows of one member of a list, or of a map. Heat reads a null in a list as an empty value."""
        if len(steps) == 1 and self._shape == "value":
            value = EMPTY.get(self._item) if member is None else typed(self._item, member)
            return (((*known, value), path, None),)
        if not isinstance(member, dict | None):
            return (self._open(member, known, path),)
        if len(steps) > 1:
            return self._below(steps[1:], member or {}, known, path)
        if self._shape == "columns":
            [row] = self._rows([(value,) for value in known], [member or {}], member or {})
            return ((row, path, None),)
        return entries(self.relation, known, leaves(member or {}), path)

    def _open(self, data: Data, known: Row, path: Path) -> Fact:
        """The wildcard for data that is no list or map where Heat wants one: unknown, or something that Heat will
        refuse and that a rule must not miss."""
        unknown = data if isinstance(data, Unknown) else Unknown(f"what Heat makes of {path_text(path)}")
        return wildcard(self.relation, known, path, unknown)


def entries(relation: Relation, known: Row, found: Iterable[Leaf], path: Path) -> Iterator[Fact]:
    """The scalars of nested data as rows of the known values, the path in the data and the value. An unknown that may
    be a list or map is a maybe row, and a wildcard for what may be below it."""
    for way, text, value, open_ in found:
        place = (*path, *way)
        open_to = value if open_ and isinstance(value, Unknown) else None
        if way:
            yield (*known, text, value), place, open_to
        if open_to:
            yield wildcard(relation, known, place, open_to)


def wildcard(relation: Relation, known: Row, path: Path, unknown: Unknown) -> Fact:
    """The maybe row that begins with the known values and holds unknowns in all other columns, for any number of rows.
    Each unknown names its column and place, so that it is equal to nothing else, and ends with the expression that
    decides it. The row's own id or stack, if unknown, is none that was read; only a resource may stand in a stack that
    was."""
    where = " ".join((*map(show, known), path_text(path)))
    columns = relation.columns[len(known) :]
    row = (
        Unknown(
            derived(f"any {column.name} of {relation.name} in {where}: ", unknown),
            unknown.place,
            several=True,
            kinds=column.kinds,
            apart=column.name in ("_id", "id") or (column.name == "stack" and relation.name != "heat:resource"),
        )
        for column in columns
    )
    return (*known, *row), path, unknown
