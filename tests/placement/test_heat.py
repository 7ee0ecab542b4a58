"""Grants with claims in a real Placement, in both engines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.heat.doors.grant_heat import grant
from tests.heat.doors.rig import wait
from tests.heat.doors.templates import refusal, template
from tests.placement.placement_heat import PlacementHeat

FULL = "the licence acme_db has 0 of 2 seats left, and 1 is asked for"
COMPLETE = "Stack CREATE completed successfully"
GROUP = {"security_groups": ["internal"]}


def server(decision: object = None, image: str = "acme_db-14", **more: object) -> dict[str, Any]:
    """A server that keeps in its metadata what it was decided."""
    properties = {"image": image, "flavor": "m1.small", "metadata": {"decision": decision}, **GROUP, **more}
    return {"type": "OS::Nova::Server", "properties": properties}


def decided(resource: str, *path: str) -> dict[str, Any]:
    return {"get_attr": ["g", "decision", resource, *path]}


def licensed(*scope: str, seats: int = 1, **more: Any) -> dict[str, Any]:
    """A template with so many seats for these servers."""
    policy = grant("licence", list(scope), options={"name": "acme_db", "seats": seats})
    return template(g=policy, **{name: server(decided(name)) for name in scope}, **more)


def failed(why: str, service: str = "licence") -> tuple[str, str]:
    """How a creation ends that is refused."""
    reason = f"Resource CREATE failed: GrantError: resources.g: the service {service} refuses this: {why}"
    return "CREATE_FAILED", reason


def test_of_two_seats_two_stacks_are_made_and_the_third_fails_until_one_is_gone(here: PlacementHeat) -> None:
    names = []
    for seats in ([1], [1, 1]):
        name, *ended = here.built(licensed("db"))
        assert (ended, here.holdings) == (["CREATE_COMPLETE", COMPLETE], [("acme_db", count) for count in seats])
        assert here.properties(name, "db")["metadata"] == {"decision": {"licence": "acme_db", "seats": 1}}
        names.append(name)
    third, *ended = here.built(licensed("db"))
    assert tuple(ended) == failed(FULL)
    assert here.resources(third) == {"g": "CREATE_FAILED", "db": "INIT_COMPLETE"}
    assert here.holdings == [("acme_db", 1)] * 2
    here.delete(names[0])
    assert here.holdings == [("acme_db", 1)]
    assert here.built(licensed("db"))[1:] == ("CREATE_COMPLETE", COMPLETE)
    assert here.holdings == [("acme_db", 1)] * 2


@pytest.mark.parametrize("filtered", [False, True])
def test_the_last_seats_survive_a_replacing_update_and_a_rollback(
    here: PlacementHeat, behind: PlacementHeat, filtered: bool
) -> None:
    heat = behind if filtered else here
    name, *ended = heat.built(licensed("db", seats=2))
    assert ended == ["CREATE_COMPLETE", COMPLETE]
    [old] = heat.claims
    with heat.watched() as holdings:
        assert heat.updated(name, licensed("db", "web", seats=2))[0] == "UPDATE_COMPLETE"
        [new] = heat.claims
        assert (new.replaces, sorted(new.decision)) == (old.uuid, ["db", "web"])
        fails = licensed("db", "web", "cache", seats=2, broken=server(image="broken"))
        heat.updated(name, fails, disable_rollback=False)
        wait(lambda: heat.ended(name)[0] == "ROLLBACK_COMPLETE")
    assert {tuple(holding) for holding in holdings} == {(("acme_db", 2),)}
    [last] = heat.claims
    assert heat.attributes(name, "g") == {"decision": last.decision} == {"decision": new.decision}
    assert heat.resources(name).keys() == {"g", "db", "web"}


def racked(zone: object = None) -> dict[str, Any]:
    """A server and its volume in one rack, where that is decided on if no zone is given."""
    zone = zone or decided("db", "availability_zone")
    volume = {"size": 10, "availability_zone": decided("data", "availability_zone")}
    return template(
        g=grant("rack_affinity", ["db", "data"], options={"same": "rack"}),
        db=server(image="debian-12", availability_zone=zone, scheduler_hints=decided("db", "scheduler_hints")),
        data={"type": "OS::Cinder::Volume", "properties": volume},
    )


IMPOSSIBLE = (
    "these are not possible together: same: rack of grant {0}/g over {0}/data, {0}/db; the zone z1 of {0}/db; "
    "rack r1 has no storage pool with free capacity"
)
"""Any rack but the first is in another zone."""


def test_what_is_impossible_fails_with_what_can_not_be_had_together(here: PlacementHeat) -> None:
    name, *ended = here.built(racked("z1"))
    assert tuple(ended) == failed(IMPOSSIBLE.format(name), "rack_affinity")
    assert here.resources(name) == {"g": "CREATE_FAILED"} | dict.fromkeys(("db", "data"), "INIT_COMPLETE")
    assert (here.holdings, here.claims) == ([], ())


def test_what_is_impossible_is_refused_at_the_door(behind: PlacementHeat) -> None:
    name = behind.name()
    with behind.unchanged():
        _, answer = behind.create(racked("z1"), name)
    assert refusal(answer) == (403, f"rack_affinity refuses the grant {name}/g: {IMPOSSIBLE.format(name)}")
    assert (behind.holdings, behind.claims) == ([], ())
