"""Reporting the outcomes of accepted operations to plugins."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from datalog_gate.doors.cli.heat_client import Heat, find_outcome
from datalog_gate.plugins.plugin_errors import UnavailableError
from datalog_gate.preflight.plugin import Outcome, Plugin
from datalog_gate.preflight.snapshot import Snapshot, snapshot
from datalog_gate.services.journal import Journal
from datalog_gate.services.outcomes import TRIES, Outcomes, Pending, tell
from datalog_gate.services.reconcile import ReconcileResult
from tests.scripted_cloud import Cloud, without_keystone

NOW = 1_800_000_000.0
ID = "6a"


class Reporter(Plugin):
    """Record each outcome, and raise the first `raises` times."""

    def __init__(self, name: str, messages: list[str], raises: int = 0) -> None:
        self.name, self.messages, self.raises = name, messages, raises

    def post(self, snapshot: Snapshot, outcome: Outcome) -> None:
        self.messages.append(f"{self.name}: {snapshot.action} {outcome}")
        self.raises -= 1
        if self.raises >= 0:
            raise UnavailableError("nobody there")


class Killer(Plugin):
    """Record the outcome, then kill the process."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def post(self, snapshot: Snapshot, outcome: Outcome) -> None:
        with self.file.open("a") as file:
            file.write(f"{snapshot.action} {outcome}\n")
        os.kill(os.getpid(), signal.SIGKILL)


def operation(action: str = "create", stack_id: str = ID) -> Snapshot:
    credentials = {"user_id": "u", "roles": ("member",)}
    return snapshot(
        action=action,
        stack_name="web",
        project="p",
        decision_id="d1",
        stack_id=stack_id,
        credentials=credentials,
        request_id="req-1",
    )


def add_pending(folder: Path, *plugins: str, picture: Snapshot | None = None) -> Outcomes:
    """The outcomes of one pending operation."""
    outcomes = Outcomes(str(folder / "journal"))
    outcomes.add(picture or operation(), plugins, NOW)
    return outcomes


def answering(outcome: Outcome | None) -> Callable[[Pending, float], Outcome | None]:
    return lambda *_: outcome


def unasked(*_: object) -> Outcome | None:
    raise AssertionError("the outcome is known already")


def test_a_pending_operation_is_stored_beside_the_claims(tmp_path: Path) -> None:
    Journal(str(tmp_path / "journal"))
    outcomes = add_pending(tmp_path, "a", "b")
    assert outcomes.pending() == (Pending(1, operation(), ("a", "b"), NOW),)
    assert Outcomes(str(tmp_path / "journal")).pending(NOW) == outcomes.pending()
    assert Journal(str(tmp_path / "journal")).claims() == ()


@pytest.mark.parametrize(
    ("outcome", "stack_id", "after", "messages"),
    [
        ("complete", ID, 1.0, ["a: create complete", "b: create complete"]),
        ("failed", ID, 1.0, ["b: create failed", "a: create failed"]),
        ("unknown", ID, 1.0, ["a: create unknown", "b: create unknown"]),
        (None, ID, 86399.0, []),
        (None, ID, 86400.0, ["a: create unknown", "b: create unknown"]),
        ("complete", "", 1.0, ["a: create unknown", "b: create unknown"]),
    ],
)
def test_each_plugin_gets_the_outcome_of_an_operation_once(
    tmp_path: Path, outcome: Outcome | None, stack_id: str, after: float, messages: list[str]
) -> None:
    outcomes, reports = add_pending(tmp_path, "a", "b", picture=operation(stack_id=stack_id)), list[str]()
    plugins = {name: Reporter(name, reports) for name in "bac"}
    settled = tell(outcomes, plugins, answering(outcome), NOW + after)
    assert [entry.why.replace("was told that its create is ", "create ") for entry in settled] == [
        message.replace(": create failed", " was told that its create failed").replace(":", "") for message in messages
    ]
    assert [(entry.uuid, entry.stack, entry.done) for entry in settled] == [("d1", stack_id, "told")] * len(messages)
    assert (reports, bool(outcomes.pending())) == (messages, not messages)
    assert tell(outcomes, plugins, answering(None), NOW + after) == []


def test_only_a_plugin_that_raises_gets_the_outcome_again(tmp_path: Path) -> None:
    outcomes, reports = add_pending(tmp_path, "a", "b"), list[str]()
    plugins = {"a": Reporter("a", reports, raises=2), "b": Reporter("b", reports)}
    rounds = []
    for at, ask_heat in ((0, answering("failed")), (59, unasked), (60, unasked), (179, unasked), (180, unasked)):
        settled = tell(outcomes, plugins, ask_heat, NOW + at)
        rounds.append([(entry.done, entry.why) for entry in settled])
    failed = ("failed", "a was not told that its create failed: nobody there")
    reason = "was told that its create failed"
    assert rounds == [[("told", f"b {reason}"), failed], [], [failed], [], [("told", f"a {reason}")]]
    assert (reports, outcomes.pending()) == (["b: create failed", *["a: create failed"] * 3], ())


@pytest.mark.parametrize(
    ("enabled", "problem"),
    [(True, "nobody there"), pytest.param(False, "it is no longer enabled", marks=pytest.mark.slow)],
)
def test_the_attempts_for_a_plugin_that_always_raises_end(tmp_path: Path, enabled: bool, problem: str) -> None:
    outcomes, reports = add_pending(tmp_path, "a"), list[str]()
    plugins: dict[str, Plugin] = {"a": Reporter("a", reports, raises=99)} if enabled else {}
    at, times, last = NOW, list[float](), list[ReconcileResult]()
    while outcomes.pending():
        if settled := tell(outcomes, plugins, answering("complete"), at):
            times, last = [*times, at - NOW], settled
        at += 60.0
    assert times == [0, 60, 180, 420, 900, 1860, 3780, 7380, 10980, 14580]
    why = f"a was not told that its create is complete: {problem}; there are no more attempts"
    assert (last, len(reports)) == ([ReconcileResult("d1", ID, "failed", why)], TRIES if enabled else 0)


def test_the_message_of_an_unexpected_exception_is_hidden(tmp_path: Path) -> None:
    class Broken(Plugin):
        def post(self, snapshot: Snapshot, outcome: Outcome) -> None:  # noqa: ARG002
            raise LookupError("a secret")

    why = "a was not told that its create is complete: it is broken (LookupError)"
    assert tell(add_pending(tmp_path, "a"), {"a": Broken()}, answering("complete"), NOW) == [
        ReconcileResult("d1", ID, "failed", why)
    ]


def test_an_outcome_that_another_process_reports_is_skipped(tmp_path: Path) -> None:
    outcomes, reports = add_pending(tmp_path, "a"), list[str]()

    def overtaken(pending: Pending, now: float) -> Outcome:
        assert outcomes.attempt(pending, "complete", now + 60)
        return "complete"

    assert (tell(outcomes, {"a": Reporter("a", reports)}, overtaken, NOW), reports) == ([], [])
    tell(outcomes, {"a": Reporter("a", reports)}, unasked, NOW + 60)
    assert reports == ["a: create complete"]


def test_a_process_killed_after_a_report_reports_again(tmp_path: Path) -> None:
    outcomes, file = add_pending(tmp_path, "a"), tmp_path / "reports"
    for at in (NOW, NOW + 60):
        process = multiprocessing.get_context("fork").Process(
            target=tell, args=(outcomes, {"a": Killer(file)}, answering("complete"), at)
        )
        process.start()
        process.join()
        assert (process.exitcode, len(outcomes.pending())) == (-signal.SIGKILL, 1)
    reports = list[str]()
    tell(outcomes, {"a": Reporter("a", reports)}, unasked, NOW + 180)
    assert (file.read_text(), reports, outcomes.pending()) == (
        "create complete\n" * 2, ["a: create complete"], (),
    )  # fmt: skip


def test_attempts_of_killed_processes_count(tmp_path: Path) -> None:
    outcomes = add_pending(tmp_path, "a")
    for _ in range(TRIES - 1):
        [pending] = outcomes.pending()
        assert outcomes.attempt(pending, "complete", NOW)
    why = "a was not told that its create is complete: nobody there; there are no more attempts"
    assert (tell(outcomes, {"a": Reporter("a", [], raises=1)}, unasked, NOW), outcomes.pending()) == (
        [ReconcileResult("d1", ID, "failed", why)],
        (),
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
    assert find_outcome(Heat(), Pending(1, operation(action), ("a",), NOW + 10.9), NOW + 40) == outcome


def test_an_event_in_the_second_of_the_request_may_be_of_the_previous_operation(cloud: Cloud) -> None:
    ask = partial(find_outcome, Heat(), Pending(1, operation("update"), ("a",), NOW + 10.9))
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
    assert find_outcome(Heat(), Pending(1, operation(), ("a",), NOW), NOW + 40) is None
