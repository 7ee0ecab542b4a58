"""A grant of `approval` needs one answer of a person."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from datalog_gate.plugins.plugin_errors import PluginError, RefusedError, UnavailableError
from datalog_gate.services.approval import Approval, ApprovalError, Approvals
from datalog_gate.services.broker import Broker, Limits
from datalog_gate.services.conformance import Conformance, asked, claim_of
from datalog_gate.services.contract import Decision, Request, Service
from datalog_gate.services.journal import Journal

NOW = 1_800_000_000.0
DAY = 86400.0
GRANTED = {"db": {"approval": "A-1", "approved_by": "ann"}}


class Approving(Approval):
    """Whoever asks for it is approved at once."""

    def reserve(self, request: Request) -> Decision:
        while True:
            try:
                return super().reserve(request)
            except RefusedError as error:
                if "awaiting" not in error.reason:
                    raise
                with suppress(ApprovalError):  # another one was faster
                    self._approvals.say(error.reason.rpartition(" ")[2], "approved", "ann", "", self._clock())


class TestApproval(Conformance):
    def make(self, folder: Path) -> Service:
        return Approving({"store": str(folder / "approvals")})

    def request(self, uuid: str) -> Request:
        return asked("approval", uuid, "db", type="OS::Nova::Server")

    def refused(self, uuid: str) -> Request:
        return asked("approval", uuid, "db", type="OS::Nova::Server", size="big")


class Desk:
    """The service at a time, and the file in which people answer."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.now = NOW
        self.path = folder / "approvals"
        self.service = Approval({"store": str(self.path), **settings}, lambda: self.now)
        self.file = Approvals(str(self.path))

    def attempt(self, call: Callable[[], object]) -> object:
        try:
            return call()
        except (PluginError, ApprovalError) as error:
            return str(error)

    def reserve(self, request: Request) -> object:
        return self.attempt(lambda: self.service.reserve(request))

    def approve(self, name: str = "A-1", approver: str = "ann", why: str = "") -> object:
        return self.attempt(lambda: self.file.say(name, "approved", approver, why, self.now).answer)

    def refuse(self, name: str = "A-1", approver: str = "bob", why: str = "") -> object:
        return self.attempt(lambda: self.file.say(name, "refused", approver, why, self.now).answer)

    def states(self) -> list[tuple[str, str]]:
        return [(approval.name, approval.state) for approval in self.file.list(self.now)]


def grant(uuid: str = "u", *names: str, stack: str = "1b1b", path: str = "s/grant", **options: str) -> Request:
    return replace(
        asked("approval", uuid, *(names or ("db",)), type="OS::Nova::Server", **options), stack=stack, grant=path
    )


def test_a_grant_stops_until_it_is_approved_and_then_one_that_tries_again_is_had(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ask="the cloud team")
    assert desk.reserve(grant("u1")) == "awaiting approval A-1 of the cloud team"
    assert desk.reserve(grant("u2")) == "awaiting approval A-1 of the cloud team"
    assert desk.approve(why="for March") == "approved by ann: for March"
    assert desk.reserve(grant("u3")) == GRANTED
    assert desk.states() == [("A-1", "used")]


def test_a_refused_request_stays_refused_until_it_is_approved(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.reserve(grant("u1"))
    assert desk.refuse(why="too\nbig \x1b[31m") == "refused by bob: too\nbig \x1b[31m"
    assert desk.reserve(grant("u2")) == "A-1 was refused by bob: too\nbig \x1b[31m"
    assert desk.attempt(lambda: desk.service.facts(grant(""))) == "A-1 was refused by bob: too\nbig \x1b[31m"
    assert desk.approve() == "approved by ann"
    assert desk.attempt(lambda: desk.service.facts(grant(""))) is None
    assert desk.reserve(grant("u3")) == GRANTED
    [approval] = desk.file.list(NOW)
    assert [(vote.verdict, vote.who, vote.at) for vote in approval.verdicts] == [
        ("refused", "bob", NOW),
        ("approved", "ann", NOW),
    ]


def test_the_first_of_equal_verdicts_stays(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.reserve(grant("u1"))
    desk.approve(why="for March")
    desk.now += 60
    told = "A-1 was already approved, by ann at 2027-01-15T08:00:00+00:00: for March"
    assert desk.approve(approver="bob", why="") == told
    assert desk.refuse() == "refused by bob"
    assert desk.refuse(approver="eve") == "A-1 was already refused, by bob at 2027-01-15T08:01:00+00:00"
    [approval] = desk.file.list(desk.now)
    assert [(verdict.verdict, verdict.who, verdict.why) for verdict in approval.verdicts] == [
        ("approved", "ann", "for March"),
        ("refused", "bob", ""),
    ]


@pytest.mark.parametrize(
    "other",
    [
        grant("u", "db", "db2"),
        grant("u", reason="more"),
        grant(path="s/other"),
        replace(grant(), project="q"),
        replace(grant(), scope=(replace(grant().scope[0], properties=MappingProxyType({"flavor": "huge"})),)),
    ],
)
def test_what_is_another_thing_than_what_was_approved_is_to_be_approved(tmp_path: Path, other: Request) -> None:
    desk = Desk(tmp_path)
    desk.reserve(grant("u1"))
    desk.approve()
    assert desk.reserve(replace(other, uuid="u2")) == "awaiting approval A-2"
    assert desk.reserve(grant("u3")) == GRANTED


def test_an_unanswered_request_of_the_same_grant_is_superseded(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for request in (grant("u1"), grant("u1", stack="2c2c"), grant("u2", "db", "db2")):
        desk.reserve(request)
    assert desk.states() == [("A-1", "superseded"), ("A-2", "awaiting"), ("A-3", "awaiting")]
    desk.now += 8 * DAY
    assert desk.approve() == "A-1 can no longer be approved: it is superseded"


def test_an_approval_is_used_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.reserve(grant("u1"))
    desk.approve()
    assert desk.reserve(grant("u1")) == desk.reserve(grant("u1")) == GRANTED
    assert desk.reserve(grant("u2")) == "awaiting approval A-2"
    assert desk.refuse() == "A-1 can no longer be refused: it is used by ann"
    assert desk.approve(approver="bob") == "A-1 was already approved, by ann at 2027-01-15T08:00:00+00:00"
    desk.service.release(claim_of(grant("u1")))
    assert desk.reserve(grant("u1")) == "this was released before"
    assert desk.reserve(grant("u2")) == "awaiting approval A-2"


def test_what_replaces_the_same_shares_its_approval_and_what_replaces_another_does_not(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.reserve(grant("u1"))
    desk.approve()
    assert desk.reserve(grant("u1")) == GRANTED
    assert desk.reserve(replace(grant("u2"), replaces=(grant("u1").key,))) == GRANTED
    assert desk.reserve(replace(grant("u3", "db2"), replaces=(grant("u1").key,))) == "awaiting approval A-2"


def test_requests_and_answers_count_for_some_days(tmp_path: Path) -> None:
    desk = Desk(tmp_path, days="2")
    desk.reserve(grant("u1"))
    desk.now += DAY
    desk.approve()
    desk.now += DAY
    assert desk.reserve(grant("u2")) == "awaiting approval A-2"
    assert desk.approve() == "A-1 can no longer be approved: it is expired"
    desk.refuse("A-2")
    desk.now += 2 * DAY
    assert desk.reserve(grant("u3")) == "awaiting approval A-3"
    assert desk.states() == [("A-1", "expired"), ("A-2", "expired"), ("A-3", "awaiting")]


def test_a_request_says_what_is_asked(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.reserve(grant("u1", reason="a demo"))
    desk.approve()
    [approval] = desk.file.list(NOW)
    assert approval.to_json() == {
        "id": "A-1",
        "state": "approved",
        "project": "p",
        "stack": "1b1b",
        "stack_name": "s",
        "grant": "s/grant",
        "options": {"reason": "a demo"},
        "scope": [{"resource": "s/db", "type": "OS::Nova::Server", "properties": {}}],
        "asked": "2027-01-15T08:00:00+00:00",
        "until": "2027-01-22T08:00:00+00:00",
        "said": [{"verdict": "approved", "who": "ann", "at": "2027-01-15T08:00:00+00:00", "why": ""}],
    }


@pytest.mark.parametrize("name", ["A-2", "2", "", "A-", "A--1", "A-1A-1", "A-1 ", "A-9999999999999999999", "B-1"])
def test_what_was_not_asked_can_not_be_answered(tmp_path: Path, name: str) -> None:
    desk = Desk(tmp_path)
    desk.reserve(grant())
    assert desk.approve(name) == f"there is no request {name}"
    assert desk.states() == [("A-1", "awaiting")]


def test_a_grant_may_wait_for_so_long_and_ends_with_the_answer(tmp_path: Path) -> None:
    desk = Desk(tmp_path, mode="wait", wait_seconds="100")
    waits = [desk.service.waits(grant("u1"))]
    desk.now += 99
    waits.append(desk.service.waits(grant("u1")))
    desk.now += 1
    waits.append(desk.service.waits(grant("u1")))
    waits.append(desk.service.waits(grant("u2")))
    desk.approve()
    waits.append(desk.service.waits(grant("u2")))
    awaiting = "awaiting approval A-1"
    assert waits == [awaiting, awaiting, "", awaiting, ""]
    assert desk.reserve(grant("u2")) == GRANTED


def test_the_number_of_waiting_requests_is_limited(tmp_path: Path) -> None:
    desk = Desk(tmp_path, mode="wait", wait_number="2")
    first, second, third = (grant("u", path=f"s/{name}") for name in "abc")
    assert [bool(desk.service.waits(request)) for request in (first, second, third, first)] == [True, True, False, True]
    desk.now += 61
    assert [bool(desk.service.waits(request)) for request in (third, first, second)] == [True, True, False]


@pytest.mark.parametrize(
    ("setting", "option", "waits"),
    [("stop", None, False), ("stop", "wait", True), ("wait", None, True), ("wait", "stop", False)],
)
def test_the_grant_or_else_the_operator_decides_whether_it_waits(
    tmp_path: Path, setting: str, option: str | None, waits: bool
) -> None:
    desk = Desk(tmp_path, mode=setting)
    assert bool(desk.service.waits(grant(**({"mode": option} if option else {})))) is waits


@pytest.mark.parametrize(
    ("options", "message"),
    [({"mode": "later"}, "mode is stop or wait"), ({"size": "big"}, "there is no option size, only mode and reason")],
)
def test_wrong_options_are_refused_before_a_request(tmp_path: Path, options: dict[str, str], message: str) -> None:
    desk, wrong = Desk(tmp_path), grant(**options)
    service = desk.service
    calls: list[Callable[[Request], object]] = [service.facts, service.waits, service.reserve]
    assert [desk.attempt(lambda call=call: call(wrong)) for call in calls] == [message] * 3  # type: ignore[misc]
    assert desk.states() == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"store": "x", "colour": "red"}, "there is no setting colour"),
        ({"store": "x", "mode": "later"}, "approval.mode is later, but must be one of stop, wait"),
        ({"store": "x", "days": "soon"}, "approval.days is soon, but must be a number above zero"),
        ({"store": "x", "wait_number": "0"}, "approval.wait_number is 0, but must be a number above zero"),
        ({"store": "x", "wait_seconds": "inf"}, "approval.wait_seconds is inf, but must be a number above zero"),
    ],
)
def test_wrong_settings_are_an_error_at_the_start(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.") + "$"):
        Approval(settings)


def test_a_file_that_can_not_be_read_is_no_refusal(tmp_path: Path) -> None:
    (tmp_path / "approvals").write_text("no database at all, but long enough to look like one" * 20)
    assert Desk(tmp_path).reserve(grant()) == "approvals: file is not a database"
    with pytest.raises(UnavailableError):
        Approval({"store": str(tmp_path / "none" / "approvals")}).reserve(grant())


def test_through_the_broker_a_grant_waits_holding_nothing_and_is_had_at_last(tmp_path: Path) -> None:
    desk = Desk(tmp_path, mode="wait")
    journal = Journal(str(tmp_path / "journal"))
    broker = Broker(journal, {"approval": desk.service}, lambda: desk.now, lambda: desk.now, Limits())
    assert (broker.waits(grant("u1")), journal.claims()) == ("awaiting approval A-1", ())
    assert desk.attempt(lambda: broker.reserve(grant("u1"))) == "approval: awaiting approval A-1"
    desk.approve()
    assert (broker.waits(grant("u2")), broker.reserve(grant("u2"))) == ("", GRANTED)
    assert [(claim.uuid, claim.state) for claim in journal.claims()] == [("u2", "reserved")]


def test_a_list_has_the_requests_of_projects_in_a_state_after_a_number(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for at, project in enumerate(("p1", "p2", "p1", "p1")):
        desk.reserve(replace(grant(f"u{at}", stack=f"s{at}"), project=project))
    desk.approve("A-3")
    desk.now += 6 * DAY
    desk.reserve(replace(grant("u5", stack="s5"), project="p1"))
    desk.now += 2 * DAY
    chosen: list[dict[str, Any]] = [
        {},
        {"projects": ["p1"], "limit": 2},
        {"projects": ["p1"], "after": 3},
        {"projects": []},
        {"state": "expired", "projects": ["p2"]},
        {"state": "expired", "after": 2},
        {"state": "awaiting"},
        {"state": "approved"},
    ]
    numbers = [[approval.number for approval in desk.file.list(desk.now, **given)] for given in chosen]
    assert numbers == [[1, 2, 3, 4, 5], [1, 3], [4, 5], [], [2], [3, 4], [5], []]
