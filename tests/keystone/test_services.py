"""Permissions for stack states and services, with a real Keystone."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from datalog_gate.decision_point.enabled_plugins import create_broker
from datalog_gate.doors.cli.commands.services import read_claims
from datalog_gate.doors.cli.heat_client import HeatClient as Client
from datalog_gate.doors.cli.heat_client import HeatStacks
from datalog_gate.doors.cli.heat_conf import read_settings
from datalog_gate.doors.cli.main import main
from datalog_gate.services.conformance import asked
from datalog_gate.services.reconcile import StackState
from tests.heat.doors.rig import wait
from tests.keystone.rig import PASSWORD, USERS, Cloud
from tests.keystone.test_roles import template
from tests.ledger import Seats, broker, request
from tests.scripted_cloud import clear_credentials


def become(monkeypatch: pytest.MonkeyPatch, cloud: Cloud, user: str) -> None:
    """Set the credentials of the user in the environment."""
    clear_credentials(monkeypatch)
    named = {"AUTH_URL": f"{cloud.identity}/v3", "USERNAME": user, "PASSWORD": PASSWORD, "PROJECT_NAME": USERS[user][0]}
    for name, value in (named | {"USER_DOMAIN_ID": "default", "PROJECT_DOMAIN_ID": "default"}).items():
        monkeypatch.setenv(f"OS_{name}", value)


def create_stack(cloud: Cloud, user: str, name: str) -> str:
    """Create a stack as the user, wait until it is complete, and return its id."""
    stack: str = cloud.ask(user, "POST", "stacks", stack_name=name, template=template()).json()["stack"]["id"]
    wait(lambda: cloud.ask(user, "GET", f"stacks/{name}/{stack}").json()["stack"]["stack_status"] == "CREATE_COMPLETE")
    return stack


def deleted(cloud: Cloud, user: str, name: str, stack: str) -> None:
    cloud.ask(user, "DELETE", f"stacks/{name}/{stack}")
    wait(lambda: cloud.ask(user, "GET", f"stacks/{name}/{stack}").json()["stack"]["stack_status"] == "DELETE_COMPLETE")


def test_the_state_of_stacks_needs_the_right_to_see_all_projects(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks = {
        "living": create_stack(cloud, "sam", "living"),
        "gone": create_stack(cloud, "sam", "gone"),
        "purged": str(uuid4()),
    }
    mine = str(uuid4())
    deleted(cloud, "sam", "gone", stacks["gone"])
    now = broker(tmp_path, Seats(tmp_path / "seats"))
    for name, stack in stacks.items():
        now.reserve(request(name, name, project=cloud.projects["free"], stack=stack))
    now.reserve(request("mine", "mine", project=cloud.projects["demo"], stack=mine))

    def read_answers(user: str) -> list[str | None]:
        become(monkeypatch, cloud, user)
        ask = HeatStacks(Client(), now.journal, "aio")
        return [state.status if (state := ask(uuid)) else None for uuid in (*stacks.values(), mine)]

    assert {user: read_answers(user) for user in ("root", "heat", "alice", "rita", "sam")} == {
        "root": ["complete", "absent", "absent", "absent"],
        "heat": ["complete", "absent", "absent", "absent"],
        "alice": [None, None, None, None],
        "rita": [None, None, None, None],
        "sam": ["complete", "absent", None, None],
    }
    become(monkeypatch, cloud, "root")
    found = HeatStacks(Client(), now.journal, "aio")(stacks["living"])
    listed = cloud.ask("sam", "GET", f"stacks/living/{stacks['living']}/resources").json()["resources"]
    assert found == StackState("complete", frozenset(resource["physical_resource_id"] for resource in listed))


def test_reconcile_releases_only_the_claims_of_a_deleted_stack(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = cloud.heat.folder / "heat.conf"
    chosen, _ = read_settings(conf)
    now = create_broker(chosen, time.time)
    assert now is not None
    kept, deleted_stack = create_stack(cloud, "sam", "kept"), create_stack(cloud, "sam", "went")
    [resource] = cloud.ask("sam", "GET", f"stacks/kept/{kept}/resources").json()["resources"]
    for uuid, stack in ((resource["physical_resource_id"], kept), ("u-went", deleted_stack)):
        of_sam = replace(asked("edge", uuid, "one", type="T"), project=cloud.projects["free"], stack=stack)
        now.reserve(of_sam)
    deleted(cloud, "sam", "went", deleted_stack)
    outputs = []
    for user in ("alice", "root", "root"):
        become(monkeypatch, cloud, user)
        code = main(["services", "reconcile", "--heat-conf", str(conf)])
        outputs.append((user, code, capsys.readouterr().out.splitlines()))
    committed = f"committed: {resource['physical_resource_id']} of stack {kept}: its stack is complete"
    released = f"released: u-went of stack {deleted_stack}: its stack is gone"
    refused = "failed: Heat does not show stacks of all projects to the user of OS_*: use an admin"
    assert outputs == [("alice", 1, [refused]), ("root", 0, [committed, released]), ("root", 0, [])]
    assert [(claim.stack, claim.state) for claim in read_claims(conf)] == [(kept, "committed")]
