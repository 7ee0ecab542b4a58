"""The interface of services for grants and for every stack.

An opt-in service gets a `Request` for one grant, with only the resources in its scope. It answers with a `Decision`,
which the template can read as long as the grant's resource exists. A service with `for_every_stack` gets a `Request`
for each operation on a stack instead, with all resources.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from datalog_gate.analysis.policy import ACTIONS
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.plugins.plugin_errors import RefusedError as RefusedError
from datalog_gate.plugins.plugin_errors import UnavailableError as UnavailableError
from datalog_gate.services.parts import Part, parts
from datalog_gate.stack.model import Data, Stack

GROUP = "datalog_gate.services"
"""The group of entry points."""
Decision = Mapping[str, Mapping[str, object]]
"""Attributes for the template, as plain JSON data, by the name of a resource in scope."""
Status = Literal["held", "committed", "absent", "unknown"]
"""What a service holds for a key: `absent` for nothing (any more), `unknown` if it can't answer."""
HOLDING: tuple[Status, ...] = ("held", "committed")
Outcome = Literal["complete", "failed", "unknown"]
"""How an operation ended; `unknown` if that can't be determined any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request to a service, of a grant or, with an `action`, of an operation on a stack."""

    service: str
    project: str
    stack: str
    """The id of the stack; empty before there is one."""
    stack_name: str
    grant: str
    """The path of the grant, such as ``web/placement``; empty for an operation."""
    uuid: str
    """The uuid of the grant's resource, which ends with it. Empty at the door, before there is a resource. That of an
    operation is the same for the same request, at all doors."""
    options: Mapping[str, Data]
    """The options in the format of a `Part`: frozen, with hidden values masked."""
    scope: tuple[Part, ...]
    """Of an operation all resources; empty if no definition was needed, as for most deletions. A group of unknown size
    is `open` and shows its first members: a service that counts them decides what it makes of that."""
    action: str = ""
    decision_id: str = ""
    credentials: Mapping[str, Data] = field(default_factory=dict)
    """The caller of an operation."""
    parameters: Mapping[str, Data] = field(default_factory=dict)
    """The parameters of the root, for an operation."""
    replaces: tuple[str, ...] = ()
    """The keys of claims that this one replaces and that are still held, newest first."""
    together: tuple[Request, ...] = ()
    """The requests of the stack's other grants for the same service, which may decide on all as a whole. The uuid is
    empty if Heat has none yet."""

    @property
    def key(self) -> str:
        """The idempotency key of all calls for this claim. It depends on everything reserved except hidden values."""
        return digest(self.project, self.uuid, self.reserved)

    @property
    def reserved(self) -> tuple[object, ...]:
        """The data to be reserved, independent of the caller. An operation has its uuid only: doors see different
        parts."""
        if self.action:
            return (self.service,)
        return self.service, self.options, [(part.id, part.type, part.properties, part.open) for part in self.scope]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A claim in later calls to a service. `decision` is the service's own, empty if it was never known."""

    key: str
    project: str
    uuid: str
    decision: Decision
    stack_name: str = ""
    action: str = ""
    """The operation of a claim that has no grant."""
    outcome: Outcome | Literal[""] = ""
    """How the operation ended, in `commit`: complete or unknown. After a failed one `release` is called."""


class Service:
    """The base class of services, which are entry points of ``datalog_gate.services``. A constructor takes one mapping
    of text to text, its settings, and raises ValueError for wrong ones.

    Operations run in many threads and processes at once, and their caller gives up after a deadline. So an operation
    may be called again while it still runs, and its request may arrive after a later one. Each must be idempotent on
    the key. A released key is dead: what arrives for it later is refused. Errors of each: RefusedError where it says
    so; UnavailableError, or any other, if it is not known what was done.
    """

    on_abandon: Literal["keep", "release"] = "release"
    """What happens to a claim when the user removes its stack from Heat without deleting anything."""
    uses_store = False
    """Whether it stores its claims in the gate's store. Then the setting `store` is its URL."""
    uses_call_seconds = False
    """Whether it depends on the gate's timeout for a call. Then the setting `call_seconds` has it."""
    places = False
    """Whether it decides where resources are placed, which is then compared with their actual places."""
    sticky = False
    """Whether a grant must exist as long as the resources in its scope."""
    for_every_stack = False
    """Whether it is consulted without a grant, before each operation that the policies allow. `reserve` may refuse it.
    `commit` is called when it is complete, and `release` if a later service refuses it, or the host does not begin it,
    or it fails; each at least once."""
    actions: Collection[str] = tuple(action for action in ACTIONS if action != "rollback")
    """The operations before which it is consulted."""
    order = 100
    """Of the services for every stack that are free to run, the one with the least `order` comes first, then the one
    with the least name."""
    before: tuple[str, ...] = ()
    """The names of services for every stack that come later, wherever they are enabled."""
    after: tuple[str, ...] = ()
    """The names of services for every stack that come earlier, wherever they are enabled."""

    def facts(self, request: Request) -> None:
        """Check whether the request of a grant could be reserved, for the door and for previews. Changes nothing. Not
        called for every stack: then `reserve` refuses. Errors:
        RefusedError for wrong options, and for what `reserve` would refuse now, unless only a call of `reserve` can
        change that, such as one that asks a person for approval."""

    def waits(self, request: Request) -> str:  # noqa: ARG002 - what a service overrides
        """Why the grant's resource should wait and call this again some seconds later; empty if it may call `reserve`.
        Holds nothing, since the waiting resource may disappear at any moment. The wait must end by itself: then
        `reserve` refuses."""
        return ""

    def reserve(self, request: Request) -> Decision:
        """Hold the request. For a held key, return the same decision again. Claims in `replaces` count as free for this
        one. Parts shared with them are held once, until the last of them is released, in any order. Errors:
        RefusedError: then nothing is held."""
        raise NotImplementedError

    def commit(self, held: Held) -> None:
        """Record that the stack is complete with the claim, or that an operation ended: see `Held.outcome`."""

    def misplaced(self, held: Held, members: Mapping[str, str]) -> Sequence[str]:  # noqa: ARG002 - what a service overrides
        """The members of a complete stack that are not where the decision says, in words. `members` are the types of
        all its resources, including those of nested stacks, by physical id."""
        return ()

    def release(self, held: Held) -> None:
        """Hold nothing for the key any more, committed or not. Does nothing if nothing is held."""
        raise NotImplementedError

    def status(self, held: Held) -> Status:
        """Return what is held for the key: `absent` if the service holds nothing."""
        raise NotImplementedError


def in_scope(stack: Stack, scope: Collection[ResourceId]) -> tuple[Part, ...]:
    """The resources in scope and everything inside them: the part of the stack that a service may see."""
    paths = {resource_id.path for resource_id in scope}
    return tuple(part for part in parts(stack) if any(f"{part.id}/".startswith(f"{path}/") for path in paths))


def digest(*data: object) -> str:
    """The SHA-256 digest of data in a request."""
    text = json.dumps(data, sort_keys=True, default=plain)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def names(request: Request) -> list[str]:
    """The names of the resources in scope, without nested ones."""
    home = ResourceId(request.grant).stack
    ids = [ResourceId(part.id) for part in request.scope]
    return [resource.name for resource in ids if resource.stack == home]


def plain(data: object) -> object:
    """Convert data for `json.dumps`, so that equal data gives equal text. An unknown becomes its expression."""
    match data:
        case Mapping():
            return {str(key): value for key, value in data.items()}
        case Unknown():
            return {"$unknown": data.expression}
    return str(data)
