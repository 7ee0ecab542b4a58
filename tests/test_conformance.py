"""The conformance kit finds each broken promise of a service."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from datalog_gate_edge import Edge

from datalog_gate.plugins.plugin_errors import PluginError, RefusedError
from datalog_gate.services.conformance import Conformance, asked
from datalog_gate.services.contract import Decision, Held, Request, Service, Status


class TestEdge(Conformance):
    room = 2

    def make(self, folder: Path) -> Service:
        edge: Service = Edge({"file": str(folder / "edge"), "places": "2"})
        return edge

    def request(self, uuid: str) -> Request:
        return asked("edge", uuid, "vm", type="OS::Nova::Server")

    def refused(self, uuid: str) -> Request:
        return asked("edge", uuid, "a", "b", "c", type="OS::Nova::Server")


class TestLastPlace(TestEdge):
    room = 1

    def make(self, folder: Path) -> Service:
        edge: Service = Edge({"file": str(folder / "edge"), "places": "1"})
        return edge


Rows = dict[str, list[str] | None]


class Good(Service):
    """A correct service of two seats, in a file. Each of the services below is this one with one fault."""

    pause = 0.0
    """Seconds between reading and writing, in which whoever has no lock meets the others."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def rows(self) -> Iterator[Rows]:
        """The seats by key, None for one that is dead."""
        with self._lock():
            rows: Rows = json.loads(self._path.read_text()) if self._path.exists() else {}
            time.sleep(self.pause)
            yield rows
            fresh = self._path.with_name(f"new-{os.getpid()}-{next(COUNT)}")
            fresh.write_text(json.dumps(rows))
            fresh.replace(self._path)

    def _lock(self) -> AbstractContextManager[Any]:
        lock = self._path.with_suffix(".lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def free(self, request: Request, rows: Rows) -> str:
        mine = {seat for key in request.replaces for seat in rows.get(key) or ()}
        taken = {seat for seats in rows.values() for seat in seats or ()}
        left = sorted(mine) or sorted({"1", "2"} - taken)
        if not left or request.options.get("wrong"):
            raise RefusedError("no")
        return left[0]

    def facts(self, request: Request) -> None:
        with self.rows() as rows:
            self.free(request, rows)

    def reserve(self, request: Request) -> Decision:
        with self.rows() as rows:
            if request.key not in rows:
                rows[request.key] = [self.free(request, rows)]
            seats = rows[request.key]
            if seats is None:
                raise RefusedError("dead")
            return {"vm": {"seat": seats[0]}}

    def release(self, held: Held) -> None:
        with self.rows() as rows:
            rows[held.key] = None

    def status(self, held: Held) -> Status:
        with self.rows() as rows:
            return "held" if rows.get(held.key) else "absent"


COUNT = itertools.count()
LOCK = threading.Lock()


class Twice(Good):
    def reserve(self, request: Request) -> Decision:
        with self.rows() as rows:
            seats = rows.setdefault(request.key, [])
            if seats is None:
                raise RefusedError("dead")
            seats.append(self.free(request, rows))
            return {"vm": {"seat": seats[0]}}


class Fickle(Good):
    def reserve(self, request: Request) -> Decision:
        return {"vm": {**super().reserve(request)["vm"], "at": next(COUNT)}}


class Greedy(Good):
    def reserve(self, request: Request) -> Decision:
        try:
            return super().reserve(request)
        except RefusedError:
            with self.rows() as rows:
                if request.key not in rows:
                    rows[request.key] = ["3"]
            raise


class Reborn(Good):
    def release(self, held: Held) -> None:
        with self.rows() as rows:
            rows.pop(held.key, None)


class Late(Good):
    def release(self, held: Held) -> None:
        with self.rows() as rows:
            if held.key in rows:
                rows[held.key] = None


class Once(Good):
    def release(self, held: Held) -> None:
        with self.rows() as rows:
            if not rows.get(held.key):
                raise RefusedError("there is nothing to release")
            rows[held.key] = None


class Generous(Good):
    def release(self, _held: Held) -> None:
        with self.rows() as rows:
            rows |= dict.fromkeys([_held.key, *rows])


class Knowing(Good):
    def release(self, held: Held) -> None:
        if held.decision:
            super().release(held)


class Boastful(Good):
    def status(self, _held: Held) -> Status:
        return "held"


class Shy(Good):
    def status(self, _held: Held) -> Status:
        return "absent"


class Mumbling(Good):
    def status(self, held: Held) -> Status:
        word: Any = super().status(held) == "held"
        return word  # type: ignore[no-any-return]


class Eager(Good):
    def facts(self, request: Request) -> None:
        self.reserve(request)


class Hoarding(Good):
    def waits(self, request: Request) -> str:
        self.reserve(request)
        return ""


class Blind(Good):
    def facts(self, _request: Request) -> None:
        pass


class Separate(Good):
    def free(self, request: Request, rows: Rows) -> str:
        return super().free(replace(request, replaces=()), rows)


class Mover(Good):
    def reserve(self, request: Request) -> Decision:
        decision = super().reserve(request)
        with self.rows() as rows:
            rows |= dict.fromkeys(request.replaces)
        return decision


class Sweeper(Good):
    def release(self, held: Held) -> None:
        with self.rows() as rows:
            released = rows.get(held.key) or []
            rows |= {key: None for key, seats in rows.items() if set(seats or ()) & set(released)}
            rows[held.key] = None


class Committed(Good):
    def commit(self, held: Held) -> None:
        with self.rows() as rows:
            rows[held.key] = ["1"]


class CommitOnce(Good):
    def commit(self, held: Held) -> None:
        with self.rows() as rows:
            if f"committed {held.key}" in rows:
                raise RefusedError("it is committed")
            rows[f"committed {held.key}"] = None


class Forgetful(Good):
    """It knows only its own reservations."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.with_name(f"mine-{next(COUNT)}"))


class Racing(Good):
    pause = 0.05

    def _lock(self) -> AbstractContextManager[None]:
        return nullcontext()


class Threads(Good):
    """Its lock holds in one process only."""

    pause = 0.05

    def _lock(self) -> AbstractContextManager[Any]:
        return LOCK


class Hasty(Good):
    """It reads, writes without another look, and returns what it wrote."""

    def reserve(self, request: Request) -> Decision:
        with self.rows() as rows:
            known = request.key in rows
        if known:
            return super().reserve(request)
        time.sleep(0.1)
        with self.rows() as rows:
            if not rows.get(request.key):
                rows.pop(request.key, None)
            seat = self.free(request, rows)
            rows[request.key] = [seat]
            return {"vm": {"seat": seat}}


class Tuple(Good):
    def reserve(self, request: Request) -> Decision:
        return {"vm": {"seats": tuple(super().reserve(request)["vm"])}}


class Flat(Good):
    def reserve(self, request: Request) -> Decision:
        flat: Any = super().reserve(request)["vm"]
        return flat  # type: ignore[no-any-return]


CHECKS = {
    " ".join([name.removeprefix("test_").replace("_", " "), *more]): (name, more)
    for name in vars(Conformance)
    if name.startswith("test_")
    for more in ([("old",), ("new",)] if "replaces" in name else [()])
}
"""The checks by what they say: the method, and what it is given besides the folder."""


def passes(kind: type[Good], check: str, folder: Path) -> bool:
    """Whether a service passes a check."""

    class Suite(Conformance):
        room = 2

        def make(self, folder: Path) -> Service:
            return kind(folder / "seats")

        def request(self, uuid: str) -> Request:
            return asked("seats", uuid, "vm", type="T")

        def refused(self, uuid: str) -> Request:
            return asked("seats", uuid, "vm", type="T", wrong=True)

    name, more = CHECKS[check]
    fresh = folder / check.replace(" ", "-")
    fresh.mkdir()
    try:
        getattr(Suite(), name)(fresh, *more)
    except (AssertionError, PluginError):
        return False
    return True


NAMED: dict[type[Good], tuple[str, ...]] = {
    Twice: ("reserving again gives the same json by resource and holds once",),
    Fickle: ("reserving again gives the same json by resource and holds once",),
    Greedy: ("what is refused holds nothing and facts refuse it too",),
    Reborn: ("a key that was released is dead reserved before or not",),
    Late: ("a key that was released is dead reserved before or not",),
    Once: ("a release may be repeated and gives back nothing else",),
    Generous: ("a release may be repeated and gives back nothing else",),
    Knowing: ("a release may be repeated and gives back nothing else",),
    Boastful: ("status tells the truth of a service made afresh",),
    Shy: ("status tells the truth of a service made afresh",),
    Mumbling: ("status tells the truth of a service made afresh",),
    Eager: ("facts and waiting hold nothing",),
    Hoarding: ("facts and waiting hold nothing",),
    Blind: ("what is refused holds nothing and facts refuse it too",),
    Separate: ("what one replaces is held once until the last is released old",),
    Mover: ("what one replaces is held once until the last is released old",),
    Sweeper: ("what one replaces is held once until the last is released new",),
    Committed: ("a commit may be repeated and holds nothing by itself",),
    CommitOnce: ("a commit may be repeated and holds nothing by itself",),
    Forgetful: ("status tells the truth of a service made afresh",),
    Racing: ("many at once on different keys hold what there is",),
    Threads: ("many processes at once hold what there is",),
    Hasty: ("many at once on one key hold once", "a release that meets its reserve wins"),
    Tuple: ("reserving again gives the same json by resource and holds once",),
    Flat: ("reserving again gives the same json by resource and holds once",),
}


@pytest.mark.parametrize("kind", NAMED, ids=lambda kind: kind.__name__)
def test_a_service_with_a_fault_fails_the_checks_that_name_it(kind: type[Good], tmp_path: Path) -> None:
    assert [service for service in NAMED[kind] if passes(kind, service, tmp_path)] == []


def test_a_service_without_a_fault_passes_each_check_and_each_fails_for_some_fault(tmp_path: Path) -> None:
    assert [check for check in CHECKS if not passes(Good, check, tmp_path)] == []
    assert (set(NAMED), set(CHECKS) - {check for checks in NAMED.values() for check in checks}) == (
        set(Good.__subclasses__()),
        set(),
    )
