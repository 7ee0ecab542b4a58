"""The service `licence` with a real Placement."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from uuid import uuid4

import pytest

from datalog_gate.plugins.plugin_errors import PluginError, RefusedError, UnavailableError
from datalog_gate.services.broker import Broker, Limits
from datalog_gate.services.conformance import claim_of
from datalog_gate.services.contract import Request
from datalog_gate.services.journal import Journal
from datalog_gate.services.licence_pool import LicencePool
from datalog_gate.services.reconcile import StackState, reconcile
from tests.ledger import request
from tests.placement.rig import Cloud, running
from tests.unit.services.test_licence_server import Clock


class Licences:
    """A licence of a test's own with its provider, and the service."""

    def __init__(self, cloud: Cloud, folder: Path, seats: int = 2, providers: bool = True) -> None:
        self.name, self.cloud = f"l{uuid4().hex}", cloud
        self.resource_class = f"CUSTOM_LICENSE_{self.name.upper()}"
        self.provider = cloud.provider(self.name, {self.resource_class: seats})
        self.settings = {"endpoint": cloud.url, "store": str(folder / "claims"), "timeout": "1"}
        if providers:
            self.settings["providers"] = self.name
        self.service = LicencePool(self.settings)

    def request(self, uuid: str, *seats: str, stack: str = "s", replaces: tuple[Request, ...] = ()) -> Request:
        """A request for one seat for each of these resources."""
        plain = request(uuid, *seats, stack=stack, service="licence")
        return replace(plain, options={"name": self.name}, replaces=tuple(old.key for old in replaces))

    def decided(self, *seats: str) -> dict[str, dict[str, object]]:
        return {seat: {"licence": self.name, "seats": len(seats)} for seat in seats}

    @property
    def used(self) -> list[int]:
        """The seats of each consumer."""
        return sorted(allocation[self.resource_class] for allocation in self.cloud.allocations(self.provider))


@pytest.fixture
def licences(cloud: Cloud, tmp_path: Path) -> Licences:
    return Licences(cloud, tmp_path)


@pytest.mark.parametrize("providers", [True, False])
def test_of_two_seats_the_third_is_refused_at_the_door_and_after(cloud: Cloud, tmp_path: Path, providers: bool) -> None:
    licences = Licences(cloud, tmp_path, providers=providers)
    stacks = [licences.request(f"u{at}", "db", stack=f"s{at}") for at in range(3)]
    assert [licences.service.reserve(stack) for stack in stacks[:2]] == [licences.decided("db")] * 2
    assert (licences.used, licences.service.status(claim_of(stacks[0]))) == ([1, 1], "held")
    for ask in (licences.service.facts, licences.service.reserve):
        with pytest.raises(RefusedError) as error:
            ask(stacks[2])
        assert error.value.reason == f"the licence {licences.name} has 0 of 2 seats left, and 1 is asked for"
    assert (licences.used, licences.service.status(claim_of(stacks[2]))) == ([1, 1], "absent")
    licences.service.release(claim_of(stacks[0]))
    licences.service.facts(stacks[2])
    assert licences.service.reserve(stacks[2]) == licences.decided("db")


def test_a_dead_key_says_that_it_is_dead(licences: Licences) -> None:
    licences.service.release(claim_of(licences.request("u", "db")))
    with pytest.raises(RefusedError, match="what this grant asked for was released before"):
        licences.service.reserve(licences.request("u", "db"))


@pytest.mark.parametrize("order", permutations(range(3)))
def test_the_last_seats_survive_updates_and_what_is_shared_is_held_until_the_last_is_released(
    licences: Licences, order: tuple[int, ...]
) -> None:
    first, second = licences.request("u1", "db", "web"), licences.request("u2", "db")
    second = replace(second, replaces=(first.key,))
    third = licences.request("u3", "cache", "db", replaces=(second, first))
    claims = [first, second, third]
    for claim in claims:
        licences.service.reserve(claim)
        assert licences.used == [2]
    left = dict(enumerate((2, 1, 2)))
    for at in order:
        licences.service.release(claim_of(claims[at]))
        del left[at]
        assert licences.used == ([max(left.values())] if left else [])
        assert [licences.service.status(claim_of(claim)) for claim in claims] == [
            "held" if at in left else "absent" for at in range(3)
        ]


def test_what_is_shared_stays_at_the_provider_where_it_is(cloud: Cloud, tmp_path: Path) -> None:
    licences = Licences(cloud, tmp_path, seats=1, providers=False)
    request = licences.request("u1", "db")
    licences.service.reserve(request)
    more = cloud.provider(f"a{licences.name}", {licences.resource_class: 1})
    licences.service.reserve(licences.request("u2", "db", replaces=(request,)))
    assert (licences.used, cloud.allocations(more)) == ([1], [])
    licences.service.reserve(licences.request("u3", "db", "web", replaces=(request,)))
    assert (licences.used, cloud.allocations(more)) == ([1], [{licences.resource_class: 1}])


def test_threads_and_services_that_reserve_at_once_never_take_more_than_there_is(cloud: Cloud, tmp_path: Path) -> None:
    licences = Licences(cloud, tmp_path, seats=5)
    services = [
        LicencePool({**licences.settings, "timeout": "30", "store": str(tmp_path / f"f{at}")}) for at in range(2)
    ]
    wait = threading.Barrier(10)

    def reserve(at: int) -> str:
        wait.wait()
        try:
            services[at % 2].reserve(licences.request(f"u{at}", "db", stack=f"s{at}"))
        except RefusedError as error:
            return error.reason.partition(":")[0]
        return "held"

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(reserve, range(10)))
    full = f"the licence {licences.name} has 0 of 5 seats left, and 1 is asked for"
    assert (answers.count("held"), set(answers) - {"held", full, "the free capacity was taken by someone else"}) == (
        5,
        set(),
    )
    assert licences.used == [1] * 5


def test_grants_of_one_stack_that_come_and_go_at_once_leave_what_is_asked_for(cloud: Cloud, tmp_path: Path) -> None:
    licences = Licences(cloud, tmp_path, seats=20)
    service = LicencePool({**licences.settings, "call_seconds": "120"})

    def work(at: int) -> None:
        request = replace(licences.request(f"u{at}", "db"), grant=f"s/grant{at}")
        service.reserve(request)
        if at % 2:
            service.release(claim_of(request))

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(work, range(20)))
    assert licences.used == [10]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Cloud]:
    """A Placement of the test's own, to be stopped."""
    (tmp_path / "own").mkdir()
    with running(tmp_path / "own") as cloud:
        yield cloud


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_placement_that_hangs_or_dies_costs_bounded_time_and_leaks_nothing(
    own: Cloud, tmp_path: Path, how: signal.Signals
) -> None:
    licences, clock = Licences(own, tmp_path), Clock()
    broker = Broker(
        Journal(str(tmp_path / "journal"), late=60.0), {"licence": licences.service}, clock, time.monotonic,
        Limits(call=10, step=20, lease=60),
    )  # fmt: skip
    broker.reserve(licences.request("u1", "db"))
    own.process.send_signal(how)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            broker.reserve(licences.request("u2", "db", stack="t"))
    with pytest.raises(PluginError):
        licences.service.facts(licences.request("u3", "db", stack="t"))
    assert broker.release("u1") is False
    if how == signal.SIGSTOP:
        own.process.send_signal(signal.SIGCONT)
        _settled(broker, clock)
        assert licences.used == []
    else:
        own.process.wait()
        with running(tmp_path / "own", int(own.url.rpartition(":")[2])):
            assert licences.used == [1]
            _settled(broker, clock)
            assert licences.used == []


def _settled(broker: Broker, clock: Clock) -> None:
    for _ in range(4):
        clock.now += 100.0
        broker.ticks = lambda: time.monotonic() + clock.now  # the breaker closes again
        reconcile(broker, lambda _stack: StackState("absent"))
    assert broker.journal.claims() == ()


@pytest.mark.parametrize(("options", "reason"), [
    ({}, "the option name must be that of a licence, of letters, digits, and _ - ."),
    ({"name": "a b"}, "the option name must be that of a licence, of letters, digits, and _ - ."),
    ({"name": "a", "seats": 0}, "the option seats must be a whole number from 1 to 1000000"),
    ({"name": "a", "seats": True}, "the option seats must be a whole number from 1 to 1000000"),
    ({"name": "a", "seat": 1}, "there is no option seat, only name and seats"),
    ({"name": "nobody", "seats": 2}, "there are no seats of the licence nobody, and 2 are asked for"),
])  # fmt: skip
@pytest.mark.parametrize("providers", [True, False])
def test_wrong_options_are_refused_at_the_door_and_after(
    cloud: Cloud, tmp_path: Path, options: dict[str, object], reason: str, providers: bool
) -> None:
    licences = Licences(cloud, tmp_path, providers=providers)
    request = replace(licences.request("u", "db"), options=options)
    for ask in (licences.service.facts, licences.service.reserve):
        with pytest.raises(RefusedError) as error:
            ask(request)
        assert error.value.reason == reason
