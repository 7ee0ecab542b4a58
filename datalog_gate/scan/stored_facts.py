"""Facts of stacks as rows of tables, each with its root first.

A relation is a table, with the columns of its declaration. Stack names are not unique in a cloud, so ids of stacks and
resources begin with the root instead. Values that tables can't hold (unknowns and values of hidden parameters) are
recorded by root, relation and column, and judged from the definition. Rows that may not exist are in a separate table.
A digest of the unknowns in a column shows which stacks are judged alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from hashlib import sha256

from datalog_gate.base.expression import phrase
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.base.unknown import outline
from datalog_gate.base.values import Kind, ResourceId, Row, Unknown, Value, hidden_value
from datalog_gate.engine.sql.tables import RelationTable, Representation, SqlRow
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.flatten import flatten
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import MAYBE, RelationRef
from datalog_gate.stack.model import Stack, sizes

UNCERTAIN = ""
"""Used instead of a column: a row that may not exist."""
OWN = ""
"""Used instead of a digest: values of which more than their outlines counts."""


@dataclass(slots=True)
class FactRows:
    """Rows of many stacks by relation."""

    rows: dict[str, list[SqlRow]] = field(default_factory=dict)
    unfit: dict[tuple[str, str, str], str] = field(default_factory=dict)
    """By root, relation and column of values that tables can't hold, the digest of these and the keys of their rows. It
    is equal in stacks that differ in their names alone."""

    def extend(self, other: FactRows) -> None:
        for relation, rows in other.rows.items():
            self.rows.setdefault(relation, []).extend(rows)
        self.unfit |= other.unfit


@dataclass(slots=True)
class RootedRows:
    """Rows of many stacks by relation, with the root first, before encoding."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    unfit: dict[tuple[str, str, str], str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """The name of each stack by root, if no group in it has members that may not exist: these are judged together."""

    def add(
        self,
        root: str,
        stack: Stack,
        catalogue: Catalogue,
        judged: FactSet | None,
        inputs: Collection[RelationRef],
    ) -> None:
        """Add the facts of a stack. Those that were `judged`, of these `inputs`, are reused, and other relations are
        added to them. It is None if they include facts of other stacks."""
        filled = catalogue.filled_by_stacks()
        facts = flatten(stack, catalogue, filled if judged is None else filled.difference(inputs), judged)
        rename = _renaming(stack.id, root)
        if not any(sizes(resource) for part in stack.walk() for resource in part.resources):
            self.names[root] = stack.id
        for relation, rows in facts.rows.items():
            if not isinstance(relation, str) or relation not in filled:
                continue
            uncertain, hidden = facts.maybe.get(relation, {}), facts.hidden.get(relation, {})
            names, of_stacks = _columns(catalogue, relation)
            if uncertain:
                self.unfit[root, relation, UNCERTAIN] = OWN
            for row in rows:
                name = relation + MAYBE if row in uncertain else relation
                values = rename(row, of_stacks)
                for at in hidden.get(row, ()):
                    values[at] = None
                    self.unfit[root, name, names[at]] = OWN
                self.rows.setdefault(name, []).append((root, *values))

    def encode(self, catalogue: Catalogue) -> FactRows:
        """The rows encoded for tables."""
        encoded = FactRows()
        for relation, rows in self.rows.items():
            table = fact_table(relation, catalogue)
            result = table.encode(rows)
            encoded.rows[relation] = result.rows
            values: dict[tuple[str, str, str], list[tuple[Row, Value]]] = {}
            for number, at in result.unfit:
                row = rows[number]
                key = _relative_key(relation, catalogue, row)
                values.setdefault((str(row[0]), relation, table.names[at]), []).append((key, row[at]))
            encoded.unfit |= {place: self._digest(place[0], found) for place, found in values.items()}
        encoded.unfit |= self.unfit
        return encoded

    def _digest(self, root: str, values: list[tuple[Row, Value]]) -> str:
        """The digest of unfit values in a column, with the keys of their rows. It is `OWN` if keys do not tell the rows
        apart, or if a case analysis may read the stack again."""
        name = self.names.get(root)
        outlines: dict[str, object] = {}
        for key, value in values:
            if name is None or not isinstance(value, Unknown) or any(part.domain for part in (value, *value.of)):
                return OWN
            if Unknown in map(type, key):
                return OWN
            outlines[repr(key)] = outline(value, name)
        if len(outlines) < len(values):
            return OWN
        return sha256(repr(sorted(outlines.items())).encode("utf-8", "surrogatepass")).hexdigest()


def rooted_facts(
    root: str, stack: Stack, catalogue: Catalogue, wanted: Collection[str]
) -> Iterator[tuple[str, Row, bool]]:
    """The facts of a stack, with its root instead of its name, including values that tables can't hold: relation, row,
    and whether the row may not exist. A hidden value is an unknown. Unknowns of different stacks differ, even if the
    stacks have the same name."""
    facts = flatten(stack, catalogue, wanted)
    rename = _renaming(stack.id, root)
    for relation, rows in facts.rows.items():
        assert isinstance(relation, str)
        uncertain, hidden = facts.maybe.get(relation, {}), facts.hidden.get(relation, {})
        _, of_stacks = _columns(catalogue, relation)
        for number, row in enumerate(rows):
            values = rename(row, of_stacks)
            for at, value in enumerate(values):
                if at in hidden.get(row, ()):
                    values[at] = hidden_value(f"{relation} {number} {at} of {root}")
                elif isinstance(value, Unknown):
                    values[at] = replace(value, source=phrase(f"{value.expression} of {root}"))
            yield relation, tuple(values), row in uncertain


@cache
def fact_table(relation: str, catalogue: Catalogue) -> RelationTable:
    """The table of a relation that stacks fill, or of its rows that may not exist."""
    return RelationTable.of(relation, catalogue.declared(relation.removesuffix(MAYBE)), lifted=True)


def _renaming(name: str, root: str) -> Callable[[Row, Collection[int]], list[Value]]:
    """Create a function that replaces the stack's name by the root: in resources, and in columns with stack ids."""
    below = f"{name}/"
    renamed: dict[str, ResourceId] = {}

    def rename(row: Row, of_stacks: Collection[int]) -> list[Value]:
        values = list(row)
        for at, value in enumerate(row):
            if type(value) is ResourceId:
                path = value.path
                if path not in renamed:
                    renamed[path] = ResourceId(f"{root}/{path.removeprefix(below)}")
                values[at] = renamed[path]
        for at in of_stacks:
            value = row[at]
            if isinstance(value, str) and (value == name or value.startswith(below)):
                values[at] = root + value[len(name) :]
        return values

    return rename


@cache
def rooted_columns(relation: str, catalogue: Catalogue) -> Mapping[int, str]:
    """The columns of a relation's table with the root instead of the stack's name, with their letter: those with ids of
    resources or stacks."""
    table = fact_table(relation, catalogue)
    letters = {Representation.RESOURCE: "", Representation.TAGGED: Representation.RESOURCE.value}
    rooted = {at + 1: "" for at in _columns(catalogue, relation)[1]}
    for at, column in enumerate(table.columns):
        if column.representation in letters:
            rooted[at] = letters[column.representation]
    return rooted


@cache
def key_columns(relation: str, catalogue: Catalogue) -> tuple[int, ...]:
    """The columns of a relation's table that tell its rows apart."""
    declared = catalogue.declared(relation.removesuffix(MAYBE))
    return tuple(declared.positions[name] + 1 for name in declared.key or declared.positions)


def _relative_key(relation: str, catalogue: Catalogue, row: Row) -> Row:
    """The values of the key columns of a row, without the root that ids begin with."""
    root, of_stacks = str(row[0]), _columns(catalogue, relation.removesuffix(MAYBE))[1]
    key: list[Value] = []
    for at in key_columns(relation, catalogue):
        value = row[at]
        if isinstance(value, ResourceId):
            value = value.path.removeprefix(root)
        elif isinstance(value, str) and at - 1 in of_stacks:
            value = value.removeprefix(root)
        key.append(value)
    return tuple(key)


@cache
def _columns(catalogue: Catalogue, relation: str) -> tuple[tuple[str, ...], frozenset[int]]:
    """The names of a relation's columns in its table, and the positions of those with stack ids."""
    names = {"stack"} if relation.startswith("heat:") else {"_stack"}  # elsewhere `stack` may be a property
    names |= {"id"} if relation == "heat:stack" else set()
    columns = catalogue.declared(relation).columns
    own = frozenset(at for at, column in enumerate(columns) if column.name in names and column.kinds & Kind.STRING)
    return fact_table(relation, catalogue).names[1:], own
