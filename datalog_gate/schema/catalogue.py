"""The catalogue: all relations and resource types that rules may read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from datalog_gate.base.records import replace
from datalog_gate.schema import cloud
from datalog_gate.schema.declaration import (
    ALL,
    OLD,
    PROJECT,
    Relation,
    RelationRef,
    RelationVersion,
    ResourceType,
    all_version,
    parse_reference,
)
from datalog_gate.schema.relations import FIXED, NAMESPACES, TIMELESS
from datalog_gate.schema.resource_types import HEATS, NEWEST, SOURCES, shipped, tables_of, type_of

_CUSTOM = re.compile(r'"custom":\s*"([^"]+)"')


class Catalogue:
    """Relations and resource types. Threads may share a catalogue.

    `given` types are added to the shipped ones, and replace those of the same name; `changed` ones have other defaults.
    `sources` are the included shipped files. A shipped type is parsed when it is first used.
    """

    __slots__ = ("_changed", "_filled_by_stacks", "_given", "_of_heats", "_owners", "_parsed", "_relations", "_sources")

    def __init__(
        self,
        given: Mapping[str, ResourceType] = MappingProxyType({}),
        sources: tuple[str, ...] = SOURCES,
        changed: Mapping[str, ResourceType] = MappingProxyType({}),
    ) -> None:
        self._given = given
        self._sources = sources
        self._changed = changed
        self._of_heats: dict[str, Catalogue] = {}
        self._parsed: dict[str, ResourceType] = {}
        self._relations: dict[str, dict[str, Relation]] = {}
        self._owners: dict[str, str] = {}
        self._filled_by_stacks: frozenset[str] = frozenset()

    def __reduce__(self) -> tuple[type[Catalogue], tuple[object, ...]]:
        return Catalogue, (dict(self._given), self._sources, dict(self._changed))

    def with_types(self, types: Mapping[str, ResourceType]) -> Catalogue:
        """A catalogue with these types in place of those of the same names."""
        return Catalogue(self._given, self._sources, {**self._changed, **types})

    @property
    def is_shipped(self) -> bool:
        """Whether it has shipped types of Heat; an operator's file may replace all of them."""
        return SOURCES[0] in self._sources

    def of_heat(self, heat: str) -> Catalogue:
        """The catalogue with the shipped types of a release of Heat, such as 26, for what that Heat would refuse."""
        if heat == NEWEST or not self.is_shipped:
            return self
        if heat not in self._of_heats:
            newest, *others = self._sources
            self._of_heats[heat] = Catalogue(self._given, (newest, f"heat-{HEATS[heat]}.json", *others))
        return self._of_heats[heat]

    def type(self, name: str) -> ResourceType | None:
        """The resource type with this name in templates."""
        for own in (self._changed, self._given):
            if name in own:
                return own[name]
        if name not in self._parsed:
            line = shipped(self._sources).get(name)
            if line is None:
                return None
            self._parsed[name] = type_of(name, json.loads(line))
        return self._parsed[name]

    def types(self) -> tuple[str, ...]:
        return tuple({**shipped(self._sources), **self._given})

    def constraints(self) -> set[str]:
        """The names of Heat's custom constraints that properties of shipped types have."""
        return {name for line in shipped(self._sources).values() for name in _CUSTOM.findall(line)}

    def relation(self, reference: RelationRef) -> Relation | None:
        """The relation with this full name, such as ``heat:resource`` or ``os:neutron:security_group.rules``, or its
        version: ``old:heat:resource``, ``all:heat:resource``."""
        name = parse_reference(reference)
        if isinstance(name, str) and name.startswith(ALL):
            name = RelationVersion(name.removeprefix(ALL), all=True)
        if not isinstance(name, str):
            return self._version(name)
        if name in FIXED:
            return FIXED[name]
        if cloud_relation := cloud.relation(name) or cloud.live_relation(name):
            return cloud_relation
        owner = self.owner(name.partition(".")[0])
        return self._of_type(owner).get(name) if owner else None

    def _version(self, version: RelationVersion) -> Relation | None:
        """The old version, or the version of all stacks, of a relation that stacks fill."""
        if version.name.startswith((OLD, ALL, cloud.LIVE)) or version.name in TIMELESS:
            return None
        current = self.relation(version.name)
        if current is None or current is cloud.relation(version.name) or version.old is version.all:
            return None
        if version.old:
            return replace(current, old=True)
        if version.name == "gate:unlocked":  # rules fill it
            return None
        return replace(current, all=True, columns=(*current.columns, PROJECT))

    def names(self) -> Iterator[str]:
        """The names of all relations. This parses every resource type, so use it for suggestions only."""
        yield from FIXED
        yield from cloud.names()
        yield from map(f"{cloud.LIVE}{{}}".format, cloud.LIVE_TABLES)
        for type_name in self.types():
            yield from self._of_type(type_name)

    def declared(self, name: str) -> Relation:
        """The relation with this name, which exists."""
        relation = self.relation(name)
        assert relation
        return relation

    def filled_by_stacks(self) -> frozenset[str]:
        """The names of the relations that stacks fill. It parses every resource type once."""
        if not self._filled_by_stacks:
            self._filled_by_stacks = frozenset(name for name in self.names() if self.relation(all_version(name)))
        return self._filled_by_stacks

    def owner(self, relation: str) -> str | None:
        """The name of the relation's resource type. A shipped line begins ``{"relation":"os:nova:server",``."""
        if not self._owners:
            lines = {name: line for name, line in shipped(self._sources).items() if name not in self._given}
            owners = {line.split('"', 4)[3]: name for name, line in lines.items()}
            self._owners = owners | {given.relation: given.name for given in self._given.values()}
        return self._owners.get(relation)

    def namespaces(self) -> frozenset[str]:
        """The first segments of names that modules must not use."""
        given = {resource_type.relation.partition(":")[0] for resource_type in self._given.values()}
        return NAMESPACES | cloud.CLOUD | given

    def _of_type(self, type_name: str) -> dict[str, Relation]:
        if type_name not in self._relations:
            kind = self.type(type_name)
            assert kind is not None
            self._relations[type_name] = {table.relation.name: table.relation for table in tables_of(kind)}
        return self._relations[type_name]


SHIPPED = Catalogue()
"""The shipped types: those of the newest Heat, and our own."""
