"""The stacks that a feed yields, and how to read each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from datalog_gate.base.records import dataclass
from datalog_gate.base.values import ResourceId
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.files.templates import read_stack
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.stack.model import Live, Stack


@dataclass(frozen=True, slots=True)
class TemplateFiles:
    """A template on disk with its environments, later ones over earlier ones. Paths are absolute.

    `texts` has the SHA-256 of each file that may be read, by its path.
    """

    template: str
    environments: tuple[str, ...]
    files_root: str
    texts: Mapping[str, str]


@dataclass(frozen=True)
class StackEntry:
    """A stack that was read from its source, and all that is needed to make a `Stack` of it, now or later."""

    root: str
    """What names the stack in the store: its id; of a template in a folder, the path in it."""
    name: str
    """The name of the stack, with which the ids of its resources begin."""
    project: str | None
    source: StackDefinition | TemplateFiles
    updated: str | None = None
    """When it was last changed, as ISO, as far as the source tells."""
    caller: Mapping[str, object] | None = None
    """Who asked for it, where the source tells."""
    live: tuple[Live, ...] = ()
    """Its resources as Heat has them."""
    listing: str | None = None
    """What a list of all stacks said of it, as a digest: the same listing another time proves that nothing changed.
    None where no list proves it."""

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of everything that the stack is made of. It tells whether it has to be judged again."""
        data = self.to_json()
        read = {name: data[name] for name in ("name", "project", "source", "caller", "live")}
        return sha256(json.dumps(read, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def asker(self) -> Mapping[str, object] | None:
        """For whom it is judged: who asked for it, or else somebody of its project."""
        return self.caller or ({"project": self.project} if self.project else None)

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON data."""
        match self.source:
            case StackDefinition():
                source = {"definition": self.source.to_json()}
            case TemplateFiles():
                source = {"files": asdict(self.source)}
        live = [[row.id.path, row.action, row.status, row.physical, row.updated] for row in self.live]
        return {
            "root": self.root,
            "name": self.name,
            "project": self.project,
            "source": source,
            "updated": self.updated,
            "caller": self.caller,
            "live": live,
            "listing": self.listing,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StackEntry:
        """The entry of such JSON data."""
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
    """A stack that is there, and of which the source tells that nothing changed since it was last read."""

    root: str


@dataclass(frozen=True, slots=True)
class Unread:
    """A stack that is there and could not be read now. What is known of it stays as it is."""

    root: str
    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """A stack of which the source tells that it is not there any more."""

    root: str


Item = StackEntry | Unchanged | Unread | Gone


class Feed(Protocol):
    """The stacks of a source, each once. It can be iterated once; a feed is made with the `listing` that the store
    has of each root, and yields `Unchanged` where that proves it.

    Errors while iterating: InputError, if the source can't be read any further: nothing is known of what is missing.
    """

    @property
    def total(self) -> int | None:
        """How many items there will be; None while that is not known."""

    @property
    def whole(self) -> bool:
        """Whether, after the last item, every stack of the source was yielded: then what was not is gone."""

    def __iter__(self) -> Iterator[Item]: ...


def is_updated(updated: str, since: datetime) -> bool:
    """Whether a stack that was `updated` then, in ISO, changed at a time or later; True where that is no time. Times
    without a zone are UTC."""
    try:
        times = datetime.fromisoformat(updated), since
    except ValueError:
        return True
    changed, start = (time if time.tzinfo else time.replace(tzinfo=UTC) for time in times)
    return changed >= start


def read(entry: StackEntry, catalogue: Catalogue = SHIPPED) -> Stack:
    """Make the `Stack` of an entry, under its name. Errors: InputError, also for files that are gone."""
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
