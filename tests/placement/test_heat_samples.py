"""The five templates of docs/grants.md in a real Heat.

Each runs in both engines behind the filter, is sent as its user would send it, and reads the decision of its service
where the guide says.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest
from heatclient.common import template_utils

from datalog_gate.services.approval import Approvals
from tests.heat.doors.templates import refusal
from tests.placement.placement_heat import SAMPLES, PlacementHeat

COMPLETE = ("CREATE_COMPLETE", "Stack CREATE completed successfully")
UPDATED = ("UPDATE_COMPLETE", "Stack UPDATE completed successfully")


def sample(name: str) -> dict[str, Any]:
    """What a client sends for the template."""
    files, template = template_utils.get_template_contents(str(SAMPLES / f"{name}.yaml"))
    return {"template": template, "files": files}


def test_a_server_and_its_volume_are_in_one_rack(behind: PlacementHeat) -> None:
    name, *ended = behind.built(**sample("same_rack"))
    assert tuple(ended) == COMPLETE
    assert [behind.properties(name, resource)["availability_zone"] for resource in ("db", "db_volume")] == ["z2", "z2"]
    assert behind.holdings == [("h2", 1), ("p2", 100)]


def test_a_group_of_servers_is_over_three_racks(behind: PlacementHeat) -> None:
    name, *ended = behind.built(**sample("spread"))
    assert tuple(ended) == COMPLETE
    decision = behind.attributes(name, "apart")["decision"]
    assert decision.keys() == {f"web.{at}.server" for at in range(6)}
    nested = behind.on(name, "GET", "/resources?nested_depth=2&with_detail=True").json()["resources"]
    zones = {
        resource["parent_resource"]: resource["attributes"]["given"]["availability_zone"]
        for resource in nested
        if resource["resource_name"] == "server"
    }
    assert zones == {str(at): decision[f"web.{at}.server"]["availability_zone"] for at in range(6)}
    assert set(zones.values()) == {"z1", "z2", "z3"}
    assert Counter(dict(behind.holdings)) == Counter(place["host"].partition("-")[0] for place in decision.values())


def test_a_database_takes_two_seats(behind: PlacementHeat) -> None:
    name, *ended = behind.built(**sample("licence"))
    assert tuple(ended) == COMPLETE
    assert behind.properties(name, "db")["metadata"] == {"licence": "acme_db"}
    assert behind.holdings == [("acme_db", 2)]
    with behind.unchanged():
        other, refused = behind.create(**sample("licence"))
        reason = (
            f"licence refuses the grant {other}/seats: the licence acme_db has 0 of 2 seats left, and 2 are asked for"
        )
        assert refusal(refused) == (403, reason)


def test_a_machine_is_made_once_a_person_approves_it(behind: PlacementHeat) -> None:
    name, *ended = behind.built(**sample("approval"))
    approvals = Approvals(str(behind.folder / "journal"))
    approval = approvals.list(time.time())[-1].name
    why = f"GrantError: resources.approved: the service approval refuses this: awaiting approval {approval}"
    assert tuple(ended) == ("CREATE_FAILED", f"Resource CREATE failed: {why}")
    assert behind.resources(name)["model"] == "INIT_COMPLETE"
    approvals.say(approval, "approved", "ann", "", time.time())
    assert behind.updated(name, **sample("approval")) == UPDATED
    assert behind.outputs(name) == {"approved_by": "ann"}
    assert behind.resources(name)["model"] == "CREATE_COMPLETE"


def test_a_public_address_has_a_place_at_the_edge(behind: PlacementHeat) -> None:
    name, *ended = behind.built(**sample("edge"))
    assert tuple(ended) == COMPLETE
    assert behind.outputs(name) == {"place": 1}


DENIED = {
    "licence": "grants.licence: db uses the image acme_db, but no licence is granted for it at resources.db",
    "approval": (
        "grants.approval: model uses the flavor r1.large, which a person has to approve at "
        "resources.model.properties.flavor"
    ),
    "edge": (
        "net.floating_ip: address needs a public address, but the service edge is not unlocked for it at "
        "resources.address"
    ),
}


@pytest.mark.parametrize("name", DENIED)
def test_what_is_not_in_the_scope_of_the_grant_is_refused(behind: PlacementHeat, name: str) -> None:
    sent = sample(name)
    for resource in sent["template"]["resources"].values():
        if resource["type"] == "DatalogGate::Policy":
            resource["properties"]["scope"] = ["port"]
    with behind.unchanged():
        _, refused = behind.create(**sent)
        hint = f"add a resource of type DatalogGate::Policy with service: {name} and this resource in its scope"
        reason = f"The policies deny this stack: {DENIED[name]} ({hint})"
        assert refusal(refused) == (403, reason)
