"""From a stack to facts (layer 2): in, the `Stack` that the reader of templates made; out, its `FactSet`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from operator import attrgetter

from datalog_gate.base.gc import paused
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.facts.deployments import deployments
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.grant_relations import GRANT_ROWS, POLICY
from datalog_gate.facts.source_relations import SOURCE_ROWS
from datalog_gate.facts.stack_relations import (
    NEEDED,
    RESOURCE_ROWS,
    STACK_ROWS,
    environment_rows,
    identities,
    live_rows,
)
from datalog_gate.facts.tables import Batch, Fact, Found, Home, Rows, TableRows, wildcard
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import Relation
from datalog_gate.schema.relations import FIXED
from datalog_gate.schema.resource_types import tables_of
from datalog_gate.stack.model import Alike, Path, Resource, Stack
from datalog_gate.stack.property_values import path_text
from datalog_gate.stack.translation import as_heat_reads, to_move

_NAMES = frozenset({"id", "stack", "_id", "_stack", "_index", "_index2"})
"""Columns that say which resource it is, or which item of a list."""
_WHOLE = frozenset({"value", "_value"})
"""Columns that hold all that stands at the path of the row."""

ROOT = "heat:root"
ENVIRONMENT = "heat:environment"
DEPLOYMENT = "heat:deployment"


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
    asked = _asked(catalogue, None if wanted is None else frozenset(wanted))
    stacks = tuple(_stacks(stack, None))
    batches = tuple(_batches(stack, catalogue, None))
    facts = FactSet() if facts is None else facts
    for name, of in asked.of_stack.items():
        for nested, maybe in stacks:
            facts.extend(name, ((row, (nested, path), maybe or unsure) for row, path, unsure in of(nested)))
    for name, rows in asked.of_resource.items():
        _add(facts, name, rows, batches)
    by_type: dict[str, list[Batch]] = {}
    for batch in batches:
        by_type.setdefault(batch.type, []).append(batch)
    for kind, found in by_type.items():
        made = [one for batch in found for one in _read_by_heat(batch)]
        for table in asked.tables(kind):
            _add(facts, table.relation.name, table.rows, made)
    for name, rows in asked.of_grant.items():
        _add(facts, name, rows, by_type.get(POLICY, ()))
    for batch in batches:
        for resource in batch.made:
            if resource.open_members:
                for name, (row, path, unsure) in _unread(asked, resource, resource.open_members):
                    facts.add(name, row, (resource, path), batch.maybe or unsure)
    if wanted is None or ROOT in wanted:
        facts.add(ROOT, (stack.id,), (stack, ()))
    if wanted is None or ENVIRONMENT in wanted:
        for file, (row, path, _) in environment_rows(stack):
            facts.add(ENVIRONMENT, row, (file, path))
    for name, live, row in live_rows(stack):
        if wanted is None or name in wanted:
            facts.add(name, row, (live, ()))
    _hide(facts, asked, [stack for stack, _ in stacks], batches)
    return facts


def _hide(facts: FactSet, asked: _Wanted, stacks: Iterable[Stack], batches: Iterable[Batch]) -> None:
    """Note in the facts which values came from a hidden parameter."""
    for stack in stacks:
        hidden = {("parameters", each.name) for each in stack.parameters if each.hidden}.union(stack.hidden)
        for name, rows in asked.of_stack.items() if hidden else ():
            for row, path, _ in rows(stack):
                if path in hidden:
                    facts.hide(name, row, [FIXED[name].positions["value"]])
    secret = {path_text((each.name,)) for stack in stacks for each in stack.parameters if each.hidden}
    for row in facts.rows.get(ENVIRONMENT, ()) if secret else ():
        if row[1] in ("parameters", "parameter_defaults") and any(
            f"{row[2]}.".startswith(f"{name}.") for name in secret
        ):
            facts.hide(ENVIRONMENT, row, [3])
    secretive = {resource.id: resource.hides for each in batches for resource in each.made if resource.veiled}
    for row in (
        facts.rows.get(DEPLOYMENT, ()) if secretive else ()
    ):  # a digest of a short secret tells it to who guesses
        involved = (secretive.get(value) for value in row[:2] if isinstance(value, ResourceId))
        if any(hides and hides(("properties",), True) for hides in involved):
            facts.hide(DEPLOYMENT, row, [FIXED[DEPLOYMENT].positions["digest"]])
    for name, found in facts.rows.items() if secretive else ():
        relation = asked.relation(name)
        for row in found:
            origin = facts.origin(name, row)
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
    for resource in stack.others:
        if resource.nested:
            yield from _stacks(resource.nested, maybe or resource.maybe)


def _batches(stack: Stack, catalogue: Catalogue, maybe: Unknown | None, outer: Home | None = None) -> Iterator[Batch]:
    """All resources as Heat reads them, those of a stack that have a type and no condition of their own together."""
    home = Home(stack, catalogue.type, outer)
    certain: dict[str, list[Resource]] = defaultdict(list)
    for resource in stack.others:
        if resource.maybe or resource.external:
            yield _batch((resource,), home, maybe or resource.maybe)
        else:
            certain[resource.type].append(resource)
        if resource.nested:
            yield from _batches(resource.nested, catalogue, maybe or resource.maybe, home)
    for name, alike in home.own.simple.types.items():
        properties = alike.properties.values()
        said = set[str]().union(*properties)
        if to_move(properties, said, catalogue.type(name)):
            certain[name] += map(home.resource, alike.properties)
        else:
            yield Batch(name, alike, said, home, maybe, repeat(name))
    for resources in certain.values():
        yield _batch(resources, home, maybe)


def _batch(resources: Sequence[Resource], home: Home, maybe: Unknown | None) -> Batch:
    """Resources of one type that are not simple, or that Heat reads under other names."""
    name = resources[0].type
    properties = [resource.properties for resource in resources]
    said = set[str]().union(*properties)
    kind = home.type_of(name)
    if to_move(properties, said, kind):
        resources = [as_heat_reads(resource, kind) for resource in resources]
        home.moved.update((resource.name, resource) for resource in resources)
        said = said.union(*[resource.properties for resource in resources])
    alike = Alike(
        {resource.name: resource.properties for resource in resources}, [resource.id for resource in resources]
    )
    return Batch(name, alike, said, home, maybe, [resource.declared for resource in resources], resources)


def _read_by_heat(batch: Batch) -> Iterator[Batch]:
    """The resources whose properties Heat reads: of an external one it reads none (heat/engine/resource.py:1187,1644),
    and it is told apart like one under a condition where nobody knows yet whether it is external."""
    external = bool(batch.made) and batch.made[0].external
    if external is False:
        yield batch
    elif external is not True:
        yield replace(batch, maybe=batch.maybe or external)


def _add(facts: FactSet, relation: str, rows: Rows, batches: Iterable[Batch]) -> None:
    """Add the rows of a relation that resources have."""
    found = Found()
    for batch in batches:
        if maybe := batch.maybe:
            below = Found()
            rows(batch, below)
            found.uncertain += ((row, of, maybe) for row, of in below.certain.items())
            found.uncertain += ((row, of, maybe) for row, of, _ in below.uncertain)
        else:
            rows(batch, found)
    facts.fill(relation, found.certain)
    facts.extend(relation, found.uncertain)


def _one_by_one(rows: Callable[[Resource, Home], Iterable[Fact]], needed: str = "id") -> Rows:
    """The rows of many resources from those of each that has what is needed."""
    has = attrgetter(needed)

    def of_all(batch: Batch, found: Found) -> None:
        for resource in filter(has, batch.resources):
            found.add(resource, rows(resource, batch.home))

    return of_all


EVERY_RESOURCE = {
    "heat:resource": identities,
    **{name: _one_by_one(rows, NEEDED.get(name, "id")) for name, rows in RESOURCE_ROWS.items()},
    **{name: _one_by_one(rows) for name, rows in (SOURCE_ROWS | {DEPLOYMENT: deployments}).items()},
}


class _Wanted:
    """The functions and tables of the wanted relations. The tables of a type are chosen once, by whichever thread."""

    __slots__ = ("_tables", "_wanted", "catalogue", "of_grant", "of_resource", "of_stack")

    def __init__(self, catalogue: Catalogue, wanted: frozenset[str] | None) -> None:
        self.catalogue = catalogue
        self._wanted = wanted
        self._tables: dict[str, tuple[TableRows, ...]] = {}
        self.of_stack = {name: rows for name, rows in STACK_ROWS.items() if self._wants(name)}
        self.of_resource = {name: rows for name, rows in EVERY_RESOURCE.items() if self._wants(name)}
        self.of_grant = {name: _one_by_one(rows) for name, rows in GRANT_ROWS.items() if self._wants(name)}

    def tables(self, type_name: str) -> tuple[TableRows, ...]:
        """The wanted tables of a type; none if the catalogue does not know it."""
        if type_name not in self._tables:
            kind = self.catalogue.type(type_name)
            tables = tables_of(kind) if kind else ()
            self._tables[type_name] = tuple(TableRows(table) for table in tables if self._wants(table.relation.name))
        return self._tables[type_name]

    def relation(self, name: str) -> Relation | None:
        """The relation of that name, if the stack can have rows of it."""
        tables = (table.relation for tables in self._tables.values() for table in tables)
        return FIXED.get(name) or next((table for table in tables if table.name == name), None)

    def _wants(self, name: str) -> bool:
        return self._wanted is None or name in self._wanted


@lru_cache(maxsize=4)
def _asked(catalogue: Catalogue, wanted: frozenset[str] | None) -> _Wanted:
    """What one policy set wants is the same for every stack that it judges."""
    return _Wanted(catalogue, wanted)


def _unread(wanted: _Wanted, group: Resource, unknown: Unknown) -> Iterator[tuple[str, Fact]]:
    """A wildcard for each relation that members which nobody read may add rows to."""
    stacks = tuple(group.nested.walk()) if group.nested else ()
    types = {resource.type for stack in stacks for resource in stack.resources}
    deep = len(stacks) > 1 or not types
    types = set(wanted.catalogue.types()) if deep else types  # another member may decide its conditions otherwise
    fixed = [*wanted.of_resource, *(wanted.of_stack if deep else ()), *(wanted.of_grant if POLICY in types else ())]
    relations = [FIXED[name] for name in fixed]
    relations += [table.relation for name in sorted(types) for table in wanted.tables(name)]
    for relation in relations:
        known = (group.id,) if relation.name == "heat:member" and not deep else ()
        yield relation.name, wildcard(relation, known, ("members", group.id.path), unknown)
