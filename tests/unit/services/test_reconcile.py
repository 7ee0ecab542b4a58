"""A service holds what living stacks hold, once its claims are reconciled."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from datalog_gate.plugins.plugin_errors import UnavailableError
from datalog_gate.services import reconcile as reconcile_module
from datalog_gate.services.broker import Broker
from datalog_gate.services.contract import Held, Status
from datalog_gate.services.reconcile import ReconcileResult, StackState, reconcile
from tests.ledger import Seats, broker, request

NOW = 1_800_000_000.0


def read_holdings(folder: Path) -> list[str]:
    return sorted(seat for seats in Seats(folder / "seats").holdings().values() for seat in seats)


def make_broker(tmp_path: Path, *uuids: str, after: float = 0.0) -> Broker:
    """A broker so long after `NOW` whose journal has these claims reserved."""
    now = broker(tmp_path, Seats(tmp_path / "seats"), NOW + after)
    for uuid in uuids:
        now.reserve(request(uuid, uuid))
    return now


def test_what_was_broken_off_is_settled_once_its_lease_is_over_and_nothing_can_arrive(tmp_path: Path) -> None:
    now = make_broker(tmp_path, "gone")
    now.journal.begin(request("u", "u"), "", None, NOW, 30.0)
    now.journal.give_back("gone", NOW, "it was deleted")
    why = "it was interrupted while its service was being asked"
    assert [reconcile(make_broker(tmp_path, after=at), lambda _: None) for at in (29, 30, 91)] == [
        [ReconcileResult("gone", "s", "released", "it was deleted")],
        [ReconcileResult("u", "s", "releasing", why)],
        [ReconcileResult("u", "s", "released", why)],
    ]


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize(
    ("stack_state", "result"),
    [
        (None, None),
        (StackState("complete", frozenset("u")), ("committed", "its stack is complete")),
        (StackState("complete", frozenset("v")), ("released", "its stack has another grant instead of it, or none")),
        (
            StackState("failed", frozenset("u")),
            ("kept", "its stack failed, and keeps this until it is deleted: openstack stack delete s"),
        ),
        (StackState("failed"), ("released", "its stack has another grant instead of it, or none")),
        (StackState("absent"), ("released", "its stack is gone")),
        (StackState("in_progress", frozenset("u"), NOW - 14399), None),
        (
            StackState("in_progress", frozenset(), NOW - 14400),
            (
                "stuck",
                "its stack has been in progress for 14400 seconds; if no engine works on it: "
                "heat-manage reset_stack_status s",
            ),
        ),
    ],
)
def test_a_claim_is_settled_by_the_state_of_its_stack(
    tmp_path: Path, stack_state: StackState | None, result: tuple[str, str] | None, committed: bool
) -> None:
    now = make_broker(tmp_path, "u")
    if committed:
        now.commit("u")
        result = None if result and result[0] == "committed" else result
    seen_stacks: list[str] = []

    def find_state(stack: str) -> StackState | None:
        seen_stacks.append(stack)
        return stack_state

    expected = [ReconcileResult("u", "s", *result)] if result else []  # type: ignore[arg-type]
    assert reconcile(now, find_state) == expected
    assert seen_stacks == ["s"]
    assert read_holdings(tmp_path) == ([] if result and result[0] == "released" else ["s/u"])


class Keeper(Seats):
    on_abandon = "keep"


class Down(Seats):
    """A service that does not answer."""

    def release(self, _held: Held) -> None:
        raise UnavailableError("nobody\nthere")


class Clinging(Seats):
    """A service that reports a release it did not make."""

    def release(self, _held: Held) -> None:
        pass


class Liar(Seats):
    """A service that releases and denies it."""

    def status(self, _held: Held) -> Status:
        return "held"


@pytest.mark.parametrize(
    ("kind", "stack_state", "expected"),
    [
        (Seats, StackState("absent"), [ReconcileResult("u", "s", "released", "its stack was abandoned")]),
        (Keeper, StackState("absent"), [ReconcileResult("u", "s", "committed", "its stack was abandoned")]),
        (Keeper, None, []),
    ],
)
def test_an_abandoned_stack_keeps_its_claims_as_its_service_decides(
    tmp_path: Path, kind: type[Seats], stack_state: StackState | None, expected: list[ReconcileResult]
) -> None:
    make_broker(tmp_path, "u").journal.abandon("s", "p", "name-s")
    now = broker(tmp_path, kind(tmp_path / "seats"), NOW)
    assert reconcile(now, lambda _: stack_state) == expected
    assert reconcile(now, lambda _: stack_state) == []


class Placer(Seats):
    """A service that says what it was asked, once something is elsewhere."""

    places = True

    def misplaced(self, held: Held, members: Mapping[str, str]) -> list[str]:
        if members.get("x") == "broken":
            raise UnavailableError("no answer")
        return [f"{held.key[:2]}: {name} is elsewhere" for name in members]


def test_a_complete_stack_is_compared_with_what_was_decided_now_and_then(tmp_path: Path) -> None:
    complete = StackState("complete", frozenset("u"))
    make_broker(tmp_path, "u").commit("u")
    seen: list[str] = []

    def compare(after: float, members: Mapping[str, str] | None, kind: type[Seats] = Placer) -> list[ReconcileResult]:
        def find(stack: str) -> Mapping[str, str] | None:
            seen.append(stack)
            return members

        return reconcile(broker(tmp_path, kind(tmp_path / "seats"), NOW + after), lambda _: complete, find)

    key = make_broker(tmp_path).journal.claims()[0].key[:2]
    elsewhere = [ReconcileResult("u", "s", "misplaced", f"{key}: x is elsewhere; {key}: y is elsewhere")]
    assert compare(0, {"x": "T"}, Seats) == []
    assert compare(0, None) == []
    assert compare(1, {"x": "T", "y": "T"}) == elsewhere
    assert [claim.problem for claim in make_broker(tmp_path).journal.claims()] == [elsewhere[0].why]
    assert compare(600, {}) == elsewhere  # not asked again so soon
    assert compare(602, {"x": "broken"}) == [ReconcileResult("u", "s", "failed", "no answer")]
    assert compare(1300, {}) == []
    assert (seen, [claim.problem for claim in make_broker(tmp_path).journal.claims()]) == (["s"] * 4, [""])


def test_what_a_failed_stack_keeps_is_noted_in_the_journal(tmp_path: Path) -> None:
    now = make_broker(tmp_path, "u")
    [result] = reconcile(now, lambda _: StackState("failed", frozenset("u")))
    assert [claim.problem for claim in now.journal.claims()] == [result.why]
    reconcile(now, lambda _: StackState("complete", frozenset("u")))
    assert [(claim.state, claim.problem) for claim in now.journal.claims()] == [("committed", "")]


def test_what_an_abandoned_stack_kept_goes_to_the_stack_that_adopts_it(tmp_path: Path) -> None:
    make_broker(tmp_path, "u").journal.abandon("s", "p", "name-s")
    now = broker(tmp_path, Keeper(tmp_path / "seats", size=1), NOW)
    reconcile(now, lambda _: StackState("absent"))
    now.reserve(replace(request("v", "u"), stack="adopted"), replaces="u")
    now.commit("v")
    assert reconcile(now, lambda _: StackState("complete", frozenset("v"))) == [
        ReconcileResult("u", "s", "released", "s/grant has replaced it")
    ]
    assert read_holdings(tmp_path) == ["s/u"]


def test_a_grant_that_has_expired_is_released_unless_it_got_more_time(tmp_path: Path) -> None:
    now = broker(tmp_path, Seats(tmp_path / "seats"), NOW)
    for uuid, expires in (("past", NOW), ("longer", NOW), ("ahead", NOW + 1)):
        now.reserve(request(uuid, uuid), expires=expires)
    now.journal.expire("longer", None)
    assert reconcile(now, lambda _: None) == [ReconcileResult("past", "s", "released", "it has expired")]
    assert read_holdings(tmp_path) == ["s/ahead", "s/longer"]


@pytest.mark.parametrize(
    ("kind", "problem", "still"),
    [
        (Down, "nobody there", ["s/u"]),
        (Clinging, "it still holds what it was told to release", ["s/u"]),
        (Liar, "it still holds what it was told to release", []),
    ],
)
def test_a_release_is_tried_again_and_again_until_it_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Seats], problem: str, still: list[str]
) -> None:
    now = make_broker(tmp_path, "u")
    monkeypatch.setattr(reconcile_module, "ALARM", 100.0)
    log = []
    for seconds in (0, 1, 2, 5, 6, 13, 29, 61, 92, 125):
        now = broker(tmp_path, kind(tmp_path / "seats"), NOW + seconds)
        log.append([(seconds, settled.done, settled.why) for settled in reconcile(now, lambda _: StackState("absent"))])
    assert log == [
        [(0, "releasing", problem)],
        [],
        [(2, "releasing", problem)],
        [],
        [(6, "releasing", problem)],
        [],
        [(29, "releasing", problem)],
        [(61, "releasing", problem)],
        [],
        [(125, "alarm", f"not released for 125 seconds: {problem}")],
    ]
    assert read_holdings(tmp_path) == still
    assert reconcile(make_broker(tmp_path, after=9999), lambda _: None) == [
        ReconcileResult("u", "s", "released", "its stack is gone")
    ]
    assert read_holdings(tmp_path) == []


def test_a_service_that_is_not_enabled_any_more_keeps_its_claims_and_says_so(tmp_path: Path) -> None:
    make_broker(tmp_path, "u").journal.abandon("s", "p", "name-s")
    journal = make_broker(tmp_path).journal
    none = Broker(journal, {}, lambda: NOW, time.monotonic)
    not_enabled = "this service is not enabled"
    assert reconcile(none, lambda _: StackState("absent")) == [ReconcileResult("u", "s", "failed", not_enabled)]
    assert reconcile(none, lambda _: StackState("complete")) == [ReconcileResult("u", "s", "releasing", not_enabled)]
    assert read_holdings(tmp_path) == ["s/u"]


def test_a_claim_at_work_is_left_alone_and_heat_is_asked_once_for_a_stack(tmp_path: Path) -> None:
    now = make_broker(tmp_path, "u", "v", "w")
    assert now.journal.lease("u", NOW, 30.0) is not None
    stacks: list[str] = []
    assert reconcile(now, lambda stack: stacks.append(stack) or StackState("absent")) == [  # type: ignore[func-returns-value]
        ReconcileResult(uuid, "s", "released", "its stack is gone") for uuid in "vw"
    ]
    assert stacks == ["s"]


def test_a_claim_that_moved_on_since_it_was_read_is_not_released(tmp_path: Path) -> None:
    now = make_broker(tmp_path, "u")

    def meanwhile(_stack: str) -> StackState:
        now.commit("u")
        return StackState("absent")

    assert reconcile(now, meanwhile) == []
    assert read_holdings(tmp_path) == ["s/u"]


def test_what_is_over_is_kept_while_what_it_was_to_replace_is_there(tmp_path: Path) -> None:
    now = make_broker(tmp_path, "old")
    now.reserve(request("new", "old"), replaces="old")
    now.release("new")
    later = broker(tmp_path, Seats(tmp_path / "seats", size=1), NOW + 31 * 86400)
    reconcile(later, lambda _: None)
    later.reserve(request("newer", "old"), replaces="new")
    assert read_holdings(tmp_path) == ["s/old", "s/old"]


def test_what_is_over_is_forgotten_after_a_month(tmp_path: Path) -> None:
    now = make_broker(tmp_path, "u", "live")
    now.release("u")
    for days, known in ((29, [True, True]), (31, [False, True])):
        reconcile(make_broker(tmp_path, after=days * 86400), lambda _: None)
        assert [now.journal.claim(uuid) is not None for uuid in ("u", "live")] == known
