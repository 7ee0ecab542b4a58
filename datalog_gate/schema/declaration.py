"""What a relation is: its columns, their kinds and meaning (layer 1).

Both wings read these: the analysis to check rules, the facts to flatten stacks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from datalog_gate.base.values import Kind, Row


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

    `named_only` relations (one per resource type) take no positional arguments, since their columns grow.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    meaning: str = ""
    named_only: bool = False
    example: Row = ()
    positions: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", {column.name: at for at, column in enumerate(self.columns)})


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
