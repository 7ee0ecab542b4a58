"""What a provider writes to offer an opt-in service (layer 5): the base of all services, and what one is asked.

In: a `Request` for one grant, of the resources in its scope and nothing else of the stack. Out: a `Decision` that the
template reads, for as long as the grant's resource lives.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from datalog_gate.base.errors import GateError
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.preflight.snapshot import Part, parts
from datalog_gate.stack.model import Data, Stack

Decision = Mapping[str, Mapping[str, object]]
"""Attributes that a template may read, as plain JSON data, by the name of a resource in scope."""
Status = Literal["held", "committed", "absent", "unknown"]
"""What a service has under a key: `absent` if nothing or nothing any more, `unknown` if it can't tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a grant asks of a service. `uuid` is the grant's resource's, which dies with it: empty at the door, where
    none is there yet. `grant` is its path ``web/placement``, `options` and `scope` hold what a `Snapshot` would: data
    that nobody can change, with what is hidden covered. `replaces` are the keys of the claims that this one is to
    replace and that are still held, newest first. `together` are what the other grants of the stack ask of the same
    service, for a service that decides on all of them as a whole; the uuid of one is empty where Heat has none yet."""

    service: str
    project: str
    stack: str
    stack_name: str
    grant: str
    uuid: str
    options: Mapping[str, Data]
    scope: tuple[Part, ...]
    replaces: tuple[str, ...] = ()
    together: tuple[Request, ...] = ()

    @property
    def key(self) -> str:
        """What every call for this claim is idempotent on. What is reserved is part of it but for what is hidden."""
        return digest(self.project, self.uuid, self.reserved)

    @property
    def reserved(self) -> tuple[object, ...]:
        """What is asked for, whoever asks."""
        return self.service, self.options, [(part.id, part.type, part.properties, part.open) for part in self.scope]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What is left of a request once it was made: `decision` is the service's own, empty where it was never known."""

    key: str
    project: str
    uuid: str
    decision: Decision


class Service:
    """The base of services, which the entry-point group ``datalog_gate.services`` names. A constructor takes one
    mapping of text to text, its settings, and raises ValueError for wrong ones.

    Operations run in many threads and processes at once, and are given up after a deadline: one may be called again
    while it still runs, and its request may arrive after that of a later one. So each is idempotent on the key, and a
    key that was released is dead: what arrives for it later is refused. Errors of each: UnavailableError where there is
    no telling what was done, as is any other but RefusedError.
    """

    on_abandon: Literal["keep", "release"] = "release"
    """What becomes of what is held for a stack that its user takes out of Heat without deleting anything."""
    sticky = False
    """Whether a grant may not be removed while what it was for stays."""

    def facts(self, request: Request) -> None:
        """Whether it could be done: asked at the door and for previews, and changes nothing. Errors: RefusedError for
        options that are wrong and for what `reserve` would refuse as things stand, unless only asking to reserve can
        mend that: as where a person is to be asked."""

    def waits(self, request: Request) -> str:  # noqa: ARG002 - what a service overrides
        """Why the grant's resource should ask this again some seconds later before it asks to reserve; empty if it need
        not. Holds nothing, so that who waits may go away at any moment, and ends by itself: then `reserve` refuses."""
        return ""

    def reserve(self, request: Request) -> Decision:
        """Hold what is asked; for a key that is held, the same decision again. What the claims in `replaces` hold
        counts as free for this one, and what they share is held once: until the last of them is released, in whatever
        order. Errors: RefusedError, and then nothing is held."""
        raise NotImplementedError

    def commit(self, held: Held) -> None:
        """The stack is complete with what is held."""

    def release(self, held: Held) -> None:
        """Hold nothing under the key any more, committed or not; nothing to do if nothing is."""
        raise NotImplementedError

    def status(self, held: Held) -> Status:
        """What is held under the key."""
        raise NotImplementedError


class ServiceError(GateError):
    """A service that did not do what it was asked. `reason` is for whoever asked for the stack."""

    def __init__(self, reason: str, service: str = "") -> None:
        self.reason, self.service = reason, service
        super().__init__(f"{service}: {reason}" if service else reason)


class RefusedError(ServiceError):
    """A service says no, and holds nothing."""


class UnavailableError(ServiceError):
    """A service can't say, or what it did is not known."""


def in_scope(stack: Stack, scope: Collection[ResourceId]) -> tuple[Part, ...]:
    """What a service may see of the stack: the resources in scope with all that they hold."""
    paths = {resource_id.path for resource_id in scope}
    return tuple(
        part for part in parts(stack) if part.id in paths or any(part.id.startswith(f"{path}/") for path in paths)
    )


def digest(*data: object) -> str:
    """The digest of data as a request holds it."""
    text = json.dumps(data, sort_keys=True, default=plain)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def names(request: Request) -> list[str]:
    """The names of the resources in scope, without what those hold."""
    home = f"{request.grant.rpartition('/')[0]}/"
    return [name for part in request.scope if "/" not in (name := part.id.removeprefix(home))]


def plain(data: object) -> object:
    """What JSON does not know, the same for the same wherever it was read; an unknown is its expression."""
    match data:
        case Mapping():
            return {str(key): value for key, value in data.items()}
        case Unknown():
            return {"$unknown": data.expression}
    return str(data)
