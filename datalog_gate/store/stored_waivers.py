"""Waivers that people created at the server.

Each change increases the counter of the lock `waivers`, by which doors detect changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import Connection

from datalog_gate.base.records import dataclass
from datalog_gate.store.tables import locks, waivers
from datalog_gate.store.transaction import Store, take_turn


@dataclass(frozen=True, slots=True)
class StoredWaiver:
    """A waiver with its creator, and the time in seconds since 1970."""

    number: int
    entry: Mapping[str, Any]
    """The entry of a `waivers.yaml`."""
    at: float
    who: str

    @property
    def id(self) -> str:
        return f"S-{self.number}"


def read_turn(store: Store) -> int:
    """A number that changes with each change. Errors: those of the store."""
    query = select(locks.c.turn).where(locks.c.name == "waivers")
    return store.run(None, lambda rows: int(rows.execute(query).scalar_one()), reads=True)


def read_waivers(store: Store) -> tuple[StoredWaiver, ...]:
    """All waivers, the oldest first. Errors: those of the store."""
    query = select(waivers.c.number, waivers.c.entry, waivers.c.at, waivers.c.who).order_by(waivers.c.number)
    return store.run(None, lambda rows: tuple(StoredWaiver(*row) for row in rows.execute(query)), reads=True)


def add_waiver(store: Store, entry: Mapping[str, Any], who: str, now: float) -> StoredWaiver:
    """Add a waiver, which gets an id. Errors: those of the store."""

    def work(rows: Connection) -> StoredWaiver:
        number = take_turn(rows, "waivers")
        waiver = StoredWaiver(number, {**entry, "id": f"S-{number}"}, now, who)
        values = {"number": number, "project": entry.get("project", ""), "entry": dict(waiver.entry)}
        rows.execute(waivers.insert().values(at=now, who=who, **values))
        return waiver

    return store.run("waivers", work)


def remove_waiver(store: Store, number: int) -> bool:
    """Remove a waiver; return whether it existed. Errors: those of the store."""

    def work(rows: Connection) -> bool:
        take_turn(rows, "waivers")
        return bool(rows.execute(waivers.delete().where(waivers.c.number == number)).rowcount)

    return store.run("waivers", work)
