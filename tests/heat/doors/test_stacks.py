"""The states of stacks in a real Heat, in both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from datalog_gate.doors.cli.heat_client import HeatClient as Client
from datalog_gate.doors.cli.heat_client import HeatStacks
from tests.heat.doors.rig import PROJECT, Heat, wait
from tests.heat.doors.templates import template
from tests.ledger import Seats, broker, request


def make_body(value: str, fail: bool = False, seconds: int = 0) -> dict[str, Any]:
    """A resource that each update replaces, whose physical id is a grant's uuid, and one after it."""
    first = {"type": "OS::Heat::TestResource", "properties": {"value": value, "update_replace": True}}
    properties = {"value": value, "fail": fail, "wait_secs": seconds}
    return template(g=first, z={"type": "OS::Heat::TestResource", "depends_on": "g", "properties": properties})


@pytest.fixture
def heat(either: Heat, monkeypatch: pytest.MonkeyPatch) -> Heat:
    """A Heat without a door, and credentials for it."""
    either.login(monkeypatch)
    return either


class Grants:
    """A journal with the claims of a stack."""

    def __init__(self, folder: Path, heat: Heat, name: str) -> None:
        self._heat, self._name, self.stack = heat, name, str(heat.stack(name).get("id") or uuid4())
        self._broker = broker(folder, Seats(folder / "seats"))

    def claim(self, uuid: str = "") -> str:
        """Claim a uuid, by default the physical id of the stack's resource; return it."""
        listed = [] if uuid else self._heat.on(self._name, "GET", "/resources").json()["resources"]
        uuid_ = uuid or next(
            str(resource["physical_resource_id"]) for resource in listed if resource["resource_name"] == "g"
        )
        self._broker.reserve(request(uuid_, uuid_, project=PROJECT, stack=self.stack))
        return uuid_

    def state(self, host: str = "aio") -> tuple[str, list[str]] | None:
        """The state of the stack, and its claims whose resource exists."""
        state = HeatStacks(Client(), self._broker.journal, host)(self.stack)
        uuids = [claim.uuid for claim in self._broker.journal.claims()]
        return (state.status, [uuid for uuid in uuids if uuid in state.resources]) if state else None


def test_a_stack_is_complete_with_its_resources_and_absent_after_deletion(heat: Heat, tmp_path: Path) -> None:
    name = heat.created(make_body("1"))
    grants = Grants(tmp_path, heat, name)
    first = grants.claim()
    assert grants.state() == ("complete", [first])
    heat.on(name, "PUT", template=make_body("2"))
    assert heat.ended(name)[0] == "UPDATE_COMPLETE"
    second = grants.claim()
    assert grants.state() == ("complete", [second])
    heat.delete(name)
    assert grants.state("elsewhere") == ("absent", [])


def test_the_state_of_a_failed_update_is_unknown(heat: Heat, tmp_path: Path) -> None:
    """The legacy engine does not show a replaced resource, although an update may return to it."""
    name = heat.created(make_body("1"))
    grants = Grants(tmp_path, heat, name)
    first = grants.claim()
    heat.on(name, "PUT", template=make_body("2", fail=True))
    assert heat.ended(name)[0] == "UPDATE_FAILED"
    assert (grants.claim() != first, grants.state()) == (True, None)


def test_a_failed_creation_has_its_resources(heat: Heat, tmp_path: Path) -> None:
    name, status, _ = heat.built(make_body("1", fail=True))
    assert status == "CREATE_FAILED"
    grants = Grants(tmp_path, heat, name)
    grants.claim("never-made")
    uuid = grants.claim()
    assert grants.state() == ("failed", [uuid])


def test_a_stack_that_an_engine_works_on_is_in_progress(heat: Heat, tmp_path: Path) -> None:
    name, _ = heat.create(make_body("1", seconds=5))
    wait(lambda: heat.resources(name).get("g") == "CREATE_COMPLETE")
    grants = Grants(tmp_path, heat, name)
    grants.claim()
    assert grants.state() == ("in_progress", [])
    heat.ended(name)


def test_an_unknown_stack_is_absent_only_from_the_heat_of_this_host(heat: Heat, tmp_path: Path) -> None:
    grants = Grants(tmp_path, heat, "never")
    grants.claim("u")
    assert (grants.state(), grants.state("elsewhere")) == (("absent", []), None)
