"""Claims in Placement, stored by key in the store.

All claims of a stack have one consumer in Placement. A *line* is a sequence of claims that replace each other; the
maximum need in a line counts. Needs are written to the store before Placement is called, and Placement is then made to
match the store, so that the next step repairs an interrupted one. A released key stays in the store as dead. Changing
the claims of a consumer requires its lease. Allocations in Placement are changed only from the generation read before
the claims, so that a process that lost the lease can't overwrite newer data.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal
from uuid import NAMESPACE_URL, uuid5

from sqlalchemy import Text, select, type_coerce
from sqlalchemy.engine import Connection

from datalog_gate.plugins.plugin_errors import RefusedError, UnavailableError
from datalog_gate.plugins.plugin_settings import UnknownSettingError, check_store
from datalog_gate.services.contract import Decision, Held, Request, Service, Status
from datalog_gate.services.placement import Amounts, ChangedError, FullError, Placement, Provider
from datalog_gate.store.leases import Lease
from datalog_gate.store.tables import placement_claims as table
from datalog_gate.store.transaction import Store, atomic, reading

LEASE, PATIENCE = 2.0, 0.8
"""Fractions of a call's timeout: the maximum time between two renewals of a consumer's lease, since a call may continue
after it was given up; and the time to wait for a lease or another transaction."""
ATTEMPTS = 20
MEMORY = 90 * 86400.0
"""Seconds for which a dead key is stored; no call arrives later."""


Taken = tuple[str, str, int]
"""Provider, resource class and units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementClaim:
    """A row of the table. A `shared` claim was decided together with that of another grant and waits for its own grant.
    A held claim is `built` once its stack was complete. A `dying` claim becomes `dead` once Placement is updated."""

    key: str
    consumer: str
    line: str = ""
    project: str
    grant: str = ""
    """The path of the grant."""
    items: dict[str, list[Taken]] = field(default_factory=dict)
    """Its needs, by item name."""
    decision: dict[str, Any] = field(default_factory=dict)
    state: Literal["held", "built", "shared", "dying", "dead"] = "held"
    owner: str = ""
    """The key of the claim with which a shared one was decided."""
    asked: str = ""
    """The demand that a shared claim satisfies, once it is held."""
    since: float = 0.0
    """When the row was written, in seconds since 1970."""


HELD, GONE = ("held", "built"), ("dying", "dead")


class Claims:
    """The claims of a service, in a store: the URL of a database, or the path of a file, which is created if missing.
    Errors of all methods: UnavailableError."""

    lock = "claims"

    def __init__(self, store: str, placement: Placement, call_seconds: float = 10.0) -> None:
        self.lease, self.patience = LEASE * call_seconds, PATIENCE * call_seconds
        self.placement, self.store = placement, Store(store, UnavailableError, self.patience)
        self.store.create()

    def account(self, request: Request) -> Account:
        """The account of the request's stack, or of the stack with the claims it replaces."""
        old = [claim for key in request.replaces for claim in self.select(key=key) if claim.state in HELD]
        mine = str(uuid5(NAMESPACE_URL, json.dumps([request.service, request.project, request.stack])))
        return Account(self, old[0].consumer if old else mine, request.project)

    @atomic
    def commit(self, rows: Connection, key: str) -> None:
        """Record that the stack of a held claim was complete."""
        rows.execute(table.update().where(table.c.key == key, table.c.state == "held").values(state="built"))

    def release(self, held: Held) -> None:
        """As `Service.release`; releases shared claims of this owner too."""
        consumer = next((claim.consumer for claim in self.select(key=held.key)), "")
        dying = PlacementClaim(key=held.key, consumer=consumer, project=held.project, state="dying")
        self.write([], [dying])  # before the lease: its holder settles for all that wait
        if consumer:
            with Account(self, consumer, held.project).locked() as account:
                if self.select(key=held.key, state="dying"):  # nobody has settled it meanwhile
                    account.write([claim.key for claim in self.select(owner=held.key)], [])
                    account.mend()
            self._forget(time.time() - MEMORY)  # no calls arrive any more for keys this old

    def status(self, held: Held) -> Status:
        """As `Service.status`, according to Placement and not only the store."""
        claim = next(iter(self.select(key=held.key)), None)
        if claim is None or not claim.consumer:
            return "absent"
        with Account(self, claim.consumer, held.project).locked() as account:
            allocated, _ = self.placement.allocation(claim.consumer)
            needed = needs(account.claims)
        if claim.state in GONE:
            return "held" if allocated - needed else "absent"
        if not needed - allocated:
            return "held"
        return "unknown" if allocated else "absent"

    @reading
    def select(self, rows: Connection, /, naming: str = "", **equal: str) -> list[PlacementClaim]:
        """The claims with these column values, or those that need the resource class `naming`."""
        conditions = [table.c[name] == value for name, value in equal.items()]
        if naming:
            conditions.append(type_coerce(table.c["items"], Text).contains(json.dumps(naming), autoescape=True))
        claims = [PlacementClaim(**row) for row in rows.execute(select(table).where(*conditions)).mappings()]
        return sorted(claims, key=lambda claim: (claim.grant, claim.key))

    @reading
    def live(self, rows: Connection) -> list[PlacementClaim]:
        """All claims of all services that are neither dying nor dead."""
        live = rows.execute(select(table).where(table.c.state.not_in(GONE)).order_by(table.c.key)).mappings()
        return [PlacementClaim(**row) for row in live]

    @atomic
    def write(
        self, rows: Connection, keys: Collection[str], claims: Collection[PlacementClaim], lease: Lease | None = None
    ) -> None:
        """Delete the claims of these keys and write others, in one transaction, if the lease is still valid. Dead keys
        stay dead."""
        if lease and not lease.extend(rows):
            raise UnavailableError("what this grant asked for took too long")
        for key in keys:
            rows.execute(table.delete().where(table.c.key == key, table.c.state.not_in(GONE)))
        for claim in claims:
            state = rows.execute(select(table.c.state).where(table.c.key == claim.key)).scalar()
            if claim.state in GONE or state not in GONE:
                rows.execute(table.delete().where(table.c.key == claim.key))
                rows.execute(table.insert(), {**asdict(claim), "since": time.time()})

    @atomic
    def _forget(self, rows: Connection, before: float) -> None:
        rows.execute(table.delete().where(table.c.state == "dead", table.c.since < before))


class PlacementService(Service):
    """A service with claims in Placement. `own` are its settings besides the common ones."""

    uses_store = uses_call_seconds = True

    def __init__(self, settings: Mapping[str, str], own: Collection[str]) -> None:
        own = (*own, "store", "call_seconds")
        try:
            placement = Placement({name: text for name, text in settings.items() if name not in own})
        except UnknownSettingError as error:
            raise UnknownSettingError([error.name], error.known.union(own)) from None
        call_seconds = float(settings.get("call_seconds", "10"))
        self._claims = Claims(check_store(settings.get("store", "")), placement, call_seconds)

    def commit(self, held: Held) -> None:
        self._claims.commit(held.key)

    def release(self, held: Held) -> None:
        self._claims.release(held)

    def status(self, held: Held) -> Status:
        return self._claims.status(held)


class Account:
    """The claims of one consumer. Changing them requires the lease."""

    def __init__(self, claims: Claims, consumer: str, project: str) -> None:
        self._claims, self.consumer, self._project = claims, consumer, project
        self._lease = Lease(claims.store, f"consumer {consumer}", claims.lease)

    @contextmanager
    def locked(self) -> Iterator[Account]:
        """Hold the lease. It expires by itself if the process dies."""
        end = time.monotonic() + self._claims.patience
        while self._lease.take():
            if time.monotonic() > end:
                raise UnavailableError("other grants of this stack have not finished yet")
            time.sleep(0.01 + 0.02 * random.random())
        try:
            yield self
        finally:
            with suppress(UnavailableError):  # it expires by itself
                self._lease.end()

    @property
    def claims(self) -> list[PlacementClaim]:
        """The claims that are neither dying nor dead."""
        return [claim for claim in self._claims.select(consumer=self.consumer) if claim.state not in GONE]

    def write(self, keys: Iterable[str], claims: Iterable[PlacementClaim]) -> None:
        """As `Claims.write`. Errors: also UnavailableError if the lease has expired."""
        self._claims.write(list(keys), list(claims), self._lease)

    def decided(self, key: str, mend: bool = True) -> Decision | None:
        """The decision of a held claim. An interrupted claim is completed. Errors: RefusedError for a dead key."""
        claim = next(iter(self._claims.select(key=key)), None)
        if claim is None:
            return None
        if claim.state in GONE:
            raise RefusedError("what this grant asked for was released before")
        if mend:
            self._hold([claim.key])
        return claim.decision

    def line(self, request: Request) -> str:
        """The line of the claim that the request replaces, or a new one."""
        return next((claim.line for claim in self.claims if claim.key in request.replaces), request.key)

    def free(self, providers: Iterable[Provider], replaced: Iterable[str]) -> Amounts:
        """The capacity for new claims in the lines `replaced`. Allocations of these lines count as free."""
        held, _ = self._claims.placement.allocation(self.consumer)
        lines = set(replaced)
        kept = needs(claim for claim in self.claims if claim.line not in lines)
        free: Amounts = Counter()
        for provider in providers:
            for name, amount in provider.capacity.items():
                at = provider.uuid, name
                free[at] = amount - provider.used.get(name, 0) + held[at] - kept[at]
        return free

    def hold(self, claims: list[PlacementClaim], shares: Iterable[str] = ()) -> None:
        """Hold new claims instead of the shares with these keys. Errors: RefusedError: then they are not held, or were
        released meanwhile."""
        # shares are taken only after they are held
        self.write(shares, [replace(claim, asked="") for claim in claims])
        self._hold([claim.key for claim in claims])
        if shared := [claim for claim in claims if claim.asked]:
            self.write([], shared)
        for claim in claims:
            self.decided(claim.key, mend=False)  # it may have been released meanwhile

    def take(self, share: PlacementClaim, claim: PlacementClaim) -> None:
        """Replace a share, which is already held, by a claim."""
        self.write([share.key], [claim])
        self.decided(claim.key, mend=False)

    def _hold(self, keys: list[str]) -> None:
        try:
            self._settle()
        except FullError as error:
            self.write(keys, [])
            self.mend()
            raise RefusedError(f"the free capacity was taken by someone else: {error}") from error

    def mend(self) -> None:
        try:
            self._settle()
        except FullError as error:
            raise UnavailableError(f"Placement has no capacity for its claims: {error}") from error

    def _settle(self) -> None:
        """Make Placement match the needs of the claims. Errors: FullError: then nothing has changed."""
        placement, why = self._claims.placement, ""
        for attempt in range(ATTEMPTS):
            allocated, generation = placement.allocation(self.consumer)
            claims = self._claims.select(consumer=self.consumer)
            needed = needs(claim for claim in claims if claim.state not in GONE)
            try:
                if needed != allocated:
                    placement.allocate(self.consumer, self._project, needed, generation)
                if dying := [replace(claim, state="dead") for claim in claims if claim.state == "dying"]:
                    self.write([], dying)
                return
            except ChangedError as error:
                why = str(error)
                time.sleep(0.01 * random.random() * 2 ** min(attempt, 6))
        raise UnavailableError(f"Placement did not accept a claim in {ATTEMPTS} attempts: {why}")


def needs(claims: Iterable[PlacementClaim]) -> Amounts:
    """The needs of claims together: for each line the maximum of its claims. An item in the scopes of several grants
    counts once."""
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
