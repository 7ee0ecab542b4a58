"""Services that misbehave, in both engines of a real Heat.

The time is bounded, the stack says why, nothing leaks.
"""

from __future__ import annotations

import pytest

from datalog_gate.doors.cli.heat_client import HeatClient as Client
from datalog_gate.doors.cli.heat_client import HeatStacks
from datalog_gate.services.reconcile import FindStack, reconcile
from tests.heat.doors.grant_heat import GrantHeat, failing, grant, run_grant_heat
from tests.heat.doors.rig import started, wait
from tests.heat.doors.templates import string, template

pytestmark = pytest.mark.real_time
BODY = template(g=grant("trial", ["s"]), s=string())
REASONS = {
    "refuse": "the service trial refuses this: there is no ? place for you",
    "hang": "the service trial does not answer this: did not answer within 1 seconds",
    "broken": "the service trial does not answer this: is broken (ConnectionError)",
    "late": "the service trial does not answer this: did not answer within 1 seconds",
}


@pytest.mark.parametrize("how", REASONS)
def test_a_service_that_fails_fails_the_stack_and_holds_nothing_in_the_end(here: GrantHeat, how: str) -> None:
    here.behave(how)
    name, status, why = here.built(BODY)
    assert (status, why.removeprefix("Resource CREATE failed: ")) == (
        "CREATE_FAILED",
        f"GrantError: resources.g: {REASONS[how]}",
    )
    assert here.resources(name)["s"] == "INIT_COMPLETE"
    here.behave("kindly")
    if how == "late":
        wait(here.holdings)
    settled(here)


def test_a_service_that_holds_twice_or_lies_leaks_nothing(here: GrantHeat) -> None:
    here.behave("twice")
    name = here.created(BODY)
    assert len(here.holdings()) == 2
    here.behave("lie")
    here.delete(name)
    assert here.states() == [("g", "releasing")]  # it said that it still holds what it has released
    here.behave("kindly")
    settled(here)


def test_a_stack_goes_though_its_service_is_down_and_is_released_later(here: GrantHeat) -> None:
    name = here.created(BODY)
    here.behave("down")
    here.delete(name)
    assert (here.states(), len(here.holdings())) == ([("g", "releasing")], 1)
    here.behave("kindly")
    settled(here)


def test_a_stack_goes_though_the_journal_can_not_be_read_and_is_released_later(here: GrantHeat) -> None:
    name = here.created(BODY)
    journal, kept = here.folder / "journal", here.folder / "kept"
    journal.rename(kept)
    journal.write_text("no database" * 99)
    here.delete(name)
    unreadable = "GrantError: resources.g: the grant could not be judged: journal: file is not a database"
    status, why = here.built(BODY)[1:]
    assert (status, why.removeprefix("Resource CREATE failed: ")) == ("CREATE_FAILED", unreadable)
    kept.replace(journal)
    assert (here.states(), len(here.holdings())) == ([("g", "reserved")], 1)
    settled(here)


def test_a_rollback_goes_through_though_the_service_is_down(here: GrantHeat) -> None:
    name = here.created(template(g=grant("trial", ["s"]), s=failing("a")))
    [old] = here.claims()
    more = template(g=grant("trial", ["s"], options={"by": "day"}), s=failing("b", fail=True, wait_secs=3))
    here.on(name, "PUT", template=more, disable_rollback=False)
    wait(lambda: len(here.holdings()) == 2)
    here.behave("down")
    wait(lambda: here.ended(name)[0] == "ROLLBACK_COMPLETE")
    assert {claim.uuid == old.uuid: claim.state for claim in here.claims()} == {True: "reserved", False: "releasing"}
    here.behave("kindly")
    settled(here, [old.key])


def test_a_rollback_asks_again_where_heat_has_deleted_the_grant_of_before(here: GrantHeat) -> None:
    name = here.created(BODY)
    [old] = here.claims()
    more = template(g=grant("trial"), s=string(), new=failing("b", fail=True, wait_secs=3))
    here.on(name, "PUT", template=more, disable_rollback=False)
    wait(lambda: here.ended(name)[0] == "ROLLBACK_COMPLETE")
    [now] = here.claims()
    assert (now.state, now.decision, here.holdings()) == ("reserved", old.decision, [now.key])


def test_without_a_grant_no_service_is_called(here: GrantHeat) -> None:
    before = here.calls()
    name = here.created(template(s=string()))
    assert here.updated(name, template(s=string(9)))[0] == "UPDATE_COMPLETE"
    here.delete(name)
    assert here.calls() == before
    here.created(BODY)
    assert here.calls() == [*before, "reserve"]


def test_an_engine_that_is_killed_leaves_what_living_stacks_hold(tmp_path_factory: pytest.TempPathFactory) -> None:
    for convergence in (True, False):
        folder = tmp_path_factory.mktemp("killed")
        with run_grant_heat(folder, convergence) as here:
            here.created(BODY)
            [new_claim] = here.claims()
            (folder / "behave").write_text("slow")
            here.create(BODY)
            wait(lambda: len(here.holdings()) == 2)  # noqa: B023 - called at once
            ports = [int(url.rpartition(":")[2]) for url in (here.url, here.cfn_url)]
        with started(folder, *ports) as again:
            here = GrantHeat(**vars(again))
            here.behave("kindly")
            settled(here, [new_claim.key])
            assert [(claim.uuid, claim.state) for claim in here.claims()] == [(new_claim.uuid, "committed")]


def settled(here: GrantHeat, expected: list[str] | None = None) -> None:
    """Reconcile until nothing is open any more and the service holds these."""

    def over() -> bool:
        reconcile(here.broker, find_states(here))
        return here.holdings() == (expected or []) and all(claim.state == "committed" for claim in here.claims())

    wait(over, lambda: f"{here.claims()}, {here.holdings()}")


def find_states(here: GrantHeat) -> FindStack:
    """What the reconciler learns of Heat."""
    with pytest.MonkeyPatch.context() as patch:
        here.login(patch)
        return HeatStacks(Client(), here.journal, "aio")
