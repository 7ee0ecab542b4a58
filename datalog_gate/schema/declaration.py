"""Relations with their columns, references to them, and resource types with their properties."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from datalog_gate.base.values import Kind, Row


class RelationVersion(NamedTuple):
    """A version of a relation other than the one that its plain name stands for: what certainly holds now.

    The `possible` version has the certain rows and those that are there for some outcome of the unknowns. The `given`
    version of a relation that has rules holds the rows that facts put into it. The `old` version is the relation before
    the change. `str` shows a version as rules, messages and outputs spell it: ``m:p?``, ``m:p#given``, ``old:m:p``.
    """

    name: str
    possible: bool = False
    given: bool = False
    old: bool = False

    def __str__(self) -> str:
        return f"{OLD if self.old else ''}{self.name}{'#given' if self.given else ''}{'?' if self.possible else ''}"


OLD = "old:"
"""What the name of a relation begins with in a rule that reads it as it was before the change."""
RelationRef = str | RelationVersion
"""What names a relation in programs, plans, tables and facts: its full name, or a version of it."""


def parse_reference(text: RelationRef) -> RelationRef:
    """The relation that a name in a rule, a file of facts or a test stands for."""
    return old_version(text.removeprefix(OLD)) if isinstance(text, str) and text.startswith(OLD) else text


def relation_name(relation: RelationRef) -> str:
    """The full name of a relation, whatever its version."""
    return relation if isinstance(relation, str) else relation.name


def possible_version(relation: RelationRef) -> RelationVersion:
    """The possible version of a relation."""
    return _version(relation)._replace(possible=True)


def certain_version(relation: RelationRef) -> RelationRef:
    """The certain version of a relation."""
    return relation if isinstance(relation, str) else _reference(relation._replace(possible=False))


def given_version(relation: RelationRef) -> RelationVersion:
    """The version of a relation that holds what facts put into it."""
    return _version(relation)._replace(given=True)


def whole_version(relation: RelationRef) -> RelationRef:
    """The relation that a given version is part of."""
    return relation if isinstance(relation, str) else _reference(relation._replace(given=False))


def old_version(relation: RelationRef) -> RelationVersion:
    """The relation before the change."""
    return _version(relation)._replace(old=True)


def current_version(relation: RelationRef) -> RelationRef:
    """The relation after the change."""
    return relation if isinstance(relation, str) else _reference(relation._replace(old=False))


def is_old(relation: RelationRef) -> bool:
    """Whether this is a relation before the change."""
    return isinstance(relation, RelationVersion) and relation.old


def _version(relation: RelationRef) -> RelationVersion:
    return RelationVersion(relation) if isinstance(relation, str) else relation


def _reference(version: RelationVersion) -> RelationRef:
    return version if version.possible or version.given or version.old else version.name


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, the kinds its values can have (null among them where it can be null), its meaning.

    `allowed` lists the only values there are, where the catalogue knows them; `closed` says that no other can occur.
    """

    name: str
    kinds: Kind
    meaning: str = ""
    allowed: tuple[str, ...] = ()
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation: name, columns in order, key columns, meaning, and an example row where the catalogue shows one.

    `named_only` relations (one per resource type) take no positional arguments, since their columns grow. `old` says
    that it describes the rows before the change. `generated` is set for a relation that the analysis adds: ``in`` for a
    list of constants, ``or`` for the alternatives of an aggregate, ``effective`` for the grants in effect.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    meaning: str = ""
    named_only: bool = False
    example: Row = ()
    old: bool = False
    generated: str = ""
    positions: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", {column.name: at for at, column in enumerate(self.columns)})

    @property
    def ref(self) -> RelationRef:
        """What names the relation in a program."""
        return old_version(self.name) if self.old else self.name


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a resource type as Heat declares it.

    `kind` is Heat's: string, number, integer, boolean, list, map or any. `children` are the schemas of a map's keys or
    of the maps that a list holds, `parts` the same by name; `item` is the schema of a list's scalar members. `default`
    is plain data, None if there is none. `custom` is the constraint that Heat has code for: ``ip_addr``, or one like
    ``neutron.network`` under which a service is asked, by name or id.
    """

    name: str
    kind: str
    required: bool = False
    default: object = None
    allowed: tuple[object, ...] = ()
    update_allowed: bool = False
    children: tuple[Property, ...] = ()
    item: Property | None = None
    custom: str = ""
    parts: dict[str, Property] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", {child.name: child for child in self.children})


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A resource type: `name` as in templates, `relation` as in rules, its properties, and for each attribute the name
    of the property that it echoes, or None. `moved` are the ways of properties that Heat reads as others, each with the
    way of the other, or None where it reads nothing."""

    name: str
    relation: str
    properties: tuple[Property, ...]
    attributes: dict[str, str | None]
    moved: tuple[tuple[tuple[str, ...], tuple[str, ...] | None], ...] = ()
