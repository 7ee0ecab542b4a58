"""Tables of resources of one type.

A list or map of unknown size gives a *wildcard*: a maybe row that stands for all rows it may contain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

from datalog_gate.base.expression import phrase
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.unknown import derived
from datalog_gate.base.values import Kind, ResourceId, Row, Unknown, Value, show
from datalog_gate.facts.factset import StoredOrigin
from datalog_gate.schema.declaration import Property, Relation, ResourceType
from datalog_gate.schema.resource_types import TypeTable, member_of
from datalog_gate.stack.model import Data, Path, Resource, Stack
from datalog_gate.stack.property_values import EMPTY, Leaf, coerce, leaves, path_text

LocatedRow = tuple[Row, Path, Unknown | None]
"""A row, the path of its place in the resource's definition, and the unknown that decides whether the row exists."""


class FunctionUse(NamedTuple):
    """A use of a template function: the path that rules read, and its place in the definition."""

    path: str
    place: Path
    function: str
    arguments: Data


@dataclass(frozen=True, eq=False)
class StackContext:
    """The stack around a resource, with cached data about its resources, by name."""

    stack: Stack
    type_of: Callable[[str], ResourceType | None]
    """The schema of a resource type; None if the catalogue has none."""
    outer: StackContext | None = None
    """The context of the resource whose nested stack this is."""
    translated: dict[str, Resource] = field(default_factory=dict, init=False, repr=False)
    """The resources whose properties Heat reads under other names, as Heat reads them."""
    function_uses: dict[str, Sequence[FunctionUse]] = field(default_factory=dict, init=False, repr=False)
    """The function uses in the source of each resource."""
    leaves: dict[str, Sequence[Leaf]] = field(default_factory=dict, init=False, repr=False)
    """The scalars in the properties of each resource."""
    schemas: dict[str, Property | None] = field(default_factory=dict, init=False, repr=False)
    """The properties of each resource type as one schema; None for types not in the catalogue."""

    @cached_property
    def own(self) -> dict[str, Resource]:
        """The resources of the stack by name."""
        return self.stack.named

    def resource(self, name: str) -> Resource:
        """A resource of the stack, with properties as Heat reads them. Errors: KeyError."""
        return self.translated.get(name) or self.own[name]

    def find(self, id: ResourceId) -> Resource | None:
        """The resource with this id in this stack or an outer one."""
        resource = self.own.get(id.name)
        if resource and resource.id == id:
            return resource
        return self.outer.find(id) if self.outer else None


@dataclass(frozen=True)
class Batch:
    """Resources of one type in one stack that exist under the same condition."""

    type: str
    resources: Sequence[Resource]
    """The resources, with properties as Heat reads them."""
    property_names: Set[str]
    """The names of all properties of the resources."""
    context: StackContext
    maybe: Unknown | None
    """The undecided condition under which the resources exist."""


@dataclass(slots=True)
class RelationRows:
    """The rows of one relation with their origins; uncertain ones with the unknown that decides them."""

    certain: dict[Row, StoredOrigin] = field(default_factory=dict)
    uncertain: list[tuple[Row, StoredOrigin, Unknown]] = field(default_factory=list)

    def add(self, resource: Resource, facts: Iterable[LocatedRow]) -> None:
        """Add rows of a resource."""
        for row, path, maybe in facts:
            if maybe:
                self.uncertain.append((row, (resource, path), maybe))
            else:
                self.certain.setdefault(row, (resource, path))


AddRows = Callable[[Batch, RelationRows], None]
"""Adds the rows of a batch to one relation."""

_PROPERTIES = ("properties",)
_ABSENT = object()
_SMALL = 2**63
"""Integers below this are values without conversion; larger ones are checked by `coerce`."""


class _Column(NamedTuple):
    property: Property
    own_types: frozenset[type]
    """The types of data that are values of the column without conversion."""
    blank: Value
    """The value for missing data: the default, or null."""
    kinds: Kind
    """The kinds of its values."""

    def values(self, data: Collection[Mapping[str, Data]]) -> list[Value]:
        """The values of the column in all the data. Usually they have one type, which is checked once."""
        name, kind = self.property.name, self.property.kind
        values: list[Any]
        try:
            values = [mapping[name] for mapping in data]
        except KeyError:
            values = [mapping.get(name, _ABSENT) for mapping in data]
        types = set(map(type, values))
        is_integer = types == {int} and kind in ("integer", "number")
        if types <= self.own_types or (is_integer and max(map(abs, values)) < _SMALL):
            return values
        return [self._value(value) for value in values]

    def _value(self, data: Data) -> Value:
        if data is _ABSENT:
            return self.blank
        return _taken(coerce(self.property.kind, self.property.default if data is None else data), self.kinds)


class TableRows:
    """The rows of one table. Everything that depends only on the catalogue is computed once."""

    __slots__ = ("_columns", "_default", "_flat", "_item", "_shape", "_steps", "relation")

    def __init__(self, table: TypeTable) -> None:
        self.relation, self._steps, self._shape = table.relation, table.steps, table.shape
        kinds = {column.name: column.kinds for column in table.relation.columns}
        self._columns = [
            _Column(
                column,
                frozenset({Unknown} | ({str} if column.kind in ("string", "any") else set()) | _resources(kinds[name])),
                None if column.default is None else coerce(column.kind, column.default),
                kinds[name],
            )
            for column in table.columns
            for name in [column.name]
        ]
        self._item = member_of(table.steps[-1]).kind if table.shape == "value" else ""
        self._default = table.steps[0].default if table.steps else None
        self._flat = len(table.steps) == 1 and table.steps[0].kind == "list" and table.shape != "free"
        if self._flat:  # the place of such a row is found by the name of its relation
            self._flat = table.relation.name.endswith(f".{table.steps[0].name}")

    def rows(self, batch: Batch, rows: RelationRows) -> None:
        """Add the rows of a batch of resources of the table's type."""
        resources, resource_of, certain = batch.resources, batch.context.resource, rows.certain
        if not self._steps:
            known = [resource.id for resource in resources], repeat(batch.context.stack.id)
            added = self._rows(known, [resource.properties for resource in resources], batch.property_names)
            certain |= dict.fromkeys(added, resource_of)
            return
        name = self._steps[0].name
        takes_maps, takes_texts = self._shape == "columns", self._item in ("string", "any")
        if name not in batch.property_names and self._default is None:
            return
        ids, indexes, members = [], [], []
        for resource in resources:
            id, data = resource.id, resource.properties.get(name)
            if self._flat and type(data) is list:
                for index, member in enumerate(data):
                    if takes_maps and type(member) is dict:
                        ids.append(id)
                        indexes.append(index)
                        members.append(member)
                    elif takes_texts and type(member) is str:
                        certain[id, index, member] = resource_of
                    else:
                        fact = self._member(self._steps, member, (id, index), ("properties", name, index))
                        rows.add(resource, fact)
            elif data is not None or self._default is not None:
                rows.add(resource, self._below(self._steps, resource.properties, (id,), _PROPERTIES))
        certain |= dict.fromkeys(self._rows((ids, indexes), members, set().union(*members)), resource_of)

    def _rows(
        self, known: Iterable[Iterable[Value]], data: Collection[Mapping[str, Data]], keys: Container[str]
    ) -> Iterator[Row]:
        """The rows from the known columns and the columns of the data, which has these keys."""
        columns = (
            column.values(data) if column.property.name in keys else repeat(column.blank) for column in self._columns
        )
        return zip(*known, *columns, strict=False)

    def _below(
        self, steps: tuple[Property, ...], data: Mapping[str, Data], known: Row, path: Path
    ) -> Iterator[LocatedRow]:
        """The rows in data that contains the list or map of the first step."""
        step = steps[0]
        value = data.get(step.name)
        if value is None:
            value = step.default
        if value is None:
            return
        path = (*path, step.name)
        if step.kind == "map" and isinstance(value, dict):
            yield from self._member(steps, value, known, path)
        elif step.kind == "list" and isinstance(value, list):
            for index, member in enumerate(value):
                yield from self._member(steps, member, (*known, index), (*path, index))
        else:
            yield self._open_row(value, known, path)

    def _member(self, steps: tuple[Property, ...], member: Data, known: Row, path: Path) -> Iterable[LocatedRow]:
        """The rows of a list member, or of a map. Heat reads a null in a list as an empty value."""
        if len(steps) == 1 and self._shape == "value":
            value = EMPTY.get(self._item) if member is None else coerce(self._item, member)
            value = _taken(value, self.relation.columns[-1].kinds)
            return (((*known, value), path, None),)
        if not isinstance(member, dict | None):
            return (self._open_row(member, known, path),)
        if len(steps) > 1:
            return self._below(steps[1:], member or {}, known, path)
        if self._shape == "columns":
            [row] = self._rows([(value,) for value in known], [member or {}], member or {})
            return ((row, path, None),)
        return entries(self.relation, known, leaves(member or {}), path)

    def _open_row(self, data: Data, known: Row, path: Path) -> LocatedRow:
        """The wildcard for data that is unknown, or that Heat will refuse, so that rules miss neither."""
        unknown = data if isinstance(data, Unknown) else Unknown(phrase(f"what Heat makes of {path_text(path)}"))
        return wildcard(self.relation, known, path, unknown)


def _resources(kinds: Kind) -> set[type]:
    return {ResourceId} if kinds & Kind.RESOURCE else set()


def _taken(value: Value, kinds: Kind) -> Value:
    """The value for a column of these kinds. A resource may stand for the text or number that Heat makes of it."""
    if isinstance(value, ResourceId) and not kinds & Kind.RESOURCE:
        return Unknown(phrase(f"id of {value.path}"), kinds=kinds & ~Kind.NULL)
    return value


def entries(relation: Relation, known: Row, data: Iterable[Leaf], path: Path) -> Iterator[LocatedRow]:
    """The scalars of nested data as rows of the known values, the path and the value. An unknown that may be a list or
    map gives a maybe row, and a wildcard for its content."""
    for leaf_path, text, value, open_ in data:
        place = (*path, *leaf_path)
        open_to = value if open_ and isinstance(value, Unknown) else None
        if leaf_path:
            yield (*known, text, value), place, open_to
        if open_to:
            row, place, unknown = wildcard(relation, known, place, open_to)
            inside = row[len(known)]
            if leaf_path and isinstance(inside, Unknown):  # a path that begins so
                row = (*known, replace(inside, prefix=f"{text}."), *row[len(known) + 1 :])
            yield row, place, unknown


def wildcard(relation: Relation, known: Row, path: Path, unknown: Unknown) -> LocatedRow:
    """The maybe row that stands for any number of rows: the known values, and unknowns in all other columns.

    Each unknown names its column and place, so that it equals no other value. An unknown id or stack is `apart`: it
    differs from all that were read, except that a resource may be in a stack that was read.
    """
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
