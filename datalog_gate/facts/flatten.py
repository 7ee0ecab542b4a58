"""From a stack to facts (layer 2): in, the `Stack` that the reader of templates made; out, its `FactSet`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Protocol

from datalog_gate.catalogue.relations import FIXED
from datalog_gate.catalogue.resource_types import tables_of
from datalog_gate.catalogue.schema import Relation, ResourceType
from datalog_gate.collection import paused
from datalog_gate.facts.deployments import deployments
from datalog_gate.facts.factset import FactSet, Origin
from datalog_gate.facts.grants import GRANT_ROWS, POLICY
from datalog_gate.facts.moved import as_heat_reads
from datalog_gate.facts.resources import RESOURCE_ROWS, STACK_ROWS, environment_rows
from datalog_gate.facts.source import SOURCE_ROWS
from datalog_gate.facts.stack import Path, Resource, Stack
from datalog_gate.facts.tables import Fact, Home, Placed, TableRows, wildcard
from datalog_gate.facts.typed import path_text
from datalog_gate.values import ResourceId, Row, Unknown

_NAMES = frozenset({"id", "stack", "_id", "_stack", "_index", "_index2"})
"""Columns that say which resource it is, or which item of a list."""
_WHOLE = frozenset({"value", "_value"})
"""Columns that hold all that stands at the path of the row."""

ENVIRONMENT = "heat:environment"
DEPLOYMENT = "heat:deployment"
EVERY_RESOURCE = RESOURCE_ROWS | SOURCE_ROWS | {DEPLOYMENT: deployments}


class Catalogue(Protocol):
    """What is read of the catalogue; the package `datalog_gate.catalogue` is one."""

    def type(self, name: str, /) -> ResourceType | None: ...
    def types(self) -> Iterable[str]: ...


@paused()
def flatten(
    stack: Stack, catalogue: Catalogue, wanted: Collection[str] | None = None, facts: FactSet | None = None
) -> FactSet:
    """The facts of a stack and of all stacks within, of the `wanted` relations only (None: of all there are), added to
    `facts` if these are given.

    All rows of a resource under an undecided condition, and of what it holds, are maybe rows. So are the wildcards for
    a list, map or group whose extent nobody knows. A group whose members are not all read may hold more like those that
    were: it gives one wildcard for each relation that their types have, and if none was read for every relation.
    """
    asked = _Wanted(catalogue, wanted)
    placed = tuple(_placed(stack, catalogue, None))
    facts = FactSet() if facts is None else facts
    for name, rows in asked.of_stack.items():
        for one, maybe in _stacks(stack, None):
            facts.extend(name, ((row, (one, path), maybe or unsure) for row, path, unsure in rows(one)))
    for name, of in asked.of_resource.items():
        _add(facts, name, of, placed)
    by_type: dict[str, list[Placed]] = {}
    for found in placed:
        by_type.setdefault(found[0].type, []).append(found)
    for kind, those in by_type.items():
        for table in asked.tables(kind):
            _add(facts, table.relation.name, table.rows, those)
    for name, of in asked.of_grant.items():
        _add(facts, name, of, by_type.get(POLICY, ()))
    for resource, _home, maybe in placed:
        if resource.open_members:
            for name, (row, path, unsure) in _unread(asked, resource, resource.open_members):
                facts.add(name, row, (resource, path), maybe or unsure)
    if wanted is None or ENVIRONMENT in wanted:
        for file, (row, path, _) in environment_rows(stack):
            facts.add(ENVIRONMENT, row, (file, path))
    _hide(facts, asked, stack, placed)
    return facts


def _hide(facts: FactSet, asked: _Wanted, stack: Stack, placed: Iterable[Placed]) -> None:
    """Note in the facts which values came from a hidden parameter."""
    for one in stack.walk():
        hidden = {("parameters", each.name) for each in one.parameters if each.hidden}.union(one.hidden)
        for name, rows in asked.of_stack.items() if hidden else ():
            for row, path, _ in rows(one):
                if path in hidden:
                    facts.hide(name, row, [FIXED[name].positions["value"]])
    secret = {path_text((each.name,)) for one in stack.walk() for each in one.parameters if each.hidden}
    for row in facts.rows.get(ENVIRONMENT, ()) if secret else ():
        if row[1] in ("parameters", "parameter_defaults") and any(
            f"{row[2]}.".startswith(f"{name}.") for name in secret
        ):
            facts.hide(ENVIRONMENT, row, [3])
    secretive = {one.id: one.hides for one, _, _ in placed if one.veiled}
    for row in (
        facts.rows.get(DEPLOYMENT, ()) if secretive else ()
    ):  # a digest of a short secret tells it to who guesses
        involved = (secretive.get(one) for one in row[:2] if isinstance(one, ResourceId))
        if any(hides and hides(("properties",), True) for hides in involved):
            facts.hide(DEPLOYMENT, row, [FIXED[DEPLOYMENT].positions["digest"]])
    for name, found in facts.rows.items() if secretive else ():
        relation = asked.relation(name)
        for row, origin in found.items():
            if relation and origin and isinstance(origin[0], Resource) and origin[0].veiled:
                facts.hide(name, row, _hidden(relation, origin[1], origin[0].hides))


def _hidden(relation: Relation, path: Path, hides: Callable[[Path, bool], bool]) -> Iterator[int]:
    """The columns of a row that hold what came from a hidden parameter. The keys on the way to a value did only where
    the map did that holds the last of them."""
    last = max((at for at, step in enumerate(path) if isinstance(step, str)), default=0)
    for at, column in enumerate(relation.columns):
        if column.name in ("path", "_key", "_key2"):
            if hides(path[:last], False):
                yield at
        elif column.name not in _NAMES and hides(path if column.name in _WHOLE else (*path, column.name), True):
            yield at


def _stacks(stack: Stack, maybe: Unknown | None) -> Iterator[tuple[Stack, Unknown | None]]:
    """The stack and all within, each with the undecided condition under which it exists."""
    yield stack, maybe
    for resource in stack.resources:
        if resource.nested:
            yield from _stacks(resource.nested, maybe or resource.maybe)


def _placed(stack: Stack, catalogue: Catalogue, maybe: Unknown | None, outer: Home | None = None) -> Iterator[Placed]:
    """Every resource as Heat reads it, with its home and the undecided condition under which it exists."""
    home = Home(stack, {one.name: one for one in stack.resources}, catalogue.type, outer)
    kinds = {name: catalogue.type(name) for name in {one.type for one in stack.resources}}
    for resource in stack.resources:
        uncertain = maybe or resource.maybe
        kind = kinds[resource.type]
        if kind and not kind.movable.isdisjoint(resource.properties):
            yield as_heat_reads(resource, kind), home, uncertain
        else:
            yield resource, home, uncertain
        if resource.nested:
            yield from _placed(resource.nested, catalogue, uncertain, home)


def _add(
    facts: FactSet, relation: str, of: Callable[[Resource, Home], Iterable[Fact]], placed: Iterable[Placed]
) -> None:
    """Add the rows of a relation that resources have. Most are certain, and are added at once."""
    certain: dict[Row, Origin | None] = {}
    uncertain: list[tuple[Row, Origin, Unknown]] = []
    for resource, home, maybe in placed:
        for row, path, unsure in of(resource, home):
            if why := maybe or unsure:
                uncertain.append((row, (resource, path), why))
            elif row not in certain:
                certain[row] = (resource, path)
    facts.fill(relation, certain)
    if uncertain:
        facts.extend(relation, uncertain)


class _Wanted:
    """The functions and tables of the wanted relations. The tables of a type are chosen once."""

    __slots__ = ("_tables", "_wanted", "catalogue", "of_grant", "of_resource", "of_stack")

    def __init__(self, catalogue: Catalogue, wanted: Collection[str] | None) -> None:
        self.catalogue = catalogue
        self._wanted = None if wanted is None else frozenset(wanted)
        self._tables: dict[str, tuple[TableRows, ...]] = {}
        self.of_stack = {name: rows for name, rows in STACK_ROWS.items() if self._wants(name)}
        self.of_resource = {name: rows for name, rows in EVERY_RESOURCE.items() if self._wants(name)}
        self.of_grant = {name: rows for name, rows in GRANT_ROWS.items() if self._wants(name)}

    def tables(self, type_name: str) -> tuple[TableRows, ...]:
        """The wanted tables of a type; none if the catalogue does not know it."""
        if type_name not in self._tables:
            kind = self.catalogue.type(type_name)
            tables = tables_of(kind) if kind else ()
            self._tables[type_name] = tuple(TableRows(one) for one in tables if self._wants(one.relation.name))
        return self._tables[type_name]

    def relation(self, name: str) -> Relation | None:
        """The relation of that name, if the stack can have rows of it."""
        tables = (one.relation for tables in self._tables.values() for one in tables)
        return FIXED.get(name) or next((one for one in tables if one.name == name), None)

    def _wants(self, name: str) -> bool:
        return self._wanted is None or name in self._wanted


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
