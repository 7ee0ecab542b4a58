"""Leases, for work that takes longer than a transaction.

A lease has an owner and an expiry. If the owner is killed, the lease expires. After the expiry the owner can't write
any more, since each transaction of its work begins with `Lease.extend`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import uuid4

from sqlalchemy import or_, select
from sqlalchemy.engine import Connection

from datalog_gate.store.tables import leases
from datalog_gate.store.transaction import Store


class Lease:
    """The lease with this name, for so many seconds each time. `owner` is shown to people; each object is a separate
    owner. Errors of all methods: those of the store."""

    def __init__(
        self, store: Store, name: str, seconds: float, owner: str = "", clock: Callable[[], float] = time.time
    ) -> None:
        self._store, self._name, self._seconds, self._clock = store, name, seconds, clock
        self._owner = f"{owner} {uuid4().hex}".strip()

    def take(self) -> str:
        """Take or extend the lease. Return "" if it is ours, else its owner."""

        def work(rows: Connection) -> str:
            now = self._clock()
            free = or_(leases.c.owner == self._owner, leases.c.until <= now)
            values = {"owner": self._owner, "until": now + self._seconds}
            if rows.execute(leases.update().where(leases.c.name == self._name, free).values(**values)).rowcount:
                return ""
            owner = rows.execute(select(leases.c.owner).where(leases.c.name == self._name)).scalar()
            if owner is None:
                rows.execute(leases.delete().where(leases.c.until <= now))  # of dead owners
                rows.execute(leases.insert().values(name=self._name, **values))
                return ""
            return str(owner)

        return self._store.run(None, work)

    def extend(self, rows: Connection) -> bool:
        """Extend the lease in a transaction, and lock it until the transaction ends. False if it has expired."""
        now = self._clock()
        mine = leases.c.name == self._name, leases.c.owner == self._owner, leases.c.until > now
        return bool(rows.execute(leases.update().where(*mine).values(until=now + self._seconds)).rowcount)

    def end(self) -> None:
        """Give up the lease, if it is still ours."""
        mine = leases.c.name == self._name, leases.c.owner == self._owner
        self._store.run(None, lambda rows: rows.execute(leases.delete().where(*mine)))
