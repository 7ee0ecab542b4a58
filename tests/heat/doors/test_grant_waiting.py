"""Grants that await a person, in both engines of a real Heat."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from datalog_gate.services.approval import Approvals
from datalog_gate.services.journal import Journal
from datalog_gate.store.tables import approval_requests
from tests.commands import run
from tests.heat.doors.grant_heat import APPROVAL_RULES, grant, value
from tests.heat.doors.rig import Heat, running, wait
from tests.heat.doors.templates import string, template

pytestmark = pytest.mark.real_time
MANY, SOME = 65, 8
"""One more than the threads of an engine by default, of which each that waits takes one; and how many of them may."""


def waiting(mode: str = "wait") -> dict[str, Any]:
    """A grant that waits for its approval."""
    return grant("approval", ["s"], options={"mode": mode})


def approved(length: int) -> dict[str, Any]:
    """A string once somebody has approved it, and who did."""
    by = {"get_attr": ["g", "decision", "s", "approved_by"]}
    return template(g=waiting("stop"), s=string(length), by=value(by))


class Desk:
    """A Heat whose grants wait, as many at once as is said, and who approves them."""

    def __init__(self, heat: Heat, folder: Path) -> None:
        self.heat, self.folder = heat, folder
        self.file = Approvals(str(folder / "journal"))
        self._polled = set[Any]()

    def awaiting(self) -> list[str]:
        """The names of what awaits an answer."""
        return [approval.name for approval in self.file.list(time.time()) if approval.state == "awaiting"]

    def approve(self, names: list[str]) -> None:
        for name in names:
            self.file.say(name, "approved", "ann", "", time.time())

    def shown(self, name: str) -> tuple[str, str]:
        """The status of the stack's grant, and the reason."""
        resource = self.heat.on(name, "GET", "/resources/g").json()["resource"]
        return resource["resource_status"], resource["resource_status_reason"]

    def events(self, name: str) -> list[tuple[str, str]]:
        """The statuses of the stack's grant in order, and the reasons."""
        events = self.heat.on(name, "GET", "/events?sort_dir=asc&limit=500").json()["events"]
        return [
            (event["resource_status"], event["resource_status_reason"])
            for event in events
            if event["resource_name"] == "g"
        ]

    def status(self, names: list[str]) -> list[str]:
        """The status of each of the stacks."""
        listed = self.heat.ask("GET", "stacks").json()["stacks"]
        return [stack["stack_status"] for stack in listed if stack["stack_name"] in names]

    def polls(self) -> int:
        """How often the only grant that waits was seen to ask again."""
        polled = self.file.store.run(None, lambda rows: rows.execute(select(approval_requests.c.polled)).scalar())
        self._polled.add(polled)
        return len(self._polled)

    def claim_count(self) -> int:
        """How many claims are not over."""
        return len(Journal(str(self.folder / "journal")).claims())


ENGINES = [pytest.param(True, id="convergence"), pytest.param(False, id="legacy")]
if os.environ.get("DATALOG_GATE_HEAT") == "short":  # each test starts a Heat; test_grant.py has both engines
    del ENGINES[1]


@pytest.fixture(params=ENGINES)
def make_desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Desk]]:
    """Starts a Heat in which so many grants may wait for so long."""
    with ExitStack() as started:

        def start(number: int, seconds: int, **more: str) -> Desk:
            settings = {"wait_number": number, "wait_seconds": seconds, **more}
            lines = [f"approval.{key}={value}" for key, value in settings.items()]
            options = {"services": "approval", "service_option": lines, "store": f"{tmp_path}/journal"}
            heat = running(tmp_path, request.param, rules=APPROVAL_RULES, options=options)
            return Desk(started.enter_context(heat), tmp_path)

        yield start


def test_a_stack_goes_on_once_what_it_asks_is_approved_and_asks_again_for_anything_else(
    make_desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = make_desk(SOME, 600)
    desk.heat.login(monkeypatch)

    def command(*arguments: str) -> list[str]:
        code, printed, _ = run(capsys, *arguments, "--heat-conf", desk.folder / "heat.conf")
        assert code == 0
        return [line.partition(":")[0] for line in printed.splitlines() if not line.startswith(" ")]

    name, answer = desk.heat.create(approved(8))
    assert (answer.status_code, desk.heat.ended(name)[0]) == (201, "CREATE_FAILED")
    assert desk.heat.resources(name) == {"g": "CREATE_FAILED", "s": "INIT_COMPLETE", "by": "INIT_COMPLETE"}

    def updated(length: int) -> tuple[str, str]:
        status, why = desk.heat.updated(name, approved(length))
        return status, why.partition("resources.g: the service approval refuses this: ")[2]

    assert updated(8) == ("UPDATE_FAILED", "awaiting approval A-1")
    desk.approve(["A-1"])
    assert updated(8) == ("UPDATE_COMPLETE", "")
    assert [line.partition(" ")[0] for line in command("services", "reconcile")] == ["committed"]
    assert updated(12) == ("UPDATE_FAILED", "awaiting approval A-2")
    desk.file.say("A-2", "refused", "ann", "too long", time.time())
    assert updated(12)[1].startswith("A-2 was refused by ann: too long")
    assert command("services", "reconcile") == []
    desk.approve(["A-2"])
    assert updated(12) == ("UPDATE_COMPLETE", "")
    assert [line.partition(" ")[0] for line in command("services", "status")][:-1] != []
    desk.heat.delete(name)
    command("services", "reconcile")
    assert command("services", "status") == ["0 claims, 0 to look at"]


def test_a_grant_that_waits_shows_its_number_and_who_may_approve(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(SOME, 600, ask="the cloud team")
    name, _ = desk.heat.create(template(g=waiting(), s=string()))
    wait(lambda: desk.shown(name)[1] == "awaiting approval A-1 of the cloud team")
    wait(lambda: desk.polls() > 3)
    began = [("CREATE_IN_PROGRESS", "state changed"), ("CREATE_IN_PROGRESS", "awaiting approval A-1 of the cloud team")]
    assert (desk.shown(name)[0], desk.events(name)) == ("CREATE_IN_PROGRESS", began)
    desk.approve(["A-1"])
    assert desk.heat.ended(name)[0] == "CREATE_COMPLETE"
    assert desk.shown(name) == ("CREATE_COMPLETE", "state changed")
    assert desk.events(name) == [*began, ("CREATE_COMPLETE", "state changed")]


@pytest.mark.parametrize("make_desk", [True], ids=["convergence"], indirect=True)  # the legacy engine deletes the stack
def test_a_creation_that_is_rolled_back_keeps_the_number_in_its_events(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(SOME, 2)
    name, _ = desk.heat.create(template(g=waiting(), s=string()), disable_rollback=False)
    wait(lambda: desk.status([name]) == ["ROLLBACK_COMPLETE"])
    assert desk.events(name)[1:3] == [
        ("CREATE_IN_PROGRESS", "awaiting approval A-1"),
        ("CREATE_FAILED", "GrantError: resources.g: the service approval refuses this: awaiting approval A-1"),
    ]


@pytest.mark.parametrize("make_desk", [True], ids=["convergence"], indirect=True)  # the legacy engine deletes the stack
def test_a_creation_that_was_rolled_back_unapproved_is_built_by_an_update(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(SOME, 600)
    stopping = template(g=waiting("stop"), s=string())
    name, _ = desk.heat.create(stopping, disable_rollback=False)
    wait(lambda: desk.status([name]) == ["ROLLBACK_COMPLETE"])
    assert desk.awaiting() == ["A-1"]
    desk.approve(["A-1"])
    assert desk.heat.updated(name, stopping)[0] == "UPDATE_COMPLETE"
    assert desk.heat.resources(name) == {"g": "CREATE_COMPLETE", "s": "CREATE_COMPLETE"}


def test_many_that_would_wait_keep_no_other_stack_from_its_end(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(SOME, 600)
    names = [desk.heat.create(template(g=waiting(), s=string(salt=str(at))))[0] for at in range(MANY)]
    wait(lambda: len(desk.awaiting()) == MANY)
    desk.heat.created(template(s=string()))
    wait(lambda: Counter(desk.status(names)) == {"CREATE_IN_PROGRESS": SOME, "CREATE_FAILED": MANY - SOME})
    desk.approve(desk.awaiting())
    wait(lambda: Counter(desk.status(names)) == {"CREATE_COMPLETE": SOME, "CREATE_FAILED": MANY - SOME})
    assert desk.claim_count() == SOME


def test_one_that_has_waited_long_enough_stops(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(8, 2)
    _, status, why = desk.heat.built(template(g=waiting(), s=string()))
    assert (status, why.rpartition(": ")[2]) == ("CREATE_FAILED", "awaiting approval A-1")


def test_a_grant_that_is_removed_while_it_waits_holds_nothing(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk(8, 20)
    name, _ = desk.heat.create(template(g=waiting(), s=string()))
    wait(lambda: desk.awaiting() == ["A-1"])
    answer = desk.heat.on(name, "PUT", template=template(s=string()))
    if answer.status_code == 409:  # the legacy engine takes no update before the creation is over
        assert desk.heat.ended(name)[0] == "CREATE_FAILED"
        answer = desk.heat.on(name, "PUT", template=template(s=string()))
    assert answer.status_code == 202, answer.text
    assert (desk.heat.ended(name)[0], desk.heat.resources(name)) == ("UPDATE_COMPLETE", {"s": "CREATE_COMPLETE"})
    assert desk.claim_count() == 0
