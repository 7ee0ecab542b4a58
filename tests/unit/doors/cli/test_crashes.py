"""A process killed at any transition of the journal leaves no leak.

It is killed before the transition is written and after. Once Heat's API has been asked over HTTP, the service holds
what the living stack holds.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.engine import Connection

from datalog_gate.doors.cli.heat_client import HeatClient as Client
from datalog_gate.doors.cli.heat_client import HeatStacks
from datalog_gate.plugins.plugin_errors import RefusedError
from datalog_gate.services.broker import Broker
from datalog_gate.services.journal import Journal
from datalog_gate.services.reconcile import reconcile
from datalog_gate.store.tables import journal as table
from tests.ledger import LIMITS, Heat, Seats, request
from tests.scripted_cloud import Cloud, without_keystone

STACK = "s"
SEATS = {"u1": ("a", "b"), "no": ("a",), "u2": ("b", "c"), "u3": ("b", "c")}
"""What each grant asks: the second takes what is taken, each other one replaces the one before."""
TRANSITIONS = (
    "u1 intent",
    "u1 reserved",
    "u1 committed",
    "no intent",
    "no failed",
    "u2 intent",
    "u2 reserved",
    "u1 releasing",
    "u1 released",
    "u2 committed",
    "u3 intent",
    "u3 reserved",
    "u2 releasing, u3 committed",
    "u2 released",
    "u3 releasing",
    "u3 released",
)


class Deadly(Journal):
    """A journal that kills its process at a transition: ``u1 reserved before`` it is written, or ``after``. If only the
    moment is named, at the first transition."""

    def __init__(self, store: str, deadly: str) -> None:
        self._deadly, self.states = deadly, list[str]()
        super().__init__(store, late=60.0)
        run = self.store.run

        def watched(lock: str | None, work: Callable[[Connection], Any], reads: bool = False) -> Any:
            changed, result = run(lock, lambda rows: self._watch(rows, work), reads)
            self._die(changed, "after")
            return result

        self.store.run = watched  # type: ignore[method-assign]

    def _watch(self, rows: Connection, work: Callable[[Connection], Any]) -> tuple[str, Any]:
        before = _states(rows)
        result = work(rows)
        changed = ", ".join(" ".join(state) for state in sorted(_states(rows) - before))
        self._die(changed, "before")
        return changed, result

    def _die(self, changed: str, moment: str) -> None:
        if changed and self._deadly in (f"{changed} {moment}", moment):
            os.kill(os.getpid(), signal.SIGKILL)
        if changed and moment == "after":
            self.states.append(changed)


def _states(rows: Connection) -> set[tuple[str, str]]:
    return {(uuid, state) for uuid, state in rows.execute(select(table.c.uuid, table.c.state))}


def worker(folder: Path, deadly: str = "", ahead: float = 0.0) -> Broker:
    """A process with the journal of the folder, or with the store whose URL is in its file `url`."""
    url = folder / "url"
    journal = Deadly(url.read_text() if url.exists() else str(folder / "journal"), deadly)
    clock: Callable[[], float] = lambda: time.time() + ahead  # noqa: E731
    return Broker(journal, {"seats": Seats(folder / "seats")}, clock, time.monotonic, LIMITS)


def live(folder: Path, deadly: str = "") -> list[str]:
    """The life of a stack, as an engine leads it; the transitions of the journal."""
    now, heat = worker(folder, deadly), Heat(folder / "heat")
    now.reserve(request("u1", *SEATS["u1"]))
    heat.say("made", "u1", STACK)
    now.commit("u1")
    with suppress(RefusedError):
        now.reserve(request("no", *SEATS["no"]))
    now.reserve(request("u2", *SEATS["u2"]), replaces="u1")
    heat.say("made", "u2", STACK)
    heat.say("deleting", "u1", STACK)
    now.release("u1")
    now.commit("u2")
    now.reserve(request("u3", *SEATS["u3"]), replaces="u2")
    heat.say("made", "u3", STACK)
    heat.say("deleting", "u2", STACK)  # whose release was not heard of
    now.commit("u3")
    now.release("u2")
    heat.say("deleting", "u3", STACK)
    now.release("u3")
    assert isinstance(now.journal, Deadly)
    return now.journal.states


def dies(work: Callable[[], object]) -> bool:
    """Run the work in a process of its own and return whether it was killed."""
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A Heat's API, with its address in the environment."""
    with without_keystone(monkeypatch, "p") as server:
        yield server


def tell(cloud: Cloud, folder: Path) -> set[str]:
    """Script what Heat's API says of the living resources."""
    stacks = Heat(folder / "heat").living()
    living = stacks.get(STACK, set())
    status = "UPDATE_COMPLETE" if living else "DELETE_COMPLETE" if stacks else "CREATE_FAILED"
    cloud.give(f"GET /v1/p/stacks/{STACK}?resolve_outputs=False",
               {"stack": {"stack_name": "web", "id": STACK, "stack_status": status}})  # fmt: skip
    listed = f"GET /v1/p/stacks/web/{STACK}/resources"
    cloud.give(listed, {"resources": [{"physical_resource_id": uuid} for uuid in sorted(living)]})
    for uuid in SEATS:
        cloud.give(f"{listed}?physical_resource_id={uuid}", {"resources": []})
    return living


def settle(folder: Path, ahead: float, deadly: str = "") -> list[str]:
    """Reconcile after a time."""
    now = worker(folder, deadly, ahead)
    return [f"{claim.uuid} {claim.done}" for claim in reconcile(now, HeatStacks(Client(), now.journal, "aio"))]


def test_the_life_of_a_stack_has_each_transition(tmp_path: Path) -> None:
    assert (tuple(live(tmp_path)), Seats(tmp_path / "seats").holdings()) == (TRANSITIONS, {})


SLOWLY = [pytest.param(moment, marks=pytest.mark.slow) for moment in ("before", "after")]


@pytest.mark.parametrize("settling", ["", *SLOWLY])
@pytest.mark.parametrize("moment", ["before", SLOWLY[1]])
@pytest.mark.parametrize(
    "transition",
    [pytest.param(name, marks=[pytest.mark.slow] * (at % 4 > 0)) for at, name in enumerate(TRANSITIONS)],
)
def test_what_a_killed_process_left_is_settled_also_if_the_reconciler_is_killed(
    cloud: Cloud, tmp_path: Path, transition: str, moment: str, settling: str
) -> None:
    check_settled(cloud, tmp_path, f"{transition} {moment}", settling)


def check_settled(cloud: Cloud, folder: Path, deadly: str, settling: str = "") -> None:
    """Kill a process, and the reconciler after it, and check what the service holds in the end."""
    assert dies(lambda: live(folder, deadly))
    living = tell(cloud, folder)
    if settling:
        dies(lambda: settle(folder, 60.0, settling))
    for ahead in (120.0, 240.0, 4000.0):
        settle(folder, ahead)
    keys = {request(uuid, *seats).key: uuid for uuid, seats in SEATS.items()}
    assert {keys[key] for key in Seats(folder / "seats").holdings()} == living
    assert settle(folder, 8000.0) == []
