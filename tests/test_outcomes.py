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
from datalog_gate.services.journal_claim import JournalError
from datalog_gate.services.outcomes import TRIES, Outcomes, Pending, tell
from datalog_gate.services.reconcile import ReconcileResult
from tests.scripted_cloud import Cloud, without_keystone

NOW = 1_800_000_000.0
ID = "6a"


class Teller(Plugin):
    """Record each outcome, then raise as often as it is configured."""

    def __init__(self, name: str, messages: list[str], raises: int = 0) -> None:
        self.name, self.messages, self.raises = name, messages, raises

    def post(self, snapshot: Snapshot, outcome: Outcome) -> None:
        self.messages.append(f"{self.name}: {snapshot.action} {outcome}")
        self.raises -= 1
        if self.raises >= 0:
            raise UnavailableError("nobody there")


class Deadly(Plugin):
    """Record the outcome, then kill the process."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def post(self, snapshot: Snapshot, outcome: Outcome) -> None:
        with self.file.open("a") as file:
            file.write(f"{snapshot.action} {outcome}\n")
        os.kill(os.getpid(), signal.SIGKILL)


def taken(action: str = "create", stack_id: str = ID) -> Snapshot:
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


def kept(folder: Path, *plugins: str, picture: Snapshot | None = None) -> Outcomes:
    """The outcomes of one pending operation."""
    outcomes = Outcomes(str(folder / "journal"))
    outcomes.add(picture or taken(), plugins, NOW)
    return outcomes


def says(outcome: Outcome | None) -> Callable[[Pending, float], Outcome | None]:
    return lambda *_: outcome


def nobody(*_: object) -> Outcome | None:
    raise AssertionError("what is known is not asked for")


def test_an_operation_is_kept_whole_beside_the_claims_without_its_resources(tmp_path: Path) -> None:
    Journal(str(tmp_path / "journal"))
    outcomes = kept(tmp_path, "a", "b")
    assert outcomes.pending() == (Pending(1, taken(), ("a", "b"), NOW),)
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
def test_each_plugin_hears_the_outcome_of_an_operation_once(
    tmp_path: Path, outcome: Outcome | None, stack_id: str, after: float, messages: list[str]
) -> None:
    outcomes, heard = kept(tmp_path, "a", "b", picture=taken(stack_id=stack_id)), list[str]()
    plugins = {name: Teller(name, heard) for name in "bac"}
    settled = tell(outcomes, plugins, says(outcome), NOW + after)
    assert [entry.why.replace("was told that its create is ", "create ") for entry in settled] == [
        message.replace(": create failed", " was told that its create failed").replace(":", "") for message in messages
    ]
    assert [(entry.uuid, entry.stack, entry.done) for entry in settled] == [("d1", stack_id, "told")] * len(messages)
    assert (heard, bool(outcomes.pending())) == (messages, not messages)
    assert tell(outcomes, plugins, says(None), NOW + after) == []


def test_only_a_plugin_that_raises_hears_the_outcome_again(tmp_path: Path) -> None:
    outcomes, heard = kept(tmp_path, "a", "b"), list[str]()
    plugins = {"a": Teller("a", heard, raises=2), "b": Teller("b", heard)}
    rounds = []
    for at, ask_heat in ((0, says("failed")), (59, nobody), (60, nobody), (179, nobody), (180, nobody)):
        settled = tell(outcomes, plugins, ask_heat, NOW + at)
        rounds.append([(entry.done, entry.why) for entry in settled])
    failed = ("failed", "a was not told that its create failed: nobody there")
    reason = "was told that its create failed"
    assert rounds == [[("told", f"b {reason}"), failed], [], [failed], [], [("told", f"a {reason}")]]
    assert (heard, outcomes.pending()) == (["b: create failed", *["a: create failed"] * 3], ())


@pytest.mark.parametrize(
    ("enabled", "problem"),
    [(True, "nobody there"), pytest.param(False, "it is no longer enabled", marks=pytest.mark.slow)],
)
def test_a_plugin_that_always_raises_is_given_up_in_the_end(tmp_path: Path, enabled: bool, problem: str) -> None:
    outcomes, heard = kept(tmp_path, "a"), list[str]()
    plugins: dict[str, Plugin] = {"a": Teller("a", heard, raises=99)} if enabled else {}
    at, times, last = NOW, list[float](), list[ReconcileResult]()
    while outcomes.pending():
        if settled := tell(outcomes, plugins, says("complete"), at):
            times, last = [*times, at - NOW], settled
        at += 60.0
    assert times == [0, 60, 180, 420, 900, 1860, 3780, 7380, 10980, 14580]
    why = f"a was not told that its create is complete: {problem}; there are no more attempts"
    assert (last, len(heard)) == ([ReconcileResult("d1", ID, "failed", why)], TRIES if enabled else 0)


def test_a_plugin_that_is_broken_says_only_how(tmp_path: Path) -> None:
    class Broken(Plugin):
        def post(self, snapshot: Snapshot, outcome: Outcome) -> None:  # noqa: ARG002
            raise LookupError("a secret")

    why = "a was not told that its create is complete: it is broken (LookupError)"
    assert tell(kept(tmp_path, "a"), {"a": Broken()}, says("complete"), NOW) == [
        ReconcileResult("d1", ID, "failed", why)
    ]


def test_what_somebody_else_is_telling_is_left_to_him(tmp_path: Path) -> None:
    outcomes, heard = kept(tmp_path, "a"), list[str]()

    def overtaken(pending: Pending, now: float) -> Outcome:
        assert outcomes.attempt(pending, "complete", now + 60)
        return "complete"

    assert (tell(outcomes, {"a": Teller("a", heard)}, overtaken, NOW), heard) == ([], [])
    tell(outcomes, {"a": Teller("a", heard)}, nobody, NOW + 60)
    assert heard == ["a: create complete"]


def test_a_process_killed_after_a_report_reports_again(tmp_path: Path) -> None:
    outcomes, file = kept(tmp_path, "a"), tmp_path / "said"
    for at in (NOW, NOW + 60):
        process = multiprocessing.get_context("fork").Process(
            target=tell, args=(outcomes, {"a": Deadly(file)}, says("complete"), at)
        )
        process.start()
        process.join()
        assert (process.exitcode, len(outcomes.pending())) == (-signal.SIGKILL, 1)
    heard = list[str]()
    tell(outcomes, {"a": Teller("a", heard)}, nobody, NOW + 180)
    assert (file.read_text(), heard, outcomes.pending()) == (
        "create complete\n" * 2, ["a: create complete"], (),
    )  # fmt: skip


def test_a_process_that_is_killed_each_time_is_not_killed_for_ever(tmp_path: Path) -> None:
    outcomes = kept(tmp_path, "a")
    for _ in range(TRIES - 1):
        [pending] = outcomes.pending()
        assert outcomes.attempt(pending, "complete", NOW)
    [settled] = tell(outcomes, {"a": Teller("a", [], raises=1)}, nobody, NOW)
    assert (settled.why.endswith("; there are no more attempts"), outcomes.pending()) == (True, ())


def test_a_file_that_is_no_journal_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("no database" * 99)
    with pytest.raises(JournalError, match="journal: file is not a database"):
        Outcomes(str(tmp_path / "journal"))


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A Heat without Keystone, asked by its admin."""
    with without_keystone(monkeypatch, "admin") as server:
        yield server


EVENTS = f"GET /v1/p/stacks/{ID}/events?sort_dir=asc&resource_type=OS%3A%3AHeat%3A%3AStack"


def shows(cloud: Cloud, *events: str) -> None:
    """The events of the stack, ``second ACTION_STATUS``, after one of a stack that it has as a resource."""
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
def test_what_became_of_an_operation_is_what_the_events_of_its_stack_tell(
    cloud: Cloud, action: str, events: list[str], outcome: Outcome | None
) -> None:
    shows(cloud, *events)
    assert find_outcome(Heat(), Pending(1, taken(action), ("a",), NOW + 10.9), NOW + 40) == outcome


def test_an_event_in_the_second_in_which_an_operation_was_asked_for_may_be_of_the_one_before(cloud: Cloud) -> None:
    ask = partial(find_outcome, Heat(), Pending(1, taken("update"), ("a",), NOW + 10.9))
    shows(cloud, "10 UPDATE_IN_PROGRESS", "10 UPDATE_COMPLETE")
    assert [ask(NOW + at) for at in (70, 71)] == [None, "complete"]
    shows(cloud, "10 UPDATE_COMPLETE", "11 UPDATE_IN_PROGRESS", "12 UPDATE_FAILED")
    assert [ask(NOW + at) for at in (70, 71)] == [None, "failed"]


@pytest.mark.parametrize(
    ("status", "answer"),
    [(404, {}), (403, {}), (200, {}), (200, {"events": [{}]}), (200, b"<html>"),
     (200, {"events": [{"physical_resource_id": ID, "event_time": "soon", "resource_status": "CREATE_COMPLETE"}]})],
)  # fmt: skip
def test_an_answer_that_tells_nothing_is_asked_for_again(cloud: Cloud, status: int, answer: object) -> None:
    cloud.give(EVENTS, answer, status)
    assert find_outcome(Heat(), Pending(1, taken(), ("a",), NOW), NOW + 40) is None
