"""A service that keeps its holdings in a file, and a Heat.

The holdings outlive the process that reserved them.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

from datalog_gate.plugins.plugin_errors import RefusedError
from datalog_gate.services.approval import Approvals
from datalog_gate.services.broker import Broker, Limits
from datalog_gate.services.claims import Claims, PlacementClaim
from datalog_gate.services.contract import Decision, Held, Request, Service, Status
from datalog_gate.services.journal import Journal
from datalog_gate.services.parts import Part

LIMITS = Limits(call=2.0, step=5.0, lease=30.0)


def request(uuid: str, *seats: str, project: str = "p", stack: str = "s", service: str = "seats") -> Request:
    """A request of a grant for these seats."""
    return Request(
        service=service,
        project=project,
        stack=stack,
        stack_name=f"name-{stack}",
        grant=f"{stack}/grant",
        uuid=uuid,
        options=MappingProxyType({}),
        scope=tuple(
            Part(f"{stack}/{seat}", "T", MappingProxyType({}), None, frozenset(), False, False) for seat in seats
        ),
    )


class Seats(Service):
    """Each resource in scope takes a seat: the same one in all claims that replace each other."""

    def __init__(self, path: Path, size: int = 1000) -> None:
        self._path, self._size = path, size

    @contextmanager
    def _ledger(self) -> Iterator[dict[str, list[str]]]:
        """The seats by key. The value of a released key is None for ever."""
        with (self._path.parent / f"{self._path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            ledger = json.loads(self._path.read_text()) if self._path.exists() else {}
            yield ledger
            fresh = self._path.with_suffix(".new")
            fresh.write_text(json.dumps(ledger))
            fresh.replace(self._path)

    def reserve(self, request: Request) -> Decision:
        with self._ledger() as ledger:
            if ledger.get(request.key, []) is None:
                raise RefusedError("this key is dead")
            wanted = [part.id for part in request.scope]
            shared = {seat for key in request.replaces for seat in ledger.get(key) or ()}
            taken = {seat for seats in ledger.values() for seat in seats or ()}
            if set(wanted) & taken - shared - set(ledger.get(request.key, [])):
                raise RefusedError("taken")
            if len(taken | set(wanted)) > self._size:
                raise RefusedError("no seat is left")
            ledger[request.key] = wanted
            return {part.id.rpartition("/")[2]: {"seat": part.id} for part in request.scope}

    def release(self, held: Held) -> None:
        with self._ledger() as ledger:
            ledger[held.key] = None  # type: ignore[assignment]

    def status(self, held: Held) -> Status:
        with self._ledger() as ledger:
            return "held" if ledger.get(held.key) else "absent"

    def holdings(self) -> dict[str, list[str]]:
        """The seats that are held, by key."""
        with self._ledger() as ledger:
            return {key: seats for key, seats in ledger.items() if seats is not None}


def broker(folder: Path, service: Service, at: float | None = None, limits: Limits = LIMITS) -> Broker:
    """A broker with the journal of a folder, at the current or a fixed time."""
    clock = time.time if at is None else lambda: at
    journal = folder / "journal"
    if not journal.exists():
        journal.write_bytes(_empty_journal())
        journal.chmod(0o600)
    return Broker(Journal(str(journal), late=60.0), {"seats": service}, clock, time.monotonic, limits)


@cache
def _empty_journal() -> bytes:
    """A new journal, whose tables are created once for all brokers."""
    with TemporaryDirectory() as folder:
        Journal(f"{folder}/journal")
        return Path(folder, "journal").read_bytes()


def fill_store(url: str, now: float) -> None:
    """Fill a store with ten rows: two of each table of services."""
    journal = Journal(url)
    first = journal.begin(request("u1", "a"), "", None, now, 9.0)
    journal.move(first, "reserved", now + 1.25, decision={"a": {"seat": "s/a", "ü": None}})
    journal.begin(request("u2", "b", stack="t"), "", now + 1e8, now + 2, 9.0)
    approvals, asked = Approvals(url), request("u1", "a", service="approval")
    approvals.use(asked, now, 9e9)
    approvals.say("A-1", "refused", "ada", "no", now + 1)
    approvals.say("A-1", "approved", "bob", "", now + 2)
    approvals.use(asked, now, 9e9)
    approvals.use(request("u2", "b", stack="t", service="approval"), now, 9e9)
    approvals.release("dead")
    held = PlacementClaim(key="k", consumer="c", project="p", items={"k": [("r1", "CUSTOM_A", 2)]})
    dead = PlacementClaim(key="d", consumer="", project="p", state="dead")
    Claims(url, None).write([], [held, dead])  # type: ignore[arg-type]  # no row needs Placement


class Heat:
    """The stacks of a Heat, as lines in a file. The working process writes them when Heat would know them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def say(self, *words: str) -> None:
        """Append ``made UUID STACK`` or ``deleting UUID STACK`` to the file."""
        with self._path.open("a") as file:
            file.write(" ".join(words) + "\n")

    def living(self) -> dict[str, set[str]]:
        """The uuids of the resources, by stack."""
        stacks: dict[str, set[str]] = {}
        for line in self._path.read_text().splitlines() if self._path.exists() else ():
            word, uuid, stack = line.split()
            mine = stacks.setdefault(stack, set())
            mine.add(uuid) if word == "made" else mine.discard(uuid)
        return stacks
