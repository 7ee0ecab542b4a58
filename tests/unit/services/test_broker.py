"""A service that hangs, lies or answers late does no harm.

The time is bounded, there is a reason, nothing is done twice and nothing leaks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from datalog_gate.plugins.plugin_errors import PluginError, RefusedError, UnavailableError
from datalog_gate.services.broker import Broker, Limits
from datalog_gate.services.contract import Decision, Held, Request, Service, Status
from datalog_gate.services.journal import Journal
from tests.ledger import Seats, broker, request
from tests.waiting import wait

NOW = 1_800_000_000.0
GOOD: Decision = {"a": {"zone": "z1"}}
LIMITS = Limits(20.0, 25.0, 30.0)
"""Calls that a busy machine answers in time too."""
NOBODY = UnavailableError("nobody\nthere")


class Scripted(Service):
    """A service with scripted answers that records its calls. An answer that is an exception is raised, a callable is
    called."""

    def __init__(self, **script: list[Any]) -> None:
        self._script, self.calls = script, list[tuple[str, object]]()

    def _answer(self, name: str, argument: object) -> Any:
        self.calls.append((name, argument))
        answer = self._script[name].pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer

    def reserve(self, request: Request) -> Decision:
        decision: Decision = self._answer("reserve", request.replaces)
        return decision

    def commit(self, held: Held) -> None:
        self._answer("commit", held.decision)

    def release(self, held: Held) -> None:
        self._answer("release", held.decision)

    def status(self, held: Held) -> Status:
        status: Status = self._answer("status", held.decision)
        return status


class Rig:
    """A broker of one scripted service."""

    def __init__(self, folder: Path, limits: Limits = LIMITS, **script: list[Any]) -> None:
        self.service, self.now = Scripted(**script), NOW
        self.journal = Journal(str(folder / "journal"), late=60.0)
        self.broker = Broker(self.journal, {"seats": self.service}, lambda: self.now, time.monotonic, limits)

    def state(self, uuid: str = "u") -> str:
        claim = self.journal.claim(uuid)
        return claim.state if claim else "none"

    def attempt(self, call: Callable[[], object]) -> object:
        """Return the result of a call, or the class and text of its error."""
        try:
            return call()
        except PluginError as error:
            return type(error).__name__, str(error)

    def reserve(self, uuid: str = "u") -> object:
        return self.attempt(lambda: self.broker.reserve(request(uuid, "a")))


def names(rig: Rig) -> list[str]:
    return [name for name, _ in rig.service.calls]


NOBODY_THERE = ("UnavailableError", "seats: nobody there")


@pytest.mark.parametrize(
    ("reserve", "status", "answer", "state", "calls"),
    [
        ([GOOD], [], GOOD, "reserved", ["reserve"]),
        ([{}], [], {}, "reserved", ["reserve"]),
        ([RefusedError("no\nseat \x1b[31m")], [], ("RefusedError", "seats: no seat ?[31m"), "failed", ["reserve"]),
        ([RefusedError("x" * 5000)], [], ("RefusedError", f"seats: {'x' * 1000}"), "failed", ["reserve"]),
        # the answer got lost on its way back
        ([NOBODY, GOOD], ["held"], GOOD, "reserved", ["reserve", "status", "reserve"]),
        ([NOBODY, GOOD], ["committed"], GOOD, "reserved", ["reserve", "status", "reserve"]),
        # the request got lost on its way there, or so the service says
        ([NOBODY], ["absent"], NOBODY_THERE, "releasing", ["reserve", "status"]),
        ([NOBODY], ["unknown"], NOBODY_THERE, "releasing", ["reserve", "status"]),
        ([NOBODY], [NOBODY], NOBODY_THERE, "releasing", ["reserve", "status"]),
        ([NOBODY], ["nonsense"], NOBODY_THERE, "releasing", ["reserve", "status"]),
        # it contradicts itself: what it may hold is released all the same
        ([NOBODY, RefusedError("no")], ["held"], NOBODY_THERE, "releasing", ["reserve", "status", "reserve"]),
        ([NOBODY, NOBODY], ["held"], NOBODY_THERE, "releasing", ["reserve", "status", "reserve"]),
        (
            [KeyError("s3cret")],
            ["absent"],
            ("UnavailableError", "seats: is broken (KeyError)"),
            "releasing",
            ["reserve", "status"],
        ),
    ],
)
def test_what_is_not_surely_reserved_is_released(
    tmp_path: Path, reserve: list[Any], status: list[Any], answer: object, state: str, calls: list[str]
) -> None:
    rig = Rig(tmp_path, reserve=list(reserve), status=list(status))
    assert (rig.reserve(), rig.state(), names(rig)) == (answer, state, calls)


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        ({"a": {"zone": object()}}, "its decision is not JSON data"),
        ({"a": {"zone": float("nan")}}, "its decision is not JSON data"),
        (None, "its decision holds no attributes by resource"),
        ([], "its decision holds no attributes by resource"),
        ({"a": "z1"}, "its decision holds no attributes by resource"),
        ({"a": {"zone": "z" * 65536}}, "its decision takes more than 64000 characters"),
    ],
)
def test_a_decision_that_no_template_could_read_is_none(tmp_path: Path, decision: object, why: str) -> None:
    rig = Rig(tmp_path, reserve=[decision], status=["absent"])
    assert (rig.reserve(), rig.state()) == (("UnavailableError", f"seats: {why}"), "releasing")


def test_the_same_grant_is_asked_for_once_and_its_decision_can_not_be_changed(tmp_path: Path) -> None:
    decision = {"a": {"zone": "z1"}}
    rig = Rig(tmp_path, reserve=[decision], commit=[None])
    assert rig.reserve() == GOOD
    decision["a"]["zone"] = "changed"
    assert rig.reserve() == GOOD
    rig.broker.commit("u")
    assert rig.reserve() == GOOD
    rig.broker.commit("u")
    assert rig.service.calls == [("reserve", ()), ("commit", GOOD)]
    assert rig.journal.lease("u", NOW, 9.0) is not None


@pytest.mark.parametrize(
    ("name", "lease", "over", "why"),
    [
        ("a", 0.0, False, "this grant asked for something else before"),
        ("b", 9.0, False, "this grant is being processed"),
        ("b", 0.0, True, "what this grant asked for was released, or refused"),
    ],
)
def test_an_invalid_grant_says_why(tmp_path: Path, name: str, lease: float, over: bool, why: str) -> None:
    rig = Rig(tmp_path)
    rig.journal.begin(request("u", "b"), "", None, NOW, lease)
    if over:
        rig.journal.give_back("u", NOW, "it was deleted")
    assert rig.attempt(lambda: rig.broker.reserve(request("u", name))) == ("UnavailableError", f"seats: {why}")
    assert rig.service.calls == []


def test_a_service_that_is_not_enabled_is_refused_and_nothing_is_written_down(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    with pytest.raises(UnavailableError) as error:
        rig.broker.reserve(request("u", "a", service="other"))
    assert (str(error.value), rig.journal.claims()) == ("other: this service is not enabled", ())


def test_a_refusal_after_a_call_that_was_broken_off_is_not_believed(tmp_path: Path) -> None:
    rig = Rig(tmp_path, reserve=[RefusedError("no")])
    rig.journal.begin(request("u", "a"), "", None, NOW - 99, 9.0)
    assert (rig.reserve(), rig.state()) == (("RefusedError", "seats: no"), "releasing")


def test_a_service_that_hangs_is_given_up_and_what_it_does_late_is_released(tmp_path: Path) -> None:
    go, claimed = Event(), set[str]()

    def late() -> Decision:
        go.wait(60)
        claimed.add("u")
        return GOOD

    rig = Rig(
        tmp_path,
        Limits(0.2, 25.0, 30.0),
        reserve=[late],
        status=["absent", "absent", "absent", "absent"],
        release=[claimed.clear, claimed.clear],
    )
    assert rig.reserve() == ("UnavailableError", "seats: did not answer within 0.2 seconds")
    rig.broker.limits = LIMITS
    assert (rig.broker.release("u"), rig.state()) == (False, "releasing")
    go.set()
    wait(lambda: claimed)
    assert (rig.broker.release("v"), claimed) == (True, {"u"})
    rig.now += 60
    assert (rig.broker.release("u"), rig.state(), claimed) == (True, "released", set())


def test_all_calls_together_have_their_time(tmp_path: Path) -> None:
    ticks = iter([0.0, 0.0, 1.0, 25.0])
    rig = Rig(tmp_path, reserve=[NOBODY], status=["held"])
    rig.broker.ticks = lambda: next(ticks)
    assert (rig.reserve(), rig.state(), names(rig)) == (NOBODY_THERE, "releasing", ["reserve", "status"])


def test_a_service_that_fails_again_and_again_is_left_alone_and_holds_nothing_then(tmp_path: Path) -> None:
    rig = Rig(tmp_path, reserve=[NOBODY] * 3, status=[NOBODY] * 3)
    answers = [rig.reserve(f"u{at}") for at in range(4)]
    assert answers == [
        *([NOBODY_THERE] * 3),
        ("UnavailableError", "seats: has not answered for a while, and is not asked for now"),
    ]
    assert [rig.state(f"u{at}") for at in range(4)] == ["releasing", "releasing", "releasing", "failed"]
    assert names(rig) == ["reserve", "status", "reserve", "status", "reserve"]


def test_what_is_deleted_while_it_is_reserved_is_released_after_the_call(tmp_path: Path) -> None:
    rig: Rig = Rig(tmp_path, reserve=[lambda: rig.broker.release("u") or GOOD], release=[None], status=["absent"])
    assert rig.reserve() == ("UnavailableError", "seats: what this grant asked for was released meanwhile")
    assert (rig.state(), names(rig)) == ("releasing", ["reserve"])
    rig.now += 60
    assert (rig.broker.release("u"), rig.broker.release("u")) == (True, True)
    assert names(rig) == ["reserve", "release", "status"]


def test_who_comes_back_after_the_lease_has_asked_in_vain(tmp_path: Path) -> None:
    def long_pause() -> Decision:
        rig.now += 31
        assert rig.broker.release("u", "broken off", "intent") is False
        return GOOD

    rig = Rig(tmp_path, reserve=[long_pause], release=[None], status=["absent"])
    assert rig.reserve() == ("UnavailableError", "seats: what this grant asked for took too long")
    assert (rig.state(), names(rig)) == ("releasing", ["reserve", "release", "status"])


@pytest.mark.parametrize(
    ("before", "script", "answer", "state"),
    [
        ((), {}, ("UnavailableError", "there is nothing to commit, or it is being processed"), "none"),
        (("reserve",), {"commit": [None]}, None, "committed"),
        (("reserve", "commit"), {"commit": [None]}, None, "committed"),
        (("reserve",), {"commit": [NOBODY]}, NOBODY_THERE, "reserved"),
        (("reserve",), {"commit": [RefusedError("no")]}, ("RefusedError", "seats: no"), "reserved"),
        (
            ("reserve", "release"),
            {"release": [NOBODY]},
            ("UnavailableError", "seats: what this grant asked for was released"),
            "releasing",
        ),
    ],
)
def test_a_commit_is_sent_once_and_again_without_an_answer(
    tmp_path: Path, before: tuple[str, ...], script: Mapping[str, list[Any]], answer: object, state: str
) -> None:
    rig = Rig(tmp_path, LIMITS, reserve=[GOOD], **{name: list(answers) for name, answers in script.items()})
    for step in before:
        if step == "reserve":
            rig.reserve()
        else:
            getattr(rig.broker, step)("u")
    assert (rig.attempt(lambda: rig.broker.commit("u")), rig.state()) == (answer, state)


def test_what_is_committed_meanwhile_given_back_is_released(tmp_path: Path) -> None:
    rig: Rig = Rig(
        tmp_path, reserve=[GOOD], commit=[lambda: rig.broker.release("u")], release=[None], status=["absent"]
    )
    rig.reserve()
    assert rig.attempt(lambda: rig.broker.commit("u")) == (
        "UnavailableError",
        "seats: what this grant asked for was released meanwhile",
    )
    assert (rig.broker.release("u"), names(rig)) == (True, ["reserve", "commit", "release", "status"])


def seats(folder: Path, size: int) -> tuple[Broker, Seats]:
    service = Seats(folder / "seats", size)
    return broker(folder, service, NOW), service


def test_the_last_seat_survives_an_update_that_replaces_its_grant(tmp_path: Path) -> None:
    now, service = seats(tmp_path, 2)
    now.reserve(request("old", "a", "b"))
    now.commit("old")
    with pytest.raises(RefusedError):
        now.reserve(request("stranger", "a", "b"))
    now.reserve(request("new", "b", "a"), replaces="old")
    now.commit("new")
    states = {claim.uuid: (claim.state, claim.why) for claim in now.journal.claims()}
    assert states == {"old": ("releasing", "s/grant has replaced it"), "new": ("committed", "")}
    assert now.release("old")
    assert service.holdings() == {request("new", "b", "a").key: ["s/b", "s/a"]}


@pytest.mark.parametrize(
    ("new", "keys"),
    [
        (request("new", "a"), (request("old", "a").key,)),
        (request("new", "a", project="other"), ()),
        (request("new", "a", stack="other"), ()),
        (request("new", "a", service="other"), ()),
    ],
)
def test_only_what_the_same_stack_holds_of_the_same_service_can_be_taken_over(
    tmp_path: Path, new: Request, keys: tuple[str, ...]
) -> None:
    service = Scripted(reserve=[GOOD, GOOD])
    both = {"seats": service, "other": service}
    now = Broker(Journal(str(tmp_path / "journal")), both, lambda: NOW, time.monotonic)
    now.reserve(request("old", "a"))
    now.reserve(new, replaces="old")
    assert service.calls == [("reserve", ()), ("reserve", keys)]


@pytest.mark.parametrize("limits", [(0.0, 1.0, 2.0), (2.0, 1.0, 3.0), (1.0, 2.0, 2.0)])
def test_limits_that_would_let_two_workers_meet_are_refused(limits: tuple[float, float, float]) -> None:
    with pytest.raises(
        ValueError,
        match="service_call_seconds must not exceed service_step_seconds, which must be less than "
        "service_lease_seconds",
    ):
        Limits(*limits)


def test_a_lost_lease_is_never_an_error_of_a_deletion(tmp_path: Path) -> None:
    def stolen() -> None:
        rig.now += 31
        assert rig.journal.lease("u", rig.now, 30.0) is not None

    rig = Rig(tmp_path, reserve=[GOOD], release=[stolen], status=["absent"])
    rig.reserve()
    assert (rig.broker.release("u"), rig.state()) == (False, "releasing")


def test_what_was_asked_for_twice_is_released_again_once_the_first_can_not_arrive_any_more(tmp_path: Path) -> None:
    rig = Rig(tmp_path, reserve=[NOBODY, GOOD], release=[None, None], status=["held", "absent", "absent"])
    assert rig.reserve() == GOOD
    rig.now += 59
    assert (rig.broker.release("u"), rig.state()) == (False, "releasing")
    rig.now += 1
    assert (rig.broker.release("u"), rig.state()) == (True, "released")
    assert names(rig) == ["reserve", "status", "reserve", "release", "status", "release", "status"]
