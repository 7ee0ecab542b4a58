"""The stacks that a feed yields, and how to read them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from datalog_gate.base.records import dataclass, fields, replace
from datalog_gate.base.values import ResourceId
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.files.templates import read_stack
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.stack.model import Live, Stack


@dataclass(frozen=True, slots=True)
class TemplateFiles:
    """A template on disk with its environments; later ones override earlier ones. Paths are absolute. `texts` has the
    SHA-256 of each file that may be read, by path, and after it the target of a link."""

    template: str
    environments: tuple[str, ...]
    files_root: str
    texts: Mapping[str, str]


@dataclass(frozen=True)
class StackEntry:
    """A stack from a source, with everything needed to create its `Stack` at any time."""

    root: str
    """The name of the stack in the store: its id, or for a template in a folder the path in it."""
    name: str
    """The name of the stack. Its resource ids begin with it."""
    project: str | None
    source: StackDefinition | TemplateFiles
    updated: str | None = None
    """When it was last changed, in ISO 8601, if the source has it."""
    caller: Mapping[str, object] | None = None
    """The user who requested it, if the source has it."""
    live: tuple[Live, ...] = ()
    """Its resources in Heat."""
    listing: str | None = None
    """The digest of its data in the list of all stacks. An equal listing later proves that nothing changed. None if
    listings prove nothing."""

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the stack's definition, which decides whether it must be judged again."""
        data = self.to_json()
        read = {name: data[name] for name in ("name", "project", "source", "caller", "live")}
        return sha256(json.dumps(read, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def asker(self) -> Mapping[str, object] | None:
        """The caller for judging it: the user who requested it, else a member of its project."""
        return self.caller or ({"project": self.project} if self.project else None)

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON data."""
        match self.source:
            case StackDefinition():
                source = {"definition": self.source.to_json()}
            case TemplateFiles():
                source = {"files": asdict(self.source)}
        live = [[row.id.path, row.action, row.status, row.physical, row.updated] for row in self.live]
        data = {member.name: getattr(self, member.name) for member in fields(self)}
        return {**data, "source": source, "live": live}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StackEntry:
        """The entry in such JSON data."""
        written: Any = data["source"]
        source: StackDefinition | TemplateFiles
        if "definition" in written:
            source = StackDefinition.from_json(written["definition"])
        else:
            source = TemplateFiles(**written["files"] | {"environments": tuple(written["files"]["environments"])})
        live = tuple(Live(ResourceId(path), *rest) for path, *rest in data["live"])
        return cls(**{**data, "source": source, "live": live})


@dataclass(frozen=True, slots=True)
class Unchanged:
    """An existing stack that has not changed since it was last read."""

    root: str


@dataclass(frozen=True, slots=True)
class Unread:
    """An existing stack that could not be read now. Its stored data stays."""

    root: str
    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """A stack that no longer exists."""

    root: str


Item = StackEntry | Unchanged | Unread | Gone


class Feed(Protocol):
    """The stacks of a source. It can be iterated once. It is created with the stored `listing` of each root, and yields
    `Unchanged` if that proves it.

    Errors while iterating: InputError, if the source can't be read any further: nothing is known of what is missing.
    """

    @property
    def total(self) -> int | None:
        """The number of items; None while unknown."""

    @property
    def whole(self) -> bool:
        """Whether, after the last item, every stack of the source was yielded. Then all others no longer exist."""

    def __iter__(self) -> Iterator[Item]: ...


def is_updated(updated: str, since: datetime) -> bool:
    """Whether a stack changed at a time or later. True if `updated` is not a time in ISO 8601. Times without a zone are
    UTC."""
    try:
        times = datetime.fromisoformat(updated), since
    except ValueError:
        return True
    changed, start = (time if time.tzinfo else time.replace(tzinfo=UTC) for time in times)
    return changed >= start


def is_as_stored(entry: StackEntry) -> bool:
    """Whether the files of a stack have not changed since it was stored."""
    if isinstance(entry.source, StackDefinition):
        return True
    try:
        return all(
            sha256(Path(path).read_bytes()).hexdigest() == digest.partition(" ")[0]
            for path, digest in entry.source.texts.items()
        )
    except OSError:
        return False


def read(entry: StackEntry, catalogue: Catalogue = SHIPPED) -> Stack:
    """Create the `Stack` of an entry, under its name. Errors: InputError, also for missing files."""
    match entry.source:
        case StackDefinition() as definition:
            return replace(definition.stack(entry.name, catalogue), live=entry.live)
        case TemplateFiles() as files:
            return read_stack(
                Path(files.template),
                environments=files.environments,
                files_root=files.files_root,
                stack_name=entry.name,
                catalogue=catalogue,
            )
