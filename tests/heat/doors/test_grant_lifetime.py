"""Grants after failed updates, and in abandoned and adopted stacks."""

from __future__ import annotations

import json
from datetime import datetime

from datalog_gate.services.reconcile import reconcile
from tests.heat.doors.grant_heat import GrantHeat, failing, grant
from tests.heat.doors.rig import wait
from tests.heat.doors.templates import adopted, adoption, string, template
from tests.heat.doors.test_grant_faults import find_states, settled


def test_a_failed_update_keeps_both_claims_and_the_next_one_ends_with_one(here: GrantHeat) -> None:
    name = here.created(template(g=grant("trial", ["s"]), s=failing("a")))
    [old] = here.claims()
    fails = template(g=grant("trial", ["s"], options={"by": "day"}), s=failing("b", fail=True))
    assert here.updated(name, fails)[0] == "UPDATE_FAILED"
    claims = here.claims()
    assert [(claim.state, claim.replaces) for claim in claims] == [("reserved", ""), ("reserved", old.uuid)]
    uuids = {
        resource["physical_resource_id"]
        for resource in here.on(name, "GET", "/resources?nested_depth=5").json()["resources"]
    }
    assert [claim.uuid in uuids for claim in claims] == [False, True]  # Heat does not show what it has replaced
    reconcile(here.broker, find_states(here))
    assert here.claims() == claims
    last = template(g=grant("trial", ["s"], options={"by": "night"}), s=failing("c"))
    assert here.updated(name, last)[0] == "UPDATE_COMPLETE"
    [new] = here.claims()
    assert (new.state, here.holdings()) == ("reserved", [new.key])
    settled(here, [new.key])


def test_what_an_adopted_stack_says_of_its_grant_is_not_believed(here: GrantHeat) -> None:
    name = here.name()
    grant_data = {"decision": '{"s": {"place": 9}}'}
    forged = {
        "g": adopted("DatalogGate::Policy", resource_id="forged", resource_data=grant_data),
        "s": adopted("OS::Heat::RandomString", resource_id="s", resource_data={"value": "s"}),
    }
    answer = here.ask("POST", "stacks", **adoption(name, template(g=grant("trial"), s=string()), forged))
    assert answer.status_code == 201, answer.text
    assert here.ended(name)[0] == "ADOPT_COMPLETE"
    [claim] = here.claims()
    resource = here.on(name, "GET", "/resources/g").json()["resource"]
    assert (resource["physical_resource_id"], resource["attributes"]) == (claim.uuid, {"decision": {"s": {"place": 0}}})


def test_a_stack_that_was_abandoned_and_is_adopted_keeps_its_places(here: GrantHeat) -> None:
    body = template(g=grant(scope=["a", "b"]), a=string(), b=string())
    name = here.created(body)
    [old] = here.claims()
    here.journal.abandon(here.stack(name)["id"], old.project, name)
    data = here.on(name, "DELETE", "/abandon").json()
    here.ended(name, deleted=True)
    assert [claim.uuid for claim in here.claims()] == [old.uuid]
    answer = here.ask("POST", "stacks", stack_name=name, adopt_stack_data=json.dumps(data), timeout_mins=5)
    assert (answer.status_code, here.ended(name)[0]) == (201, "ADOPT_COMPLETE")
    new = next(claim for claim in here.claims() if claim.uuid != old.uuid)
    assert (new.replaces, new.decision) == (old.uuid, old.decision)
    wait(lambda: bool(reconcile(here.broker, find_states(here)) is not None and here.states() == [("g", "committed")]))


def test_an_adopted_stack_is_refused_as_any_other(here: GrantHeat) -> None:
    here.behave("refuse")
    name = here.name()
    resources = {"g": adopted("DatalogGate::Policy"), "s": adopted("OS::Heat::RandomString")}
    here.ask("POST", "stacks", **adoption(name, template(g=grant("trial"), s=string()), resources))
    assert here.ended(name)[0] == "ADOPT_FAILED"
    assert here.states() == []


def test_what_has_expired_is_released_and_asked_for_again_once_the_time_is_later(here: GrantHeat) -> None:
    past = "2026-01-01T00:00:00+00:00"
    name = here.created(template(g=grant("trial"), s=string()))
    [old] = here.claims()
    here.journal.expire(old.uuid, datetime.fromisoformat(past).timestamp())
    wait(lambda: bool(reconcile(here.broker, find_states(here)) is not None and not here.holdings()))
    status, why = here.updated(name, template(g=grant("trial", expires=past), s=string(9)))
    assert (status, f"/g does not unlock trial: expired {past}" in why) == ("UPDATE_FAILED", True)
    assert here.updated(name, template(g=grant("trial", expires="2100-01-01"), s=string()))[0] == "UPDATE_COMPLETE"
    [new] = here.claims()
    assert (new.state, new.uuid != old.uuid, new.expires) == ("reserved", True, 4102444800.0)
