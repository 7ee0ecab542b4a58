"""The five templates of docs/grants.md in a real Heat.

Each runs in both engines behind the filter, is sent as its user would send it, and reads the decision of its service
where the guide says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from heatclient.common import template_utils

from datalog_gate.doors.cli.commands.services import find_user
from tests.commands import run
from tests.heat.doors.templates import refusal
from tests.placement.placement_heat import SAMPLES, PlacementHeat, delete_stacks, run_placement_heat
from tests.placement.rig import Cloud

COMPLETE = ("CREATE_COMPLETE", "Stack CREATE completed successfully")
UPDATED = ("UPDATE_COMPLETE", "Stack UPDATE completed successfully")


@pytest.fixture(scope="module", params=["convergence", "legacy"])
def filtering(
    request: pytest.FixtureRequest, cloud: Cloud, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PlacementHeat]:
    """Heat with the services, behind the gate's filter."""
    folder, convergence = tmp_path_factory.mktemp(request.param), request.param == "convergence"
    with run_placement_heat(folder, cloud, convergence, filtered=True) as heat:
        yield heat


@pytest.fixture
def here(filtering: PlacementHeat) -> Iterator[PlacementHeat]:
    yield filtering
    delete_stacks(filtering)


def sample(name: str) -> dict[str, Any]:
    """What a client sends for the template."""
    files, template = template_utils.get_template_contents(str(SAMPLES / f"{name}.yaml"))
    return {"template": template, "files": files}


def test_a_server_and_its_volume_are_in_one_rack(here: PlacementHeat) -> None:
    name, *ended = here.built(**sample("same_rack"))
    assert tuple(ended) == COMPLETE
    assert [here.properties(name, resource)["availability_zone"] for resource in ("db", "db_volume")] == ["z2", "z2"]
    assert here.holdings == [("h2", 1), ("p2", 100)]


def test_a_group_of_servers_is_over_three_racks(here: PlacementHeat) -> None:
    name, *ended = here.built(**sample("spread"))
    assert tuple(ended) == COMPLETE
    decision = here.attributes(name, "apart")["decision"]
    assert decision.keys() == {f"web.{at}.server" for at in range(6)}
    nested = here.on(name, "GET", "/resources?nested_depth=2&with_detail=True").json()["resources"]
    zones = {
        resource["parent_resource"]: resource["attributes"]["given"]["availability_zone"]
        for resource in nested
        if resource["resource_name"] == "server"
    }
    assert zones == {str(at): decision[f"web.{at}.server"]["availability_zone"] for at in range(6)}
    assert set(zones.values()) == {"z1", "z2", "z3"}
    assert Counter(dict(here.holdings)) == Counter(place["host"].partition("-")[0] for place in decision.values())


def test_a_database_takes_two_seats(here: PlacementHeat) -> None:
    name, *ended = here.built(**sample("licence"))
    assert tuple(ended) == COMPLETE
    assert here.properties(name, "db")["metadata"] == {"licence": "acme_db"}
    assert here.holdings == [("acme_db", 2)]
    with here.unchanged():
        other, refused = here.create(**sample("licence"))
        reason = (
            f"licence refuses the grant {other}/seats: the licence acme_db has 0 of 2 seats left, and 2 are asked for"
        )
        assert refusal(refused) == (403, reason)


def test_a_machine_is_made_once_a_person_approves_it(here: PlacementHeat, capsys: pytest.CaptureFixture[str]) -> None:
    name, *ended = here.built(**sample("approval"))
    configured = here.folder / "heat.conf"
    approval = run(capsys, "approval", "list", "--heat-conf", configured)[1].split()[0]
    why = f"GrantError: resources.approved: the service approval refuses this: awaiting approval {approval}"
    assert tuple(ended) == ("CREATE_FAILED", f"Resource CREATE failed: {why}")
    assert here.resources(name)["model"] == "INIT_COMPLETE"
    run(capsys, "approval", "approve", approval, "--heat-conf", configured)
    assert here.updated(name, **sample("approval")) == UPDATED
    assert here.outputs(name) == {"approved_by": find_user()}
    assert here.resources(name)["model"] == "CREATE_COMPLETE"


def test_a_public_address_has_a_place_at_the_edge(here: PlacementHeat) -> None:
    name, *ended = here.built(**sample("edge"))
    assert tuple(ended) == COMPLETE
    assert here.outputs(name) == {"place": 1}


DENIED = {
    "licence": "grants.licence: db runs acme_db, and no licence is granted for it at {}/db",
    "approval": "grants.approval: model takes r1.large, which a person has to approve at {}/model",
    "edge": (
        "net.floating_ip: address needs a public address, but the service edge is not unlocked for it at {}/address"
    ),
}


@pytest.mark.parametrize("name", DENIED)
def test_what_is_not_in_the_scope_of_the_grant_is_refused(here: PlacementHeat, name: str) -> None:
    sent = sample(name)
    for resource in sent["template"]["resources"].values():
        if resource["type"] == "DatalogGate::Policy":
            resource["properties"]["scope"] = ["port"]
    with here.unchanged():
        stack, refused = here.create(**sent)
        hint = f"add a resource of type DatalogGate::Policy with service: {name} and this resource in its scope"
        reason = f"The policies deny this stack: {DENIED[name].format(stack)} ({hint})"
        assert refusal(refused) == (403, reason)
