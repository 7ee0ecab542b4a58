"""The promises of `Service` as tests.

Authors of a service subclass `Conformance` and run it with pytest: CONTRIBUTING.md shows how.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from types import MappingProxyType
from typing import Any, TypeVar, get_args

import pytest

from datalog_gate.plugins.plugin_errors import PluginError, RefusedError, UnavailableError
from datalog_gate.services.contract import HOLDING, Held, Request, Service, Status
from datalog_gate.services.parts import Part
from datalog_gate.stack.model import Data

Result = TypeVar("Result")
CROWD = 8
"""The number of concurrent callers."""
TRIES = 10
"""The maximum number of times that a service may be unable to answer."""


def asked(service: str, uuid: str, *names: str, type: str, **options: Data) -> Request:
    """A grant's request for resources with these names, in the stack `s` of the project `p`."""
    nothing: Mapping[str, Data] = MappingProxyType({})
    scope = tuple(Part(f"s/{name}", type, nothing, None, frozenset(), False, False) for name in names)
    return Request(
        service=service,
        project="p",
        stack="1b1b",
        stack_name="s",
        grant="s/grant",
        uuid=uuid,
        options=MappingProxyType(options),
        scope=scope,
    )


def claim_of(request: Request) -> Held:
    """The claim of a request without its decision, as after a lost answer."""
    return Held(key=request.key, project=request.project, uuid=request.uuid, decision={})


class Conformance:
    """The base class, to be subclassed with `make` and `request`. `room` is the number of requests with different
    uuids, none replacing another, that the service can hold at once; None if unlimited, which skips tests of the last
    seat."""

    room: int | None = None

    def make(self, folder: Path) -> Service:
        """Create the service as another process would. Services with the same folder share their claims, others share
        nothing."""
        raise NotImplementedError

    def request(self, uuid: str) -> Request:
        """A request that can be satisfied, the same for all uuids except the uuid."""
        raise NotImplementedError

    def refused(self, uuid: str) -> Request | None:  # noqa: ARG002 - what an author overrides
        """A request that is always refused; None if there is none."""
        return None

    def test_reserving_again_gives_the_same_json_by_resource_and_holds_once(self, tmp_path: Path) -> None:
        service, request = self.make(tmp_path), self.request("u")
        decision = service.reserve(request)
        assert json.loads(json.dumps(decision, allow_nan=False)) == decision
        assert all(isinstance(entry, dict) for entry in dict(decision).values()), decision
        assert service.reserve(request) == decision
        self._holds_only(tmp_path, "u")

    def test_status_tells_the_truth_of_a_service_made_afresh(self, tmp_path: Path) -> None:
        request = self.request("u")
        self._tells(tmp_path, "u", held=False)
        decision = self.make(tmp_path).reserve(request)
        self._tells(tmp_path, "u", held=True)
        assert self.make(tmp_path).reserve(request) == decision
        self.make(tmp_path).commit(replace(claim_of(request), decision=decision))
        self._tells(tmp_path, "u", held=True)
        self.make(tmp_path).release(claim_of(request))
        self._tells(tmp_path, "u", held=False)
        self._refuses(tmp_path, request)

    def test_what_is_refused_holds_nothing_and_facts_refuse_it_too(self, tmp_path: Path) -> None:
        wrong = self.refused("wrong")
        if wrong is not None:
            self._refuses(tmp_path, wrong)
            assert _refused(lambda: self.make(tmp_path).facts(replace(wrong, uuid=""))), "what it would refuse"
            _says(self.make(tmp_path), wrong, held=False)
        if self.room is not None:
            self._fill(tmp_path, self.room)
            self._refuses(tmp_path, self.request("more"))
            assert _refused(lambda: self.make(tmp_path).facts(self.request(""))), "no room is left"
            self._tells(tmp_path, "more", held=False)
            self.make(tmp_path).release(claim_of(self.request("u0")))
            self.make(tmp_path).facts(self.request(""))
            self.make(tmp_path).reserve(self.request("next"))
        elif wrong is None:
            pytest.skip("it refuses nothing")

    def test_a_key_that_was_released_is_dead_reserved_before_or_not(self, tmp_path: Path) -> None:
        service = self.make(tmp_path)
        service.reserve(self.request("before"))
        for uuid in ("before", "later"):
            service.release(claim_of(self.request(uuid)))
            self._refuses(tmp_path, self.request(uuid))
            self._tells(tmp_path, uuid, held=False)
        self._holds_only(tmp_path)

    def test_a_release_may_be_repeated_and_gives_back_nothing_else(self, tmp_path: Path) -> None:
        service, request, other = self.make(tmp_path), self.request("u"), self.request("other")
        if self.room is None or self.room > 1:
            service.reserve(other)
        service.reserve(request)
        service.commit(claim_of(request))
        for _ in range(3):
            service.release(claim_of(request))
            service.release(claim_of(self.request("never")))
        self._tells(tmp_path, "u", held=False)
        if self.room != 1:
            self._tells(tmp_path, "other", held=True)
        self._holds_only(tmp_path, *(["other"] if self.room != 1 else []))

    def test_facts_and_waiting_hold_nothing(self, tmp_path: Path) -> None:
        service = self.make(tmp_path)
        for _ in range(3):
            service.facts(self.request(""))
            assert isinstance(service.waits(self.request("u")), str)
        for uuid in ("", "u"):
            self._tells(tmp_path, uuid, held=False)
        self._holds_only(tmp_path)

    @pytest.mark.parametrize("first", ["old", "new"])
    def test_what_one_replaces_is_held_once_until_the_last_is_released(self, tmp_path: Path, first: str) -> None:
        service, old = self.make(tmp_path), self.request("old")
        if self.room is not None:
            self._fill(tmp_path, self.room - 1)
        service.reserve(old)
        new = replace(self.request("new"), replaces=(old.key,))
        newest = replace(self.request("newest"), replaces=(new.key, old.key))
        service.facts(replace(new, uuid=""))
        service.reserve(new)
        service.reserve(newest)
        service.commit(claim_of(newest))
        for request in (old, new, newest):
            _says(service, request, held=True)
        gone, left = (old, new) if first == "old" else (new, old)
        service.release(claim_of(newest))
        service.release(claim_of(gone))
        _says(service, left, held=True)
        if self.room is not None:
            self._refuses(tmp_path, self.request("more"))
        service.release(claim_of(left))
        _says(service, left, held=False)
        if self.room is not None:
            service.reserve(self.request("next"))
            self._refuses(tmp_path, self.request("more"))

    def test_a_commit_may_be_repeated_and_holds_nothing_by_itself(self, tmp_path: Path) -> None:
        service, request = self.make(tmp_path), self.request("u")
        service.reserve(request)
        for _ in range(3):
            service.commit(claim_of(request))
        self._tells(tmp_path, "u", held=True)
        for name in ("never", "dead"):
            if name == "dead":
                service.release(claim_of(self.request(name)))
            with suppress(PluginError):
                service.commit(claim_of(self.request(name)))
            self._tells(tmp_path, name, held=False)
        self._holds_only(tmp_path, "u")

    def test_many_at_once_on_one_key_hold_once(self, tmp_path: Path) -> None:
        request = self.request("u")
        decisions = _at_once(lambda _: _answered(lambda: self.make(tmp_path).reserve(request)))
        assert decisions == [decisions[0]] * CROWD
        self._holds_only(tmp_path, "u")

    def test_many_at_once_on_different_keys_hold_what_there_is(self, tmp_path: Path) -> None:
        service = self.make(tmp_path)
        refused = _at_once(lambda at: _refused(lambda: service.reserve(self.request(f"u{at}"))))
        self._counts(tmp_path, refused)

    def test_many_processes_at_once_hold_what_there_is(self, tmp_path: Path) -> None:
        ways = multiprocessing.get_context("fork")
        results: Any = ways.SimpleQueue()
        barrier = ways.Barrier(CROWD)

        def work(at: int) -> None:
            barrier.wait(60)
            results.put((at, _refused(lambda: self.make(tmp_path).reserve(self.request(f"u{at}")))))

        processes = [ways.Process(target=work, args=(at,)) for at in range(CROWD)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(120)
        assert [process.exitcode for process in processes] == [0] * CROWD
        self._counts(tmp_path, [refused for _, refused in sorted(results.get() for _ in processes)])

    def test_a_release_that_meets_its_reserve_wins(self, tmp_path: Path) -> None:
        service = self.make(tmp_path)
        for turn in ("u0", "u1", "u2"):

            def call(at: int, turn: str = turn) -> None:
                time.sleep(at / 1000)
                if at % 2:
                    service.release(claim_of(self.request(turn)))
                else:
                    _refused(lambda: service.reserve(self.request(turn)))

            _at_once(call)
            self._tells(tmp_path, turn, held=False)
        self._holds_only(tmp_path)

    def _fill(self, folder: Path, count: int) -> None:
        for at in range(count):
            self.make(folder).reserve(self.request(f"u{at}"))

    def _refuses(self, folder: Path, request: Request) -> None:
        assert _refused(lambda: self.make(folder).reserve(request)), f"{request.uuid} is not refused"

    def _tells(self, folder: Path, uuid: str, held: bool) -> None:
        _says(self.make(folder), self.request(uuid), held)

    def _holds_only(self, folder: Path, *uuids: str) -> None:
        """Check that exactly the room besides these is left, by taking it."""
        if self.room is None:
            return
        free = self.room - len(uuids)
        refused = [
            _refused(lambda: self.make(folder).reserve(self.request(f"free{at}")))  # noqa: B023 - called at once
            for at in range(free + 1)
        ]
        assert refused == [False] * free + [True], f"there is room for {refused.count(False)}, and not for {free}"

    def _counts(self, folder: Path, refused: list[bool]) -> None:
        """Check that of so many concurrent requests as many succeed as there is room for."""
        assert refused.count(False) == (CROWD if self.room is None else min(self.room, CROWD)), refused
        for at, no in enumerate(refused):
            self._tells(folder, f"u{at}", held=not no)


def _says(service: Service, request: Request, held: bool) -> None:
    status = service.status(claim_of(request))
    assert status in get_args(Status), status
    assert status == "unknown" or (status in HOLDING) is held, f"{request.uuid or 'nothing'} is {status}"


def _answered(call: Callable[[], Result]) -> Result:
    """Repeat a call while the service can't answer, since a crowd may be too many for a slow machine."""
    for _ in range(TRIES):
        with suppress(UnavailableError):
            return call()
    return call()


def _refused(call: Callable[[], object]) -> bool:
    try:
        _answered(call)
    except RefusedError:
        return True
    return False


def _at_once(call: Callable[[int], Any]) -> list[Any]:
    barrier = Barrier(CROWD)

    def run(at: int) -> Any:
        barrier.wait(60)
        return call(at)

    with ThreadPoolExecutor(CROWD) as pool:
        return list(pool.map(run, range(CROWD)))
