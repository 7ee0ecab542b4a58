"""The outcomes of accepted operations, by the events of Heat."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from datalog_gate.doors.cli.heat_client import HeatClient, find_outcome
from datalog_gate.services.contract import Outcome
from datalog_gate.services.journal_claim import Claim
from tests.scripted_cloud import Cloud, without_keystone

NOW = 1_800_000_000.0
ID = "6a"


def claim(action: str = "create") -> Claim:
    """The claim of an operation on the stack, reserved ten seconds ago."""
    return Claim(
        uuid="u",
        key="k",
        service="licence_server",
        project="p",
        stack=ID,
        stack_name="web",
        action=action,
        path="",
        replaces="",
        state="reserved",
        since=NOW + 10.9,
        decision={},
    )


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A Heat without Keystone, with admin credentials."""
    with without_keystone(monkeypatch, "admin") as server:
        yield server


EVENTS = f"GET /v1/p/stacks/{ID}/events?sort_dir=asc&resource_type=OS%3A%3AHeat%3A%3AStack"


def give_events(cloud: Cloud, *events: str) -> None:
    """Script the events of the stack, ``second ACTION_STATUS``, after one of a nested stack."""
    stacks = [("7b", "0 CREATE_FAILED"), *((ID, event) for event in events)]
    rows = [(stack, *row.split()) for stack, row in stacks]
    cloud.give(EVENTS, {"events": [
        {"physical_resource_id": stack, "event_time": f"2027-01-15T08:00:{int(second):02}Z", "resource_status": status}
        for stack, second, status in rows
    ]})  # fmt: skip


@pytest.mark.parametrize(
    ("action", "events", "outcome"),
    [
        ("create", [], None),
        ("create", ["0 CREATE_IN_PROGRESS"], None),
        ("create", ["0 CREATE_IN_PROGRESS", "5 CREATE_COMPLETE"], "complete"),
        ("create", ["0 CREATE_IN_PROGRESS", "5 CREATE_FAILED"], "failed"),
        ("create", ["0 CREATE_FAILED"], "failed"),
        ("create", ["0 CREATE_IN_PROGRESS", "5 ROLLBACK_IN_PROGRESS", "6 ROLLBACK_COMPLETE"], "failed"),
        ("create", ["0 CREATE_IN_PROGRESS", "5 DELETE_IN_PROGRESS", "6 DELETE_COMPLETE"], "unknown"),
        ("create", ["0 CREATE_IN_PROGRESS", "5 CREATE_COMPLETE", "6 UPDATE_IN_PROGRESS"], "complete"),
        ("adopt", ["0 ADOPT_IN_PROGRESS", "5 ADOPT_COMPLETE"], "complete"),
        ("update", ["0 CREATE_IN_PROGRESS", "5 CREATE_COMPLETE"], None),
        ("update", ["1 UPDATE_IN_PROGRESS", "9 UPDATE_FAILED"], None),
        ("update", ["1 UPDATE_IN_PROGRESS", "9 UPDATE_FAILED", "11 UPDATE_IN_PROGRESS"], None),
        ("update", ["9 UPDATE_COMPLETE", "11 UPDATE_IN_PROGRESS", "30 UPDATE_FAILED"], "failed"),
        ("update", ["11 UPDATE_IN_PROGRESS", "30 UPDATE_COMPLETE"], "complete"),
        ("update", ["11 UPDATE_IN_PROGRESS", "30 UPDATE_FAILED", "30 ROLLBACK_IN_PROGRESS"], "failed"),
        ("update", ["11 UPDATE_IN_PROGRESS", "30 ROLLBACK_IN_PROGRESS", "31 ROLLBACK_COMPLETE"], "failed"),
        ("update", ["11 UPDATE_IN_PROGRESS", "12 UPDATE_IN_PROGRESS", "30 UPDATE_COMPLETE"], "unknown"),
        ("update", ["11 UPDATE_FAILED"], "failed"),
        ("delete", ["11 DELETE_IN_PROGRESS", "12 ROLLBACK_FAILED", "13 DELETE_COMPLETE"], "complete"),
        ("delete", ["11 DELETE_IN_PROGRESS", "13 DELETE_FAILED"], "failed"),
        ("suspend", ["11 SUSPEND_IN_PROGRESS", "13 SUSPEND_COMPLETE", "14 RESUME_IN_PROGRESS"], "complete"),
    ],
)
def test_the_outcome_of_an_operation_comes_from_the_events_of_its_stack(
    cloud: Cloud, action: str, events: list[str], outcome: Outcome | None
) -> None:
    give_events(cloud, *events)
    assert find_outcome(HeatClient(), claim(action), NOW + 40) == outcome


def test_an_event_in_the_second_of_the_request_may_be_of_the_previous_operation(cloud: Cloud) -> None:
    ask = partial(find_outcome, HeatClient(), claim("update"))
    give_events(cloud, "10 UPDATE_IN_PROGRESS", "10 UPDATE_COMPLETE")
    assert [ask(NOW + at) for at in (70, 71)] == [None, "complete"]
    give_events(cloud, "10 UPDATE_COMPLETE", "11 UPDATE_IN_PROGRESS", "12 UPDATE_FAILED")
    assert [ask(NOW + at) for at in (70, 71)] == [None, "failed"]


@pytest.mark.parametrize(
    ("status", "answer"),
    [(404, {}), (403, {}), (200, {}), (200, {"events": [{}]}), (200, b"<html>"),
     (200, {"events": [{"physical_resource_id": ID, "event_time": "soon", "resource_status": "CREATE_COMPLETE"}]})],
)  # fmt: skip
def test_an_answer_without_events_leaves_the_outcome_open(cloud: Cloud, status: int, answer: object) -> None:
    cloud.give(EVENTS, answer, status)
    assert find_outcome(HeatClient(), claim(), NOW + 40) is None
