"""Grants of several hosts with one store: races, deaths, restarts and cuts."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count, takewhile
from pathlib import Path

import pytest

from datalog_gate.plugins.plugin_errors import PluginError, RefusedError
from datalog_gate.services import claims as claims_module
from datalog_gate.services import journal as journal_module
from datalog_gate.services.approval import Approval, Approvals
from datalog_gate.services.broker import Broker, Limits
from datalog_gate.services.contract import Request, Service
from datalog_gate.services.journal import Journal
from datalog_gate.services.journal_claim import JournalError
from datalog_gate.services.licence_pool import LicencePool
from datalog_gate.services.reconcile import StackState, reconcile
from datalog_gate.store import transaction
from datalog_gate.store.transaction import Store
from tests.ledger import LIMITS, Seats, request
from tests.scripted_cloud import Cloud, without_keystone
from tests.stores.conftest import SHORT, empty
from tests.stores.database_servers import DatabaseServer
from tests.stores.fake_placement import FakePlacement, running_placement
from tests.stores.proxy import proxy_to
from tests.unit.doors.cli.test_crashes import TRANSITIONS, check_settled
from tests.waiting import wait

pytestmark = pytest.mark.real_time
PROCESSES, EACH, SEATS = (8, 20, 60) if SHORT else (8, 200, 600)
"""Two processes race for each request, so that there are a third more requests than seats."""
PATIENT = Limits(call=200.0, step=250.0, lease=300.0)
CUT = 3.0 if SHORT else 30.0
"""Seconds after which the store ends a transaction of a host that is cut off, times three."""


def host(url: str, services: dict[str, Service], limits: Limits = PATIENT) -> Broker:
    return Broker(Journal(url), services, time.time, time.monotonic, limits)


def licences(url: str, placement: FakePlacement) -> dict[str, Service]:
    return {"licence": LicencePool({"store": url, "endpoint": placement.url, "timeout": "60"})}


def seat(number: int) -> Request:
    """Four requests are of one stack."""
    asked = request(f"u{number}", "vm", stack=f"s{number // 4}", service="licence")
    return replace(asked, grant=f"s{number // 4}/g{number}", options={"name": "acme"})


def test_of_many_processes_each_seat_is_given_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 processes make 1600 reservations of 800 grants for 600 seats. They have more patience than a user."""
    monkeypatch.setattr(claims_module, "PATIENCE", 9.0)
    monkeypatch.setattr(claims_module, "LEASE", 9.0)
    with running_placement("CUSTOM_LICENSE_ACME", SEATS) as placement:
        answers: multiprocessing.Queue[Counter[str]] = multiprocessing.get_context("fork").Queue()

        def work(process: int) -> None:
            broker, counts = host(url, licences(url, placement)), Counter[str]()
            for at in range(EACH):
                try:
                    broker.reserve(seat(process // 2 * EACH + at))
                    counts["reserved"] += 1
                except PluginError as error:
                    counts[type(error).__name__] += 1
            answers.put(counts)

        workers = [multiprocessing.get_context("fork").Process(target=work, args=(at,)) for at in range(PROCESSES)]
        for worker in workers:
            worker.start()
        total = sum((answers.get(timeout=900) for _ in workers), Counter[str]())
        for worker in workers:
            worker.join(60)
        claims = Journal(url).claims()
        held = Counter(claim.stack for claim in claims if claim.state == "reserved")
        assert (sum(held.values()), sum(placement.held().values())) == (SEATS, SEATS)
        assert sorted(held.values()) == sorted(placement.held().values())
        assert {claim.state for claim in claims} == {"reserved"}
        assert total["reserved"] >= SEATS


def test_what_is_released_on_a_host_is_free_on_the_other(url: str) -> None:
    with running_placement("CUSTOM_LICENSE_ACME", 1) as placement:
        here, there = (host(url, licences(url, placement)) for _ in range(2))
        here.reserve(seat(1))
        with pytest.raises(RefusedError, match=r"the licence acme has 0 of 1 seats left"):
            there.reserve(seat(9))
        assert there.reserve(seat(1)) == here.reserve(seat(1)) == {"vm": {"licence": "acme", "seats": 1}}
        there.commit("u1")
        assert there.release("u1")
        assert (placement.held(), here.journal.claims()) == ({}, ())
        assert here.reserve(replace(seat(9), uuid="again")) == {"vm": {"licence": "acme", "seats": 1}}


def test_what_is_approved_on_a_host_lands_on_the_other(url: str) -> None:
    here, there = (host(url, {"approval": Approval({"store": url})}) for _ in range(2))
    asked = request("u1", "vm", service="approval")
    with pytest.raises(RefusedError, match=r"awaiting approval A-1"):
        there.reserve(asked)
    Approvals(url).say("A-1", "approved", "ada", "for March", time.time())
    assert here.reserve(replace(asked, uuid="u2")) == {"vm": {"approval": "A-1", "approved_by": "ada"}}
    with pytest.raises(RefusedError, match=r"awaiting approval A-2"):
        there.reserve(replace(asked, uuid="u3"))


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    with without_keystone(monkeypatch, "p") as server:
        yield server


@pytest.mark.parametrize("transition", TRANSITIONS[:: 5 if SHORT else 1])
def test_what_a_killed_process_left_is_settled(
    server: DatabaseServer, cloud: Cloud, tmp_path: Path, transition: str
) -> None:
    for moment in ("before", "after"):
        folder = tmp_path / moment
        folder.mkdir()
        (folder / "url").write_text(empty(server))
        check_settled(cloud, folder, f"{transition} {moment}")


def test_the_seats_of_a_process_that_is_killed_while_it_has_a_lease_are_free_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed between the row that says what is needed and Placement, and after Placement."""
    monkeypatch.setattr(claims_module, "LEASE", 0.2 if SHORT else claims_module.LEASE)
    with running_placement("CUSTOM_LICENSE_ACME", 2) as placement:

        def work(number: int) -> None:
            services = licences(url, placement)
            pool = services["licence"]
            assert isinstance(pool, LicencePool)
            allocate = pool._claims.placement.allocate

            def die(*arguments: object) -> None:
                if number == 5:
                    allocate(*arguments)  # type: ignore[arg-type]
                os.kill(os.getpid(), signal.SIGKILL)

            pool._claims.placement.allocate = die  # type: ignore[assignment, method-assign]
            host(url, services).reserve(seat(number))

        for number in (1, 5):
            process = multiprocessing.get_context("fork").Process(target=work, args=(number,))
            process.start()
            process.join(60)
            assert process.exitcode == -signal.SIGKILL
        later = Broker(Journal(url), licences(url, placement), lambda: time.time() + 1000, time.monotonic, PATIENT)

        def over() -> bool:  # the lease of the dead process ends by itself
            reconcile(later, lambda _stack: StackState("absent"))
            return not placement.held() and {claim.state for claim in later.journal.claims()} <= {"releasing"}

        wait(over, lambda: f"{placement.held()}, {later.journal.claims()}")
        assert host(url, licences(url, placement)).reserve(seat(9)) == {"vm": {"licence": "acme", "seats": 1}}


def lives(broker: Broker, numbers: Iterable[int], given: dict[str, bool]) -> None:
    """Reserve for each number; what is not said to be reserved counts as failed, as in Heat."""
    for number in numbers:
        uuid = f"u{number}"
        with suppress(PluginError, JournalError):
            broker.reserve(request(uuid, uuid))
            given[uuid] = True


def settled(url: str, folder: Path, given: dict[str, bool]) -> None:
    """The reconciler leaves what Heat has, and nothing else."""
    living = StackState("complete", frozenset(given))
    for ahead in (1000.0, 2000.0):
        clock = lambda ahead=ahead: time.time() + ahead  # noqa: E731
        now = Broker(Journal(url), {"seats": Seats(folder / "seats")}, clock, time.monotonic, LIMITS)
        reconcile(now, lambda _stack: living)
    assert {claim.uuid: claim.state for claim in now.journal.claims()} == dict.fromkeys(given, "committed")
    assert set(Seats(folder / "seats").holdings()) == {request(uuid, uuid).key for uuid in given}


def test_a_server_that_is_killed_and_started_again_loses_and_keeps_nothing(
    server: DatabaseServer, tmp_path: Path
) -> None:
    url, given, over = empty(server), dict[str, bool](), threading.Event()
    brokers = [host(url, {"seats": Seats(tmp_path / "seats")}, LIMITS) for _ in range(2)]
    threads = [
        threading.Thread(target=lives, args=(broker, takewhile(lambda _: not over.is_set(), count(at, 2)), given))
        for at, broker in enumerate(brokers)
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            wait_for_more(given)
            server.stop()
            server.start()
        wait_for_more(given)
    finally:
        over.set()
        for thread in threads:
            thread.join(60)
    settled(url, tmp_path, given)


def wait_for_more(given: dict[str, bool]) -> None:
    """Wait until some more is reserved."""
    enough = len(given) + 5
    wait(lambda: len(given) >= enough)


def test_a_network_that_is_cut_holds_up_one_host_alone_as_long_as_it_lasts(
    server: DatabaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is cut off while its transaction has the lock of the journal."""
    url, given = empty(server), dict[str, bool]()
    monkeypatch.setattr(journal_module, "BUSY", CUT / 3)
    monkeypatch.setattr(transaction, "CONNECT", 1 if SHORT else 5)
    monkeypatch.setattr(transaction, "IDLE", max(1, int(CUT / 3)))
    with proxy_to(server.port) as proxy:
        cut_off = host(server.url("gate", proxy.port), {"seats": Seats(tmp_path / "seats")}, LIMITS)
        other = host(url, {"seats": Seats(tmp_path / "seats")}, LIMITS)
        lives(cut_off, [1], given)
        shared = cut_off.journal.store
        assert isinstance(shared, Store)

        def work(_rows: object) -> None:
            proxy.cut.set()

        with pytest.raises(JournalError, match=r"^the store can't be reached$"):
            shared.run("journal", work)
        with pytest.raises(JournalError, match=r"^the store can't be reached$"):
            cut_off.reserve(request("u2", "u2"))

        def goes_on() -> bool:
            lives(other, [3], given)
            return "u3" in given

        wait(goes_on)
        proxy.cut.clear()
        lives(cut_off, [4], given)
        assert sorted(given) == ["u1", "u3", "u4"]
    settled(url, tmp_path, given)
