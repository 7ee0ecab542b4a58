"""What a service holds in Placement, remembered by key (layer 5).

In: what each claim needs, item by item. Out: one consumer in Placement for all claims of a stack, which holds what they
need together. A *line* is the claims that replace each other: of it the most counts that any of them needs, so that
what two of them share is held once, until the last is released, and to roll back takes no call. An item in the scopes
of several grants is held once too.

What is needed stands in an SQLite file before Placement is asked, and what Placement holds is always made what the file
says: whatever was broken off is mended by the next step, and a step may be repeated. A key that was released stays in
the file, dead. The processes of a host share the file, and lock each stack in it: the journal is of one host as well.
"""

from __future__ import annotations

import fcntl
import json
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal
from uuid import NAMESPACE_URL, uuid5

from datalog_gate.plugins.errors import RefusedError, UnavailableError
from datalog_gate.services import database
from datalog_gate.services.contract import Decision, Held, Request, Status
from datalog_gate.services.placement import Amounts, ChangedError, FullError, Placement, Provider

LOCKS = 64
"""Files that lock stacks: two stacks may meet at one, and then wait for each other."""
PATIENCE = 8.0
"""Seconds to wait for a lock."""
ATTEMPTS = 20
MEMORY = 90 * 86400.0
"""Seconds that a dead key is remembered: nothing arrives later."""


Taken = tuple[str, str, int]
"""Provider, resource class and units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementClaim:
    """A row of the file. `items` are what it needs: provider, resource class and units by name of the item. A `shared`
    one was decided on together with the claim of the key `owner`, for the grant of the path `grant`, which has not come
    for it yet: `asked` says what it is the answer to, once it is held. A `dying` one is `dead` once Placement has been
    told."""

    key: str
    consumer: str
    line: str
    project: str
    grant: str
    items: dict[str, list[Taken]]
    decision: dict[str, Any]
    state: Literal["held", "shared", "dying", "dead"] = "held"
    owner: str = ""
    asked: str = ""
    since: float = 0.0


GONE = ("dying", "dead")
COLUMNS = tuple(field.name for field in fields(PlacementClaim))


class Claims:
    """The claims of a service. Errors of all: UnavailableError."""

    def __init__(self, file: str, placement: Placement) -> None:
        if not file:
            raise ValueError("the service needs a file, in which it writes down what it holds")
        self.path, self.placement = file, placement
        database.create(file)
        with self._transaction() as rows:
            rows.execute(f"CREATE TABLE IF NOT EXISTS claims ({', '.join(COLUMNS)}, PRIMARY KEY (key))")

    def account(self, request: Request) -> Account:
        """That of the stack which a request is for, or of the one that has what it replaces."""
        old = next(
            (claim for key in request.replaces for claim in self.select("key = ? AND state = 'held'", key)), None
        )
        mine = str(uuid5(NAMESPACE_URL, json.dumps([request.service, request.project, request.stack])))
        return Account(self, old.consumer if old else mine, request.project)

    def release(self, held: Held) -> None:
        """As `Service.release`, with all that nobody has come for."""
        consumer = next((claim.consumer for claim in self.select("key = ?", held.key)), "")
        self.write([], [_dead(held, consumer)])  # before the lock: who has it settles for all that wait
        if consumer:
            with Account(self, consumer, held.project).locked() as account:
                if self.select("key = ? AND state = 'dying'", held.key):  # nobody has settled it meanwhile
                    self.write([claim.key for claim in self.select("owner = ?", held.key)], [])
                    account.mend()
            self._forget()

    def status(self, held: Held) -> Status:
        """As `Service.status`: what Placement has counts, and not what the file says alone."""
        claim = next(iter(self.select("key = ?", held.key)), None)
        if claim is None or not claim.consumer:
            return "absent"
        with Account(self, claim.consumer, held.project).locked() as account:
            there, _ = self.placement.allocation(claim.consumer)
            needed = needs(account.claims)
        if claim.state in GONE:
            return "held" if there - needed else "absent"
        if not needed - there:
            return "held"
        return "unknown" if there else "absent"

    def select(self, where: str, *values: str) -> list[PlacementClaim]:
        """The claims of which this is true."""
        with self._transaction() as rows:
            found = rows.execute(f"SELECT * FROM claims WHERE {where} ORDER BY grant, key", values).fetchall()
        return [
            PlacementClaim(**{**dict(row), "items": json.loads(row["items"]), "decision": json.loads(row["decision"])})
            for row in found
        ]

    def write(self, keys: Iterable[str], claims: Iterable[PlacementClaim]) -> None:
        """Forget the claims of these keys, and write down others, all or nothing. What is dead stays so."""
        values = []
        for claim in claims:
            row = {**asdict(claim), "since": time.time()}.values()
            values.append([*(json.dumps(one) if isinstance(one, dict) else one for one in row), claim.state, claim.key])
        alive = f"? IN {GONE} OR NOT EXISTS (SELECT 1 FROM claims WHERE key = ? AND state IN {GONE})"
        with self._transaction() as rows:
            rows.executemany(f"DELETE FROM claims WHERE key = ? AND state NOT IN {GONE}", [(key,) for key in keys])
            columns = ", ".join("?" * len(COLUMNS))
            rows.executemany(f"INSERT OR REPLACE INTO claims SELECT {columns} WHERE {alive}", values)

    def _forget(self) -> None:
        """Dead keys for which nothing can arrive any more."""
        with self._transaction() as rows:
            rows.execute("DELETE FROM claims WHERE state = 'dead' AND since < ?", (time.time() - MEMORY,))

    def _transaction(self) -> AbstractContextManager[sqlite3.Connection]:
        return database.transaction(self.path, PATIENCE, UnavailableError)


class Account:
    """The claims that one consumer is for. Whatever changes them takes the lock."""

    def __init__(self, file: Claims, consumer: str, project: str) -> None:
        self._file, self.consumer, self._project = file, consumer, project

    @contextmanager
    def locked(self) -> Iterator[Account]:
        """Nobody else changes it meanwhile; the lock of a process that dies is gone."""
        with open(f"{self._file.path}.lock{int(self.consumer[-4:], 16) % LOCKS}", "w") as lock:
            end = time.monotonic() + PATIENCE
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise UnavailableError("other grants of this stack are taking their time") from None
                    time.sleep(0.01 + 0.02 * random.random())
            yield self

    @property
    def claims(self) -> list[PlacementClaim]:
        """Those that live."""
        return self._file.select(f"consumer = ? AND state NOT IN {GONE}", self.consumer)

    def decided(self, key: str, mend: bool = True) -> Decision | None:
        """The decision of a claim that is held, which is mended if it was broken off. Errors: RefusedError for a key
        that is dead."""
        claim = next(iter(self._file.select("key = ?", key)), None)
        if claim is None:
            return None
        if claim.state in GONE:
            raise RefusedError("what this grant asked for was given back before")
        if mend:
            self._hold([claim.key])
        return claim.decision

    def line(self, request: Request) -> str:
        """That of what is replaced, or one of its own."""
        return next((claim.line for claim in self.claims if claim.key in request.replaces), request.key)

    def free(self, providers: Iterable[Provider], replaced: Iterable[str]) -> Amounts:
        """What new claims in the lines `replaced` may take: what these hold counts as free."""
        held, _ = self._file.placement.allocation(self.consumer)
        lines = set(replaced)
        kept = needs(claim for claim in self.claims if claim.line not in lines)
        free: Amounts = Counter()
        for provider in providers:
            for name, amount in provider.capacity.items():
                at = provider.uuid, name
                free[at] = amount - provider.used.get(name, 0) + held[at] - kept[at]
        return free

    def claim(self, request: Request, **what: Any) -> PlacementClaim:
        """One of this account."""
        return PlacementClaim(
            key=request.key, consumer=self.consumer, project=self._project, grant=request.grant, **what
        )

    def hold(self, claims: list[PlacementClaim], instead: Iterable[str] = ()) -> None:
        """Hold what these need besides, in place of the shares of these keys. Errors: RefusedError, and then they are
        not held, or were given back meanwhile."""
        self._file.write(
            instead, [replace(claim, asked="") for claim in claims]
        )  # nobody takes a share before it is held
        self._hold([claim.key for claim in claims])
        self._file.write([], [claim for claim in claims if claim.asked])
        for claim in claims:
            self.decided(claim.key, mend=False)  # it may have been released meanwhile

    def take(self, share: PlacementClaim, claim: PlacementClaim) -> None:
        """Have a claim in place of the share, which is held already."""
        self._file.write([share.key], [claim])
        self.decided(claim.key, mend=False)

    def _hold(self, keys: list[str]) -> None:
        try:
            self._settle()
        except FullError as error:
            self._file.write(keys, [])
            self.mend()
            raise RefusedError(f"somebody else has taken what was free: {error}") from error

    def mend(self) -> None:
        """Have Placement hold what the claims need, which it has room for."""
        try:
            self._settle()
        except FullError as error:
            raise UnavailableError(f"Placement has no room for what it holds: {error}") from error

    def _settle(self) -> None:
        """Have Placement hold what the claims need. Errors: FullError, and then it holds what it did."""
        placement, why = self._file.placement, ""
        for attempt in range(ATTEMPTS):
            there, generation = placement.allocation(self.consumer)
            ever = self._file.select("consumer = ?", self.consumer)
            needed = needs(claim for claim in ever if claim.state not in GONE)
            try:
                if needed != there:
                    placement.allocate(self.consumer, self._project, needed, generation)
                self._file.write([], [replace(claim, state="dead") for claim in ever if claim.state == "dying"])
                return
            except ChangedError as error:
                why = str(error)
                time.sleep(0.01 * random.random() * 2 ** min(attempt, 6))
        raise UnavailableError(f"Placement did not take a claim in {ATTEMPTS} attempts: {why}")


def needs(claims: Iterable[PlacementClaim]) -> Amounts:
    """What they need together: of each line the most that any claim needs. What an item takes in the scope of one grant
    it takes no second time in that of another."""
    lines: dict[str, list[PlacementClaim]] = {}
    for claim in claims:
        lines.setdefault(claim.line, []).append(claim)
    total: Amounts = Counter()
    seen: dict[str, tuple[str, set[Taken]]] = {}
    for line in lines.values():
        most: Amounts = Counter()
        for claim in line:
            needed: Amounts = Counter()
            for name, takes in claim.items.items():
                taken = {(uuid, resource_class, units) for uuid, resource_class, units in takes}
                grant, before = seen.setdefault(name, (claim.grant, taken))
                if grant == claim.grant or before != taken:
                    needed.update({(uuid, resource_class): units for uuid, resource_class, units in taken})
            most |= needed
        total += most
    return total


def _dead(held: Held, consumer: str = "") -> PlacementClaim:
    return PlacementClaim(
        key=held.key, consumer=consumer, line="", project=held.project, grant="", items={}, decision={}, state="dying"
    )
