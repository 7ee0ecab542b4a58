"""The journal: allowed transitions, and any mix of operations and crashes."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_IMODE

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from datalog_gate.plugins.plugin_errors import PluginError, RefusedError
from datalog_gate.plugins.plugin_errors import UnavailableError as Unavailable
from datalog_gate.services.broker import Broker, Limits
from datalog_gate.services.contract import Decision, Held, Request, Service, Status
from datalog_gate.services.journal import Journal
from datalog_gate.services.journal_claim import MOVES, Claim, JournalError, LostError, State
from datalog_gate.services.reconcile import StackState, reconcile
from tests.ledger import request
from tests.sampling import sample

NOW = 1_800_000_000.0
PATHS: dict[State, tuple[State, ...]] = {
    "intent": (),
    "reserved": ("reserved",),
    "committed": ("reserved", "committed"),
    "releasing": ("releasing",),
    "released": ("releasing", "released"),
    "failed": ("failed",),
}


def journal(tmp_path: Path) -> Journal:
    return Journal(str(tmp_path / "journal"), late=60.0)


def begun(journal: Journal, uuid: str = "u", replaces: str = "", lease: float = 30.0) -> Claim:
    return journal.begin(request(uuid, "a"), replaces, None, NOW, lease)


def leased(journal: Journal, uuid: str = "u") -> Claim:
    claim = journal.lease(uuid, NOW + 100, 30.0)
    assert claim is not None
    return claim


@pytest.mark.parametrize("to", MOVES)
@pytest.mark.parametrize("at", [state for state, after in MOVES.items() if after])
def test_a_claim_goes_only_where_it_may(tmp_path: Path, at: State, to: State) -> None:
    rows = journal(tmp_path)
    begun(rows, lease=0.0)
    for state in PATHS[at]:
        rows.move(leased(rows), state, NOW, "why")
    claim = leased(rows)
    if to not in MOVES[at]:
        with pytest.raises(AssertionError):
            rows.move(claim, to, NOW)
        assert rows.claim("u") == claim
        return
    rows.move(claim, to, NOW + 7, "why not", decision={"a": {"b": 1}})
    assert rows.claim("u") == replace(
        claim, state=to, since=NOW + 7, why="why not", decision={"a": {"b": 1}}, owner="", until=0.0
    )


def test_a_new_claim_has_all_that_is_needed_to_release_it(tmp_path: Path) -> None:
    rows = journal(tmp_path)
    question = request("u", "a")
    claim = rows.begin(question, "", NOW + 9, NOW, 30.0)
    assert claim == Claim(
        uuid="u",
        key=question.key,
        service="seats",
        project="p",
        stack="s",
        stack_name="name-s",
        path="s/grant",
        replaces="",
        state="intent",
        since=NOW,
        decision={},
        expires=NOW + 9,
        owner=claim.owner,
        until=NOW + 30,
    )
    assert (journal(tmp_path).claims(), rows.claim("v")) == ((claim,), None)
    assert [path.name for path in tmp_path.iterdir()] == ["journal"]


def test_a_lease_is_one_workers_until_it_ends(tmp_path: Path) -> None:
    rows = journal(tmp_path)
    first = begun(rows)
    assert [rows.lease("u", NOW + 29, 30.0), rows.lease("v", NOW, 30.0)] == [None, None]
    second = rows.lease("u", NOW + 30, 30.0)
    assert second == replace(first, owner=second.owner if second else "", until=NOW + 60)
    with pytest.raises(LostError):
        rows.move(first, "reserved", NOW)
    with pytest.raises(LostError):
        rows.postpone(first, NOW)
    assert rows.claim("u") == second


def test_a_settled_claim_is_not_leased(tmp_path: Path) -> None:
    rows = journal(tmp_path)
    rows.move(begun(rows), "failed", NOW)
    assert rows.lease("u", NOW + 99, 30.0) is None
    assert (rows.give_back("u", NOW, "why"), rows.give_back("v", NOW, "why")) == (None, None)


@pytest.mark.parametrize(("at", "late"), [("intent", NOW + 65), ("reserved", 0.0), ("committed", 0.0)])
def test_what_is_given_back_keeps_its_lease_and_waits_for_what_may_arrive_late(
    tmp_path: Path, at: State, late: float
) -> None:
    rows = journal(tmp_path)
    begun(rows, lease=0.0)
    for state in PATHS[at]:
        rows.move(leased(rows), state, NOW)
    claim = leased(rows)
    expected = replace(claim, state="releasing", since=NOW + 5, why="gone", late=late)
    assert rows.give_back("u", NOW + 5, "gone", "failed") is None
    assert rows.give_back("u", NOW + 5, "gone") == expected
    assert rows.give_back("u", NOW + 6, "gone again") == expected == rows.claim("u")


def test_attempts_are_counted_with_what_they_met(tmp_path: Path) -> None:
    rows = journal(tmp_path)
    claim = begun(rows)
    rows.postpone(claim, NOW + 3, "down")
    assert rows.claim("u") == replace(claim, due=NOW + 3, attempts=1, problem="down", owner="", until=0.0)


def test_what_replaces_what_is_followed_as_far_as_it_is_not_over(tmp_path: Path) -> None:
    rows = journal(tmp_path)
    for uuid, old in (("1", "4"), ("2", "1"), ("3", "2"), ("4", "3")):  # a circle that somebody forged is none
        begun(rows, uuid, old)
    claims = {claim.uuid: claim for claim in rows.claims()}
    assert rows.replaced(claims["4"]) == (claims["3"], claims["2"], claims["1"])
    rows.move(claims["2"], "failed", NOW)
    assert rows.replaced(claims["4"]) == (claims["3"], claims["1"])


def test_a_journal_is_its_owners_and_of_one_version(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    begun(journal(tmp_path))
    assert S_IMODE(path.stat().st_mode) == 0o600
    with sqlite3.connect(path) as rows:
        assert rows.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        rows.execute("UPDATE datalog_gate_version SET version_num = '9'")
    with pytest.raises(JournalError) as error:
        journal(tmp_path)
    assert str(error.value) == (f"{path} has the revision 9, but this package needs 0001: install the one that made it")


def test_an_existing_empty_file_becomes_a_journal(tmp_path: Path) -> None:
    (tmp_path / "journal").touch(mode=0o660)
    begun(journal(tmp_path))
    assert [claim.state for claim in journal(tmp_path).claims()] == ["intent"]


def test_what_is_no_journal_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("no journal " * 1000)
    nowhere = rf"{tmp_path}/none/j can't be created: \[Errno 2\] No such file or directory: '{tmp_path}/none/j\..*"
    problems = {"folder": "folder: unable to open database file", "text": "text: file is not a database"}
    for name, problem in {**problems, "none/j": nowhere}.items():
        with pytest.raises(JournalError, match=f"^{problem}$"):
            Journal(str(tmp_path / name))


class Crash(BaseException):
    """The process died."""


SIZE, LATE, LEASE = 3, 60.0, 30.0
FATES = ("fine", "lost before", "lost after", "late", "crash before", "crash after", "crash late")
Fate = tuple[str, bool]
"""What becomes of the next call, and whether the service lies of its status then."""
FINE = ("fine", False)
FATE = st.tuples(st.sampled_from(FATES), st.booleans())


@dataclass
class Late:
    """A call that takes effect after its caller gave up, `until` this time at the latest."""

    effect: Callable[[], object]
    until: float


class Wild(Service):
    """A service of `SIZE` seats that forgets released keys, draws the fate of each call, and can lie about its
    status."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.seats_by_key: dict[str, frozenset[str]] = {}
        self.late: list[Late] = []
        self.fate, self.lie = "fine", False
        self._clock = clock

    def _call(self, effect: Callable[[], Decision]) -> Decision:
        fate, self.fate = self.fate, "fine"
        result = effect() if fate in ("fine", "lost after", "crash after") else {}
        if fate.endswith("late"):
            self.late.append(Late(effect, self._clock() + LATE))
        if fate.startswith("crash"):
            raise Crash
        if fate == "late":
            raise TimeoutError
        if fate != "fine":
            raise Unavailable("the answer was lost")
        return result

    def reserve(self, request: Request) -> Decision:
        def effect() -> Decision:
            mine = frozenset(part.id for part in request.scope)
            taken = frozenset().union(*self.seats_by_key.values())
            shared = frozenset().union(
                *(self.seats_by_key.get(key, frozenset()) for key in (request.key, *request.replaces))
            )
            if mine & taken - shared or len(taken | mine) > SIZE:
                raise RefusedError("no seat is left")
            self.seats_by_key[request.key] = mine
            return {seat: {} for seat in sorted(mine)}

        return self._call(effect)

    def commit(self, _held: Held) -> None:
        self._call(dict)

    def release(self, held: Held) -> None:
        def effect() -> Decision:
            self.seats_by_key.pop(held.key, None)
            return {}

        self._call(effect)

    def status(self, held: Held) -> Status:
        return "held" if (held.key in self.seats_by_key) != self.lie else "absent"


class Clouds(RuleBasedStateMachine):
    """Heat with a few stacks, each with the grants of its templates in order."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.now, self.number = NOW, 0
        self.service = Wild(lambda: self.now)
        self.journal = Journal(str(Path(self.folder.name) / "journal"), late=LATE)
        self.stacks: dict[str, list[str]] = {}
        self.status: dict[str, str] = {}
        self.requests: dict[str, Request] = {}
        self.restart()

    def restart(self) -> None:
        """Start a process in place of the dead one."""
        limits = Limits(5.0, 10.0, LEASE)
        self.broker = Broker(self.journal, {"seats": self.service}, lambda: self.now, time.monotonic, limits)

    def tried(self, fate: Fate, call: Callable[[], object]) -> bool:
        self.service.fate, self.service.lie = fate
        try:
            call()
        except PluginError:
            return False
        except Crash:
            self.restart()
            return False
        finally:
            self.service.fate, self.service.lie = "fine", False
        return True

    @rule(stack=st.sampled_from("st"), seats=st.sets(st.sampled_from("abc"), min_size=1), fate=FATE)
    def grant(self, stack: str, seats: set[str], fate: Fate) -> None:
        """Create or update a stack with a new grant."""
        self.number += 1
        uuid = f"u{self.number}"
        mine = self.stacks.setdefault(stack, [])
        self.status[stack] = "failed"
        self.requests[uuid] = request(uuid, *sorted(seats), stack=stack)
        if self.tried(fate, lambda: self.broker.reserve(self.requests[uuid], mine[-1] if mine else "")):
            mine.append(uuid)

    @precondition(lambda self: any(self.stacks.values()))
    @rule(data=st.data(), fate=FATE)
    def complete(self, data: st.DataObject, fate: Fate) -> None:
        """Keep the newest grant; Heat deletes the older ones."""
        stack = data.draw(st.sampled_from([name for name, mine in self.stacks.items() if mine]))
        *old, new = self.stacks[stack]
        self.stacks[stack], self.status[stack] = [new], "complete"
        for uuid in old:
            self.tried(fate, lambda uuid=uuid: self.broker.release(uuid))  # type: ignore[misc]
        self.tried(fate, lambda: self.broker.commit(new))

    @precondition(lambda self: any(len(mine) > 1 for mine in self.stacks.values()))
    @rule(data=st.data(), fate=FATE)
    def roll_back(self, data: st.DataObject, fate: Fate) -> None:
        """Keep the oldest grant; Heat deletes its replacements."""
        stack = data.draw(st.sampled_from([name for name, mine in self.stacks.items() if len(mine) > 1]))
        old, *new = self.stacks[stack]
        self.stacks[stack], self.status[stack] = [old], "complete"
        for uuid in reversed(new):
            self.tried(fate, lambda uuid=uuid: self.broker.release(uuid))  # type: ignore[misc]

    @precondition(lambda self: self.stacks)
    @rule(data=st.data(), fate=FATE)
    def delete(self, data: st.DataObject, fate: Fate) -> None:
        stack = data.draw(st.sampled_from(sorted(self.stacks)))
        for uuid in self.stacks.pop(stack):
            self.tried(fate, lambda uuid=uuid: self.broker.release(uuid))  # type: ignore[misc]

    @rule(seconds=st.sampled_from([1.0, 10.0, 31.0, 61.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.arrive(lambda late: late.until <= self.now)

    @rule()
    def arrive(self, select: Callable[[Late], bool] = lambda _: True) -> None:
        for late in [late for late in self.service.late if select(late)]:
            self.service.late.remove(late)
            self.tried(FINE, late.effect)

    @rule(fate=FATE)
    def reconcile(self, fate: Fate = FINE) -> None:
        self.tried(fate, lambda: reconcile(self.broker, self.became))

    def became(self, stack: str) -> StackState:
        if stack not in self.stacks:
            return StackState("absent")
        return StackState(self.status[stack], frozenset(self.stacks[stack]))  # type: ignore[arg-type]

    @invariant()
    def what_lives_is_held_and_no_seat_twice(self) -> None:
        if not hasattr(self, "stacks"):
            return
        for uuid in (uuid for mine in self.stacks.values() for uuid in mine):
            request = self.requests[uuid]
            assert self.service.seats_by_key[request.key] == {part.id for part in request.scope}
        assert len(frozenset().union(*self.service.seats_by_key.values())) <= SIZE

    def teardown(self) -> None:
        if not hasattr(self, "stacks"):
            return
        self.restart()
        for seconds in (LATE, LATE + LEASE, 7200.0):
            self.wait(seconds)
            self.reconcile()
        living = {self.requests[uuid].key for mine in self.stacks.values() for uuid in mine}
        assert self.service.seats_by_key.keys() == living
        assert {claim.key for claim in self.journal.claims()} == living
        self.folder.cleanup()


TestClouds = pytest.mark.sampled(Clouds.TestCase)
TestClouds.settings = settings(max_examples=sample(30), stateful_step_count=15)
