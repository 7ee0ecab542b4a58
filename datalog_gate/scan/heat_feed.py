"""The stacks of a Heat, through its API."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import quote

from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass, replace
from datalog_gate.inventory.cloud_api import CloudApi, ForbiddenError, MissingError
from datalog_gate.inventory.heat_stack import json_object, read_heat_stack
from datalog_gate.inventory.table_sources import ApiList, ApiService, ReadingError
from datalog_gate.scan.feed import Item, StackEntry, Unchanged, Unread, is_updated

HEAT = ApiService("Heat", "orchestration")
STACKS = ApiList(HEAT, "/stacks?show_nested=True&show_hidden=True&global_tenant=True", "stacks", "links")
PROBE = "/stacks?limit=1"
"""A path that a working Heat answers at once."""
PATIENCE = 600.0
"""Seconds for which Heat may give no answer, or errors, before a scan ends."""
LONGEST_PAUSE = 15.0
SETTLED = 60.0
"""Seconds after a change from which a listing proves that there was no other: Heat's times are whole seconds, and its
clock may differ."""
RIGHTS = {
    "template": "stacks:template",
    "environment": "stacks:environment",
    "files": "stacks:files",
    "resources": "resource:index",
    "events": "events:index",
    "metadata": "resource:metadata",
}
"""The permission that Heat requires, by the end of a path."""
Answer = TypeVar("Answer")
HELP = "give the scan's user a role that Heat's policy.yaml grants it, or the role admin"


@dataclass(frozen=True, slots=True)
class _Listed:
    """A stack in the list of all stacks."""

    id: str
    parent: str
    name: str
    project: str
    updated: str
    status: str
    tags: tuple[str, ...]
    digest: str

    @property
    def busy(self) -> bool:
        """Whether Heat is working on it."""
        return self.status.endswith("IN_PROGRESS")


class HeatFeed:
    """The root stacks of a Heat with their nested stacks, as Heat holds them now. See `Feed`. A nested stack that no
    resource of its root holds any more, since it was retained, is a stack of its own.

    `known` is the listing that the store has of each root. Of these, stacks are read again if the list of all stacks
    says something else of them, or of a stack in them: their status, or when they were updated. It shows no change that
    only `openstack stack resource mark unhealthy` makes.

    With `since` only those are yielded of which a part was updated then or later, and nothing counts as gone. A Heat
    that answers 429, 500 or nothing is waited for, `patience` seconds long. Errors: InputError, also without the right
    to list all stacks.
    """

    def __init__(
        self,
        api: CloudApi,
        known: Mapping[str, str | None],
        *,
        since: datetime | None = None,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._api, self._known = api, known
        self._since, self._patience, self._clock, self._pause = since, patience, clock, pause
        self.total: int | None = None
        self.whole = False

    def __iter__(self) -> Iterator[Item]:
        now = self._clock()
        try:
            trees = _trees(self._persist(self._list_stacks))
        except ReadingError as error:
            raise InputError.of(str(error)) from None
        if self._since:
            trees = [tree for tree in trees if any(is_updated(stack.updated, self._since) for stack in tree)]
        self.total = len(trees)
        for tree in trees:
            listing = _listing(tree, now)
            unchanged = bool(listing) and self._known.get(tree[0].id) == listing
            item = Unchanged(tree[0].id) if unchanged else self._read(tree[0], listing)
            left = list(self._read_left(tree, item, listing))
            if isinstance(item, StackEntry) and any(isinstance(stack, Unread) for stack in left):
                item = replace(item, listing=None)  # or the next scan would not look for them
            self.total += len(left)
            yield item
            yield from left
        self.whole = not self._since

    def _list_stacks(self) -> list[_Listed]:
        try:
            pages = self._api.pages(STACKS, STACKS.path)
            return [_listed(json_object(row), self._api.project) for page in pages for row in page]
        except KeyError as error:
            raise InputError.of(f"Heat lists a stack without {error}") from None
        except ForbiddenError as error:
            message = f"{error}: listing all stacks requires the right stacks:global_index"
            raise InputError.of(message, suggestion=HELP) from None

    def _read(self, stack: _Listed, listing: str | None) -> Item:
        project = f"../{quote(stack.project, safe='')}" if stack.project else ""

        def get(path: str) -> dict[str, Any]:
            return json_object(self._persist(lambda: self._api.get(HEAT, f"{project}{path}")))

        try:
            definition, live = read_heat_stack(get, stack.name, stack.id, stack.name, stack.status, as_built=True)
        except ForbiddenError as error:
            right = RIGHTS.get(str(error).partition("?")[0].rpartition("/")[2], "")
            return Unread(stack.id, f"{error}{f': it requires the right {right}' if right else ''}; {HELP}")
        except (ReadingError, InputError) as error:  # it may be deleted by now, which the next list shows
            return Unread(stack.id, str(error))
        return StackEntry(
            root=stack.id,
            name=stack.name,
            project=stack.project,
            source=replace(definition, tags=stack.tags),
            updated=stack.updated,
            live=live,
            listing=listing,
        )

    def _read_left(self, tree: list[_Listed], root: Item, listing: str | None) -> Iterator[Item]:
        """The nested stacks of a tree that no resource of it holds, without those within them. A root that was not
        read, or changes now, does not tell which these are, so those that are known stay."""
        if not isinstance(root, StackEntry) or any(stack.busy for stack in tree):
            yield from (Unchanged(stack.id) for stack in tree[1:] if stack.id in self._known)
            return
        held = {tree[0].id, *(row.physical for row in root.live)}
        for stack in tree[1:]:
            if stack.id not in held and stack.parent in held:
                yield self._read(stack, listing)

    def _persist(self, request: Callable[[], Answer]) -> Answer:
        """The answer to a request, as soon as Heat gives one. Errors: ReadingError if Heat answers other requests at
        once."""
        while True:
            try:
                return request()
            except (MissingError, ForbiddenError):
                raise
            except ReadingError as error:
                if not self._wait(error):
                    raise

    def _wait(self, error: ReadingError) -> bool:
        """Wait until Heat answers; return whether that was necessary. Errors: InputError if it does not."""
        waited, pause = 0.0, 1.0
        while True:
            try:
                self._api.get(HEAT, PROBE)
            except (MissingError, ForbiddenError):
                return waited > 0
            except ReadingError:
                if waited >= self._patience:
                    message = f"Heat has not answered for {waited:.0f} seconds: {error}"
                    raise InputError.of(
                        message, suggestion="run the scan again: it continues where it stopped"
                    ) from None
                self._pause(pause)
                waited, pause = waited + pause, min(2 * pause, LONGEST_PAUSE)
            else:
                return waited > 0


def _listed(row: Mapping[str, Any], project: str) -> _Listed:
    updated = str(row.get("updated_time") or row.get("creation_time") or "")
    status = str(row.get("stack_status"))
    fields = ("stack_status_reason", "creation_time", "updated_time", "parent", "stack_name", "tags")
    listed = json.dumps([status, *(row.get(name) for name in fields)])
    return _Listed(
        id=str(row["id"]),
        parent=str(row.get("parent") or ""),
        name=str(row["stack_name"]),
        project=str(row.get("project") or project),
        updated=updated,
        status=status,
        tags=tuple(map(str, row.get("tags") or ())),
        digest=sha256(listed.encode()).hexdigest(),
    )


def _trees(stacks: list[_Listed]) -> list[list[_Listed]]:
    """The root stacks, each followed by its nested stacks, by id. A stack whose parent is gone is a root."""
    children: dict[str, list[_Listed]] = {}
    known = {stack.id: stack for stack in stacks}  # pages may repeat stacks that have moved
    for stack in known.values():
        children.setdefault(stack.parent if stack.parent in known else "", []).append(stack)
    trees = []
    for root in sorted(children.get("", ()), key=lambda stack: stack.id):
        tree = [root]
        for stack in tree:
            tree += sorted(children.get(stack.id, ()), key=lambda child: child.id)
        trees.append(tree)
    return trees


def _listing(tree: list[_Listed], now: float) -> str | None:
    """The digest of the list's data about the stacks; None if it may stay the same after another change."""
    unsettled = datetime.fromtimestamp(now - SETTLED, UTC)
    if any(stack.busy or is_updated(stack.updated, unsettled) for stack in tree):
        return None
    return sha256("".join(f"{stack.id} {stack.digest}\n" for stack in tree).encode()).hexdigest()
