"""The conformance kit finds each broken promise of a service."""

from __future__ import annotations

import fcntl
import itertools
import json
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Barrier, Lock
from typing import Any

import pytest

from datalog_gate.plugins.plugin_errors import PluginError, RefusedError
from datalog_gate.services.conformance import CROWD, Conformance, asked
from datalog_gate.services.contract import Decision, Held, Request, Service, Status
from examples.edge.datalog_gate_edge import Edge, Places


class TestEdge(Conformance):
    room = 2

    def make(self, folder: Path) -> Service:
        return Edge({"file": str(folder / "edge"), "places": "2"})

    def request(self, uuid: str) -> Request:
        return asked("edge", uuid, "vm", type="OS::Nova::Server")

    def refused(self, uuid: str) -> Request:
        return asked("edge", uuid, "a", "b", "c", type="OS::Nova::Server")


class TestLastPlace(TestEdge):
    room = 1

    def make(self, folder: Path) -> Service:
        return Edge({"file": str(folder / "edge"), "places": "1"})


class Good(Edge):
    """The service edge with two places. Each of the services below is this one with one fault."""

    meeting = Barrier(1)
    """Where whoever has no lock meets the others between reading and writing."""

    def __init__(self, path: Path) -> None:
        super().__init__({"file": str(path), "places": "2"})

    @contextmanager
    def rows(self) -> Iterator[Places]:
        """The places, which are written in the end."""
        with self._places() as places:
            yield places
            self._write(places)

    @contextmanager
    def _places(self) -> Iterator[Places]:
        with self._lock():
            places = json.loads(self._file.read_text()) if self._file.exists() else {}
            self.meeting.wait(60)
            yield places

    def _lock(self) -> AbstractContextManager[Any]:
        lock = self._file.with_suffix(".lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        return lock

    def _write(self, places: Places) -> None:
        fresh = self._file.with_name(f"new-{os.getpid()}-{next(COUNT)}")
        fresh.write_text(json.dumps(places))
        fresh.replace(self._file)

    def _given(self, request: Request, places: Places) -> dict[str, int]:
        if request.options.get("wrong"):
            raise RefusedError("no")
        return super()._given(request, places)


COUNT = itertools.count()
LOCK = Lock()


class Twice(Good):
    def reserve(self, request: Request) -> Decision:
        with self.rows() as rows:
            if rows.get(request.key):
                rows[f"{request.key} again"] = self._given(request, rows)
        return super().reserve(request)


class Greedy(Good):
    def reserve(self, request: Request) -> Decision:
        try:
            return super().reserve(request)
        except RefusedError:
            with self.rows() as rows:
                if request.key not in rows:
                    rows[request.key] = {"vm": 3}
            raise


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


class Boastful(Good):
    def status(self, _held: Held) -> Status:
        return "held"


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


class Mover(Good):
    def reserve(self, request: Request) -> Decision:
        decision = super().reserve(request)
        with self.rows() as rows:
            rows |= dict.fromkeys(request.replaces)
        return decision


class Sweeper(Good):
    def release(self, held: Held) -> None:
        with self.rows() as rows:
            released = rows.get(held.key) or {}
            rows |= {key: None for key, places in rows.items() if places and places.items() & released.items()}
            rows[held.key] = None


class Committed(Good):
    def commit(self, held: Held) -> None:
        with self.rows() as rows:
            rows[held.key] = {"vm": 1}


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
    meeting = Barrier(CROWD)

    def _lock(self) -> AbstractContextManager[None]:
        return nullcontext()


class Threads(Good):
    """Its lock holds in one process only."""

    meeting = multiprocessing.get_context("fork").Barrier(CROWD)

    def _lock(self) -> AbstractContextManager[Any]:
        return LOCK


class Hasty(Good):
    """It reads, writes without another look, and returns what it wrote."""

    crowd = Barrier(CROWD)

    def release(self, held: Held) -> None:
        self.crowd.wait(60)
        super().release(held)
        self.crowd.wait(60)

    def reserve(self, request: Request) -> Decision:
        with self.rows() as rows:
            known = request.key in rows
        if known:
            return super().reserve(request)
        self.crowd.wait(60)  # all have read, and none has released
        self.crowd.wait(60)  # all have released, and none has written
        with self.rows() as rows:
            if not rows.get(request.key):
                rows.pop(request.key, None)
            rows[request.key] = places = self._given(request, rows)
            return {name: {"place": place} for name, place in places.items()}


class Tuple(Good):
    def reserve(self, request: Request) -> Decision:
        return {"vm": {"seats": tuple(super().reserve(request)["vm"])}}


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
    Greedy: ("what is refused holds nothing and facts refuse it too",),
    Late: ("a key that was released is dead reserved before or not",),
    Once: ("a release may be repeated and gives back nothing else",),
    Generous: ("a release may be repeated and gives back nothing else",),
    Boastful: ("status tells the truth of a service made afresh",),
    Eager: ("facts and waiting hold nothing",),
    Hoarding: ("facts and waiting hold nothing",),
    Blind: ("what is refused holds nothing and facts refuse it too",),
    Mover: ("what one replaces is held once until the last is released old",),
    Sweeper: ("what one replaces is held once until the last is released new",),
    Committed: ("a commit may be repeated and holds nothing by itself",),
    CommitOnce: ("a commit may be repeated and holds nothing by itself",),
    Forgetful: ("status tells the truth of a service made afresh",),
    Racing: ("many at once on different keys hold what there is",),
    Threads: ("many processes at once hold what there is",),
    Hasty: ("many at once on one key hold once", "a release that meets its reserve wins"),
    Tuple: ("reserving again gives the same json by resource and holds once",),
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
