"""The state of a stack as Heat's API proves it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from datalog_gate.doors.cli.heat_client import HeatClient, HeatStacks
from datalog_gate.services.journal import Journal
from datalog_gate.services.reconcile import ReconcileResult, StackState, reconcile
from tests.ledger import Seats, broker, request
from tests.scripted_cloud import Cloud, with_keystone

NOW = 1_800_000_000.0
ID = "6a"
SHOWN = f"GET /v1/other/stacks/{ID}?resolve_outputs=False"
STACK = f"GET /v1/other/stacks/web/{ID}"
LISTED = f"{STACK}/resources"
LAST = f"{STACK}/events?sort_dir=desc&limit=1"
SERVICES = "GET /v1/p/services"


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A cloud, and credentials of an admin in the project `p`."""
    with with_keystone(monkeypatch) as server:
        server.give(SERVICES, {"services": [{"host": "aio", "hostname": "vm", "status": "up"}]})
        yield server


def shows(cloud: Cloud, status: str, *listed: str, hidden: tuple[str, ...] = (), **more: object) -> None:
    """Script the stack `web` of the project `other` with its resources. Hidden ones are shown only by their ids."""
    where = f"{cloud.url}/v1/other/stacks/web/{ID}?resolve_outputs=False"
    cloud.give(SHOWN, {}, 302, Location=where)
    body = {"stack_name": "web", "id": ID, "stack_status": status, "creation_time": "2027-01-15T08:00:00Z", **more}
    cloud.give(f"{STACK}?resolve_outputs=False", {"stack": body})
    cloud.give(LISTED, {"resources": [{"resource_name": "g", "physical_resource_id": uuid} for uuid in listed]})
    for uuid in ("u", "v"):
        resources = [{"resource_name": "g", "physical_resource_id": uuid}] if uuid in hidden else []
        cloud.give(f"{LISTED}?physical_resource_id={uuid}", {"resources": resources})


def claimed(folder: Path, *uuids: str) -> Journal:
    """A journal with these claims for the stack."""
    now = broker(folder, Seats(folder / "seats"), NOW)
    for uuid in uuids:
        now.reserve(request(uuid, uuid, project="other", stack=ID))
    now.reserve(request("elsewhere", "x", project="p", stack="7b"))
    return now.journal


def ask_heat(folder: Path, host: str = "aio") -> StackState | None:
    return HeatStacks(HeatClient(), claimed(folder, "u", "v"), host)(ID)


@pytest.mark.parametrize(
    ("status", "listed", "hidden", "expected"),
    [
        ("CREATE_COMPLETE", ("u", "x"), ("v",), StackState("complete", frozenset("uvx"))),
        ("UPDATE_COMPLETE", ("u",), (), StackState("complete", frozenset("u"))),
        ("ADOPT_COMPLETE", ("u", "v"), (), StackState("complete", frozenset("uv"))),
        ("ROLLBACK_COMPLETE", (), (), StackState("complete")),
        ("CREATE_FAILED", ("u",), (), StackState("failed", frozenset("u"))),
        ("DELETE_COMPLETE", (), (), StackState("absent")),
        # an update that failed, and what hides one: some of its resources nobody is shown
        ("UPDATE_FAILED", ("u",), (), None),
        ("CHECK_COMPLETE", ("u",), (), None),
        ("NONSENSE", ("u",), (), None),
    ],
)
def test_the_state_of_a_stack_comes_from_heat_if_that_is_proof(
    cloud: Cloud,
    tmp_path: Path,
    status: str,
    listed: tuple[str, ...],
    hidden: tuple[str, ...],
    expected: StackState | None,
) -> None:
    shows(cloud, status, *listed, hidden=hidden)
    assert ask_heat(tmp_path) == expected


@pytest.mark.parametrize("status", ["CREATE_IN_PROGRESS", "DELETE_IN_PROGRESS", "INIT_COMPLETE"])
@pytest.mark.parametrize(
    ("events", "since"),
    [
        ([{"event_time": "2027-01-15T09:00:00Z"}], datetime(2027, 1, 15, 9, tzinfo=UTC)),
        ([], datetime(2027, 1, 15, 8, tzinfo=UTC)),
    ],
)
def test_a_stack_is_in_progress_since_its_last_sign_of_life(
    cloud: Cloud, tmp_path: Path, status: str, events: list[dict[str, str]], since: datetime
) -> None:
    shows(cloud, status)
    cloud.give(LAST, {"events": events})
    assert ask_heat(tmp_path) == StackState("in_progress", since=since.timestamp())


@pytest.mark.parametrize(
    ("request_", "body", "status"),
    [
        (SHOWN, {}, 403),
        (SHOWN, {}, 500),
        (SHOWN, b"<html>", 200),
        (SHOWN, [], 200),
        (SHOWN, {}, 200),
        (SHOWN, {"stack": {"id": ID}}, 200),
        (SHOWN, {"stack": {"id": "other", "stack_status": "DELETE_COMPLETE", "stack_name": ID}}, 200),
        (LISTED, {}, 404),
        (LISTED, {"resources": [{}]}, 200),
        (LISTED, {"resources": None}, 200),
        (f"{LISTED}?physical_resource_id=u", {}, 500),
    ],
)
def test_an_invalid_answer_gives_no_state(
    cloud: Cloud, tmp_path: Path, request_: str, body: object, status: int
) -> None:
    shows(cloud, "CREATE_COMPLETE", "v")
    cloud.give(request_, body, status)
    assert ask_heat(tmp_path) is None


@pytest.mark.parametrize("events", [{}, {"events": [{}]}, {"events": [{"event_time": "soon"}]}])
def test_events_that_are_none_tell_nothing(cloud: Cloud, tmp_path: Path, events: object) -> None:
    shows(cloud, "UPDATE_IN_PROGRESS")
    cloud.give(LAST, events)
    assert ask_heat(tmp_path) is None


@pytest.mark.parametrize(
    ("host", "services", "status", "expected"),
    [
        ("aio", [{"host": "aio", "hostname": "vm"}], 200, StackState("absent")),
        ("vm", [{"host": "aio", "hostname": "vm"}], 200, StackState("absent")),
        ("elsewhere", [{"host": "aio", "hostname": "vm"}], 200, None),
        ("aio", [], 200, None),
        ("aio", [], 403, None),
        ("aio", [{}], 200, None),
    ],
)
def test_a_stack_that_heat_does_not_know_is_gone_only_from_the_heat_of_this_host(
    cloud: Cloud, tmp_path: Path, host: str, services: object, status: int, expected: StackState | None
) -> None:
    cloud.give(SERVICES, {"services": services}, status)
    assert ask_heat(tmp_path, host) == expected


@pytest.mark.usefixtures("cloud")
def test_a_heat_that_is_down_gives_no_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stacks = HeatStacks(HeatClient(), claimed(tmp_path, "u"), "aio")
    monkeypatch.setattr(stacks._heat._adapter, "endpoint_override", "http://127.0.0.1:1/v1/p")
    assert stacks(ID) is None


def test_a_stack_without_a_claim_is_not_asked_about(cloud: Cloud, tmp_path: Path) -> None:
    shows(cloud, "DELETE_COMPLETE")
    assert HeatStacks(HeatClient(), claimed(tmp_path), "aio")(ID) is None
    assert [request_line for request_line, _ in cloud.requests if "/stacks/" in request_line] == []


def test_what_heat_says_settles_the_claims(cloud: Cloud, tmp_path: Path) -> None:
    journal = claimed(tmp_path, "u", "v")
    shows(cloud, "UPDATE_COMPLETE", "u")
    now = broker(tmp_path, Seats(tmp_path / "seats"), NOW)
    assert reconcile(now, HeatStacks(HeatClient(), journal, "elsewhere")) == [
        ReconcileResult("u", ID, "committed", "its stack is complete"),
        ReconcileResult("v", ID, "released", "its stack has another grant instead of it, or none"),
    ]


def test_the_members_of_a_stack_are_those_of_all_stacks_within_it(cloud: Cloud, tmp_path: Path) -> None:
    shows(cloud, "CREATE_COMPLETE", "u")
    rows = [
        {"physical_resource_id": "i1", "resource_type": "OS::Nova::Server"},
        {"physical_resource_id": "", "resource_type": "OS::Nova::Server"},
    ]
    cloud.give(f"{LISTED}?nested_depth=20", {"resources": rows})
    stacks = HeatStacks(HeatClient(), claimed(tmp_path, "u"), "aio")
    assert (stacks.members(ID), stacks.members("7b")) == ({"i1": "OS::Nova::Server"}, None)
