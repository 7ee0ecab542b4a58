"""Declarations of relations and resource types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import Kind


class RelationVersion(NamedTuple):
    """A version of a relation. The plain name stands for its current, certain rows.

    The `possible` version has the certain rows and those that exist for some outcome of the unknowns. The `given`
    version of a relation with rules holds the rows from facts. The `old` version is the relation before the change. The
    `all` version holds the rows of all stacks of the cloud, each with the stack's project. `str` shows a version as
    rules, messages and outputs spell it: ``m:p?``, ``m:p#given``, ``old:m:p``, ``all:heat:stack``.
    """

    name: str
    possible: bool = False
    given: bool = False
    old: bool = False
    all: bool = False

    def __str__(self) -> str:
        prefix = ALL if self.all else OLD if self.old else ""
        return f"{prefix}{self.name}{'#given' if self.given else ''}{'?' if self.possible else ''}"


OLD = "old:"
"""The prefix for the old version of a relation in a rule: before the change."""
ALL = "all:"
"""The prefix for the version of a relation in a rule with the rows of all stacks of the cloud."""
MAYBE = "?"
"""The suffix of the relation that holds the rows of another one that may not exist."""
RelationRef = str | RelationVersion
"""A relation in programs, plans, tables and facts: its full name, or a version of it."""


def parse_reference(text: RelationRef) -> RelationRef:
    """The relation of a name in a rule, a file of facts or a test."""
    return old_version(text.removeprefix(OLD)) if isinstance(text, str) and text.startswith(OLD) else text


def relation_name(relation: RelationRef) -> str:
    return relation if isinstance(relation, str) else relation.name


@lru_cache(maxsize=8_192)  # the same few are needed often
def _version(field: str, value: Any, relation: RelationRef) -> RelationRef:
    plain = RelationVersion(relation) if isinstance(relation, str) else relation
    version = plain._replace(**{field: value})
    return version if version.possible or version.given or version.old or version.all else version.name


possible_version, certain_version = partial(_version, "possible", True), partial(_version, "possible", False)
given_version, whole_version = partial(_version, "given", True), partial(_version, "given", False)
old_version, current_version = partial(_version, "old", True), partial(_version, "old", False)
all_version = partial(_version, "all", True)


def is_old(relation: RelationRef) -> bool:
    return isinstance(relation, RelationVersion) and relation.old


def is_all(relation: RelationRef) -> bool:
    return isinstance(relation, RelationVersion) and relation.all


Range = tuple[int | None, int | None]
"""The minimum and maximum number; None without a bound."""
Status = Sequence[str | None]
"""``hidden``, ``deprecated`` or ``unsupported``, since which Heat, and its advice, if known; empty if supported."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation."""

    name: str
    kinds: Kind
    """The kinds of its values, including null if it can be null."""
    meaning: str = ""
    allowed: tuple[str, ...] = ()
    """The possible values, if known."""
    closed: bool = False
    """Whether only the `allowed` values can occur."""
    range: Range = (None, None)
    """The minimum and maximum number that can occur."""
    numbers: tuple[int, ...] = ()
    """The numbers that can occur, if few."""
    custom: str = ""
    """A custom constraint of Heat, as in `Property`."""
    unit: str = ""
    """The unit of a size: ``GiB`` or ``MiB``."""


PROJECT = Column("_project", Kind.STRING | Kind.NULL, "The project of the root stack; null where it is not known.")


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation with its columns in order."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    """The names of the key columns."""
    meaning: str = ""
    named_only: bool = False
    """Whether positional arguments are refused, as for resource types, since a new release may add columns."""
    rule: str = ""
    """An example rule that reads it; empty for relations of resource types and inventories."""
    old: bool = False
    """Whether this is the old version."""
    all: bool = False
    """Whether this is the version of all stacks. Its last column, which must be named, is `PROJECT`."""
    generated: str = ""
    """Set for a relation that the analysis adds: ``in`` for a list of constants, ``or`` for the alternatives of an
    aggregate, ``effective`` for the grants in effect."""
    positions: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", {column.name: at for at, column in enumerate(self.columns)})

    @property
    def ref(self) -> RelationRef:
        if self.all:
            return all_version(self.name)
        return old_version(self.name) if self.old else self.name


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a resource type as Heat declares it."""

    name: str
    kind: str
    """Heat's type: string, number, integer, boolean, list, map or any."""
    required: bool = False
    default: object = None
    """Plain data; None if there is no default."""
    allowed: tuple[object, ...] = ()
    range: Range = (None, None)
    update_allowed: bool = False
    children: tuple[Property, ...] = ()
    """The schemas of a map's keys, or of the maps in a list."""
    item: Property | None = None
    """The schema of the scalar members of a list."""
    length: Range = (None, None)
    """The minimum and maximum length of a text."""
    custom: str = ""
    """A custom constraint of Heat: ``ip_addr``, or such as ``neutron.network``, a name or id that a service checks."""
    pattern: str = ""
    """A regular expression of Python that a text must match as a whole."""
    implemented: bool = True
    """Whether Heat takes a value for it."""
    status: Status = ()
    parts: dict[str, Property] = field(init=False, repr=False, compare=False)
    needed: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The children that a map must have."""
    is_checked: bool = field(init=False, repr=False, compare=False)
    """Whether Heat looks at more than the kind of its value, but for what a service says."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", {child.name: child for child in self.children})
        object.__setattr__(self, "needed", _find_needed(self.children))
        is_bounded = (self.length, self.range) != ((None, None), (None, None))
        is_checked = bool(self.allowed or self.pattern or is_bounded or (self.custom and "." not in self.custom))
        object.__setattr__(self, "is_checked", is_checked or not self.implemented)


def _find_needed(properties: tuple[Property, ...]) -> tuple[str, ...]:
    return tuple([part.name for part in properties if part.required and part.default is None])


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A resource type with its properties and attributes."""

    name: str
    """The name in templates."""
    relation: str
    """The name in rules."""
    properties: tuple[Property, ...]
    attributes: dict[str, str | None]
    """The property that each attribute returns, or None."""
    moved: tuple[tuple[tuple[str, ...], tuple[str, ...] | None], ...] = ()
    """The paths of properties that Heat reads under other names, each with the other path; None if it is dropped."""
    any_attribute: bool = False
    """Whether Heat finds out only later which attributes a resource has."""
    snapshot: bool = False
    """Whether `Snapshot` is a deletion policy of it."""
    update_policy: tuple[Property, ...] = ()
    """What its update policy may have."""
    status: Status = ()
    attribute_status: Mapping[str, Status] = field(default_factory=dict)
    parts: dict[str, Property] = field(init=False, repr=False, compare=False)
    needed: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The properties that a resource must have."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", {part.name: part for part in self.properties})
        object.__setattr__(self, "needed", _find_needed(self.properties))

    @property
    def is_placeholder(self) -> bool:
        """Whether Heat accepts anything for it, as for `OS::Heat::None` and types that it had once."""
        return self.any_attribute and not self.properties
