"""From a stack to facts (layer 2): in, the `Stack` that the reader of templates made; out, its `FactSet`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from datalog_gate.catalogue.relations import FIXED
from datalog_gate.catalogue.resource_types import Table, tables_of
from datalog_gate.catalogue.schema import ResourceType
from datalog_gate.facts.factset import FactSet, Origin
from datalog_gate.facts.grants import GRANT_ROWS, POLICY
from datalog_gate.facts.moved import as_heat_reads
from datalog_gate.facts.resources import RESOURCE_ROWS, STACK_ROWS, Home
from datalog_gate.facts.stack import Resource, Stack
from datalog_gate.facts.tables import Fact, table_rows, wildcard
from datalog_gate.values import Unknown


class Catalogue(Protocol):
    """What is read of the catalogue; the package `datalog_gate.catalogue` is one."""

    def type(self, name: str, /) -> ResourceType | None: ...
    def types(self) -> Iterable[str]: ...


def flatten(stack: Stack, catalogue: Catalogue, wanted: Collection[str] | None = None) -> FactSet:
    """The facts of a stack and of all stacks within, of the `wanted` relations only (None: of all there are).

    All rows of a resource under an undecided condition, and of what it holds, are maybe rows. So are the wildcards for
    a list, map or group whose extent nobody knows. A group whose members are not all read may hold more like those that
    were: it gives one wildcard for each relation that their types have, and if none was read for every relation.
    """
    facts = FactSet()
    _add_stack(facts, _Wanted(catalogue, wanted), stack, None)
    return facts


class _Wanted:
    """The functions and tables of the wanted relations. The tables of a type are chosen once."""

    __slots__ = ("_tables", "_wanted", "catalogue", "of_grant", "of_resource", "of_stack")

    def __init__(self, catalogue: Catalogue, wanted: Collection[str] | None) -> None:
        self.catalogue = catalogue
        self._wanted = None if wanted is None else frozenset(wanted)
        self._tables: dict[str, tuple[Table, ...]] = {}
        self.of_stack = {name: rows for name, rows in STACK_ROWS.items() if self._wants(name)}
        self.of_resource = {name: rows for name, rows in RESOURCE_ROWS.items() if self._wants(name)}
        self.of_grant = {name: rows for name, rows in GRANT_ROWS.items() if self._wants(name)}

    def tables(self, type_name: str) -> tuple[Table, ...]:
        """The wanted tables of a type; none if the catalogue does not know it."""
        if type_name not in self._tables:
            kind = self.catalogue.type(type_name)
            tables = tables_of(kind) if kind else ()
            self._tables[type_name] = tuple(one for one in tables if self._wants(one.relation.name))
        return self._tables[type_name]

    def _wants(self, name: str) -> bool:
        return self._wanted is None or name in self._wanted


def _add_stack(facts: FactSet, wanted: _Wanted, stack: Stack, maybe: Unknown | None) -> None:
    origin = Origin(lambda _path: stack.place)
    for name, rows in wanted.of_stack.items():
        for fact in rows(stack):
            facts.add(name, fact.row, origin, maybe or fact.maybe)
    home = Home(stack, {one.name: one for one in stack.resources}, wanted.catalogue.type)
    for resource in stack.resources:
        uncertain = maybe or resource.maybe
        resource = as_heat_reads(resource, home.type_of(resource.type))
        for name, fact in _rows(wanted, resource, home):
            facts.add(name, fact.row, Origin(resource.locate, fact.path), uncertain or fact.maybe)
        if resource.nested:
            _add_stack(facts, wanted, resource.nested, uncertain)


def _rows(wanted: _Wanted, resource: Resource, home: Home) -> Iterator[tuple[str, Fact]]:
    """The rows of a resource with their relations."""
    for name, rows in wanted.of_resource.items():
        for fact in rows(resource, home):
            yield name, fact
    for table in wanted.tables(resource.type):
        for fact in table_rows(table, resource, home.stack):
            yield table.relation.name, fact
    if resource.type == POLICY:
        for name, rows in wanted.of_grant.items():
            for fact in rows(resource, home):
                yield name, fact
    if resource.open_members:
        yield from _unread(wanted, resource, resource.open_members)


def _unread(wanted: _Wanted, group: Resource, unknown: Unknown) -> Iterator[tuple[str, Fact]]:
    """A wildcard for each relation that members which nobody read may add rows to."""
    stacks = tuple(group.nested.walk()) if group.nested else ()
    types = {one.type for stack in stacks for one in stack.resources}
    deep = len(stacks) > 1 or not types
    types = set(wanted.catalogue.types()) if deep else types  # another member may decide its conditions otherwise
    fixed = [*wanted.of_resource, *(wanted.of_stack if deep else ()), *(wanted.of_grant if POLICY in types else ())]
    relations = [FIXED[name] for name in fixed]
    relations += [table.relation for name in sorted(types) for table in wanted.tables(name)]
    for relation in relations:
        known = (group.id,) if relation.name == "heat:member" and not deep else ()
        yield relation.name, wildcard(relation, known, ("members", group.id.path), unknown)
