"""Grants in a real Heat, in both engines: reserve, refuse, release."""

from __future__ import annotations

from tests.heat.doors.grant_heat import GrantHeat, failing, grant, place, value
from tests.heat.doors.rig import wait
from tests.heat.doors.templates import string, template


def test_a_grant_is_reserved_before_its_scope_is_created_and_has_the_decision(here: GrantHeat) -> None:
    name = here.created(template(g=grant(scope=["s"]), s=string(), v=value(place("s"))))
    [claim] = here.claims()
    assert (claim.path, claim.state, claim.decision) == (f"{name}/g", "reserved", {"s": {"place": 1}})
    resource = here.on(name, "GET", "/resources/g").json()["resource"]
    assert (resource["physical_resource_id"], resource["attributes"]) == (claim.uuid, {"decision": claim.decision})
    assert here.on(name, "GET", "/resources/v").json()["resource"]["attributes"] == {"value": 1}
    events = here.events(name)
    assert events.index(("g", "CREATE_COMPLETE")) < events.index(("s", "CREATE_IN_PROGRESS"))


def test_a_refusal_fails_the_stack_with_the_reason_before_anything_in_scope_is_made(here: GrantHeat) -> None:
    name, _ = here.create(template(g=grant(), a=string(), b=string(), c=string()))
    why = "GrantError: resources.g: the service edge refuses this: the edge has 2 places left, and 3 are asked for"
    status, reason = here.ended(name)
    assert (status, reason.removeprefix("Resource CREATE failed: ")) == ("CREATE_FAILED", why)
    assert here.resources(name) == {"g": "CREATE_FAILED"} | dict.fromkeys("abc", "INIT_COMPLETE")
    assert here.claims() == []


def test_a_creation_that_is_rolled_back_gives_back_what_its_grant_holds(here: GrantHeat) -> None:
    failing = {"type": "OS::Heat::TestResource", "properties": {"fail": True, "value": place("f")}}
    name, _ = here.create(template(g=grant("trial", ["f"]), f=failing), disable_rollback=False)
    wait(lambda: here.ended(name)[0] in ("ROLLBACK_COMPLETE", "DELETE_COMPLETE", ""))  # it is CREATE_FAILED before
    assert (here.holdings(), here.claims()) == ([], [])


def test_an_update_replaces_the_grant_and_keeps_the_last_place(here: GrantHeat) -> None:
    first = template(g=grant(scope=["a", "b"]), a=string(), b=string())
    name = here.created(first)
    [old] = here.claims()
    status = here.updated(name, template(g=grant(scope=["a", "b"], options={"by": "day"}), a=string(), b=string()))
    assert status[0] == "UPDATE_COMPLETE"
    [new] = here.claims()
    assert (new.state, new.replaces, new.decision) == ("reserved", old.uuid, old.decision)


def test_an_update_that_is_refused_leaves_the_claim_of_before_and_touches_nothing_in_scope(here: GrantHeat) -> None:
    name = here.created(template(g=grant(scope=["a", "b"]), a=string(), b=string()))
    [old] = here.claims()
    before = here.events(name)
    more = template(g=grant(), a=string(), b=string(9), c=string())
    status, why = here.updated(name, more)
    refused = "the service edge refuses this: the edge has 0 places left, and 1 are asked for"
    assert (status, refused in why, here.claims()) == ("UPDATE_FAILED", True, [old])
    assert {resource for resource, _ in here.events(name)[len(before) :]} <= {"g", name}


def test_a_rollback_needs_no_call_and_leaves_the_claim_of_before(here: GrantHeat) -> None:
    first = template(g=grant("trial", ["a"]), a=string())
    name = here.created(first)
    [old] = here.claims()
    here.behave("refuse")
    answer = here.on(name, "PUT", template=template(g=grant("trial"), a=string(), b=string()), disable_rollback=False)
    assert answer.status_code == 202
    wait(lambda: here.ended(name)[0] == "ROLLBACK_COMPLETE")
    assert (here.claims(), here.holdings()) == ([old], [old.key])
    assert here.resources(name)["g"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE")


def test_a_rollback_asks_again_for_a_grant_that_the_update_had_removed(here: GrantHeat) -> None:
    name = here.created(template(g=grant("trial", ["a"]), a=string()))
    [old] = here.claims()
    fails = template(a=string(), f=failing("b", fail=True, wait_secs=2))
    assert here.on(name, "PUT", template=fails, disable_rollback=False).status_code == 202
    wait(lambda: here.ended(name)[0] == "ROLLBACK_COMPLETE")
    [new] = here.claims()
    assert (new.uuid != old.uuid, new.state, here.holdings()) == (True, "reserved", [new.key])
    assert here.resources(name) == {"g": "CREATE_COMPLETE", "a": "CREATE_COMPLETE"}


def test_what_comes_into_scope_is_asked_for_though_the_grant_is_written_the_same(here: GrantHeat) -> None:
    name = here.created(template(g=grant(), a=string()))
    [old] = here.claims()
    assert here.updated(name, template(g=grant(), a=string(), b=value(place("b"))))[0] == "UPDATE_COMPLETE"
    [new] = here.claims()
    assert (new.replaces, new.decision) == (old.uuid, {"a": {"place": 1}, "b": {"place": 2}})
    assert here.updated(name, template(g=grant(), a=string(), b=value(place("b"))))[0] == "UPDATE_COMPLETE"
    assert here.claims() == [new]


def test_a_grant_that_is_removed_alone_is_given_back(here: GrantHeat) -> None:
    name = here.created(template(g=grant("trial", ["a"]), a=string()))
    assert here.updated(name, template(a=string()))[0] == "UPDATE_COMPLETE"
    assert (here.claims(), here.holdings(), here.resources(name)) == ([], [], {"a": "CREATE_COMPLETE"})


def test_a_refused_grant_is_asked_for_again_and_not_taken_for_granted(here: GrantHeat) -> None:
    here.behave("refuse")
    body = template(g=grant("trial", ["a"]), a=string())
    name, status, why = here.built(body)
    assert (status, why.removeprefix("Resource CREATE failed: ")) == (
        "CREATE_FAILED",
        "GrantError: resources.g: the service trial refuses this: there is no ? place for you",
    )
    assert here.updated(name, body)[0] == "UPDATE_FAILED"
    here.behave("kindly")
    assert here.updated(name, body)[0] == "UPDATE_COMPLETE"
    assert here.states() == [("g", "reserved")]
    assert here.resources(name)["a"] == "CREATE_COMPLETE"


def test_a_change_of_expires_alone_asks_no_service(here: GrantHeat) -> None:
    name = here.created(template(g=grant("trial", ["a"], expires="2100-01-01"), a=string()))
    [old] = here.claims()
    assert old.expires == 4102444800.0
    here.behave("refuse")
    assert (
        here.updated(name, template(g=grant("trial", ["a"], expires="2101-01-01"), a=string()))[0] == "UPDATE_COMPLETE"
    )
    [new] = here.claims()
    assert (new.uuid, new.expires) == (old.uuid, 4133980800.0)
    status, why = here.updated(name, template(g=grant("trial", ["a"], expires="2001-01-01"), a=string()))
    assert (status, "/g does not unlock trial: expired 2001-01-01" in why) == ("UPDATE_FAILED", True)
    assert here.claims() == [new]
