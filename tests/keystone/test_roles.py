"""Tokens, roles and projects of a real Keystone at the filter."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
import requests
from heatclient import exc

from tests.heat.doors.rig import PATIENCE, wait
from tests.keystone.rig import Cloud

NUMBERS = count(1)


def template(salt: str = "", length: int = 8, service: str = "") -> dict[str, Any]:
    """A string, and perhaps a grant of a service for it."""
    properties = {"length": length, **({"salt": salt} if salt else {})}
    resources: dict[str, Any] = {"one": {"type": "OS::Heat::RandomString", "properties": properties}}
    if service:
        grant = {"type": "DatalogGate::Policy", "properties": {"service": service, "scope": ["one"]}}
        resources["grant"] = grant
    return {"heat_template_version": "2018-08-31", "resources": resources}


def create(cloud: Cloud, user: str, **more: Any) -> tuple[int, str]:
    """The status, and the message of a refusal without the decision's id."""
    name = f"stack-{next(NUMBERS)}"
    answer = cloud.ask(user, "POST", "stacks", stack_name=name, template=template(**more))
    if answer.status_code == 201:
        return 201, ""
    return answer.status_code, answer.json()["error"]["message"].partition(" [decision ")[0]


def test_a_member_s_stack_is_built_and_a_long_string_is_refused(cloud: Cloud) -> None:
    client = cloud.client("alice")
    client.stacks.create(stack_name="fine", template=template())
    wait(lambda: client.stacks.get("fine").stack_status == "CREATE_COMPLETE")
    with pytest.raises(exc.HTTPForbidden) as refused:
        client.stacks.create(stack_name="long", template=template(length=99))
    printed, _, decision = str(refused.value).partition(" [decision ")
    assert (
        printed
        == "ERROR: The policies deny this stack: length: one has 99 characters at resources.one.properties.length"
    )
    assert (len(decision), [stack.stack_name for stack in client.stacks.list()]) == (7, ["fine"])


@pytest.mark.parametrize(
    ("user", "salt", "answer"),
    [
        ("alice", "chief",
         (403, "The policies deny this stack: reader: one is not for a member alone at resources.one")),
        ("edna", "chief", (201, "")),
        ("alice", "of {demo}", (201, "")),
        ("alice", "of {service}",
         (403, "The policies deny this stack: foreign: one belongs to project {demo} at resources.one")),
    ],
)  # fmt: skip
def test_rules_know_the_caller_s_roles_and_project(cloud: Cloud, user: str, salt: str, answer: tuple[int, str]) -> None:
    code, message = create(cloud, user, salt=salt.format(**cloud.projects))
    assert (code, message) == (answer[0], answer[1].format(**cloud.projects))


def test_heat_itself_refuses_callers_without_the_right_to_create(cloud: Cloud) -> None:
    answer = cloud.ask("rita", "POST", "stacks", stack_name="none", template=template())
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "Forbidden")
    assert "policies deny" not in answer.text


def test_without_a_good_token_nothing_reaches_the_gate(cloud: Cloud) -> None:
    url = f"{cloud.heat.url}/v1/{cloud.projects['demo']}/stacks"
    body: dict[str, Any] = {"stack_name": "none", "template": template(length=99)}
    forged = {"X-Auth-Token": "none", "X-Roles": "admin", "X-Project-Id": cloud.projects["demo"], "X-User-Id": "root"}
    answers = [requests.post(url, json=body, headers=headers, timeout=PATIENCE) for headers in ({}, forged)]
    assert [answer.status_code for answer in answers] == [401, 401]


def test_headers_of_the_client_change_no_role(cloud: Cloud) -> None:
    url = f"{cloud.heat.url}/v1/{cloud.projects['demo']}/stacks"
    token = str(cloud.session("alice").get_token())
    body: dict[str, Any] = {"stack_name": "chief", "template": template("chief")}
    forged = {"X-Auth-Token": token, "X-Roles": "edge_user,member", "X-Project-Id": cloud.projects["free"]}
    answer = requests.post(url, json=body, headers=forged, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["error"]["message"].partition(" at ")[0]) == (
        403, "The policies deny this stack: reader: one is not for a member alone",
    )  # fmt: skip


def test_a_stack_of_another_project_is_heats_to_refuse(cloud: Cloud) -> None:
    cloud.ask("edna", "POST", "stacks", stack_name="hers", template=template())
    [stack] = [listed for listed in cloud.client("edna").stacks.list() if listed.stack_name == "hers"]
    path = f"{cloud.heat.url}/v1/{cloud.projects['demo']}/stacks/hers/{stack.id}"
    headers = {"X-Auth-Token": str(cloud.session("sam").get_token())}
    answer = requests.patch(path, json={"template": template()}, headers=headers, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "HTTPForbidden")


@pytest.mark.parametrize(
    ("user", "service", "salt", "code"),
    [
        ("alice", "edge", "edge", 403), ("edna", "edge", "edge", 201), ("edna", "", "edge", 403),
        ("edna", "night", "edge", 403), ("alice", "night", "night", 201),
    ],
)  # fmt: skip
def test_oslo_policy_decides_who_may_grant_a_service(
    cloud: Cloud, user: str, service: str, salt: str, code: int
) -> None:
    """The policy file names a role for one service; any member may grant the other. The engine has no type for a grant
    here, so that what the gate lets pass is Heat's to refuse."""
    answer = cloud.ask(
        user, "POST", "stacks", stack_name=f"stack-{next(NUMBERS)}", template=template(salt, service=service)
    )
    ours = "The policies deny this stack: " in answer.text
    unknown = "The Resource Type (DatalogGate::Policy) could not be found." in answer.text
    assert (ours, unknown, answer.status_code) == ((True, False, 403) if code == 403 else (False, True, 400))


def test_the_log_says_who_asked_and_no_token(cloud: Cloud) -> None:
    token = str(cloud.session("edna").get_token())
    log = cloud.heat.folder / "decisions.jsonl"
    create(cloud, "edna", length=99)
    wait(lambda: cloud.users["edna"] in log.read_text().splitlines()[-1])
    text = log.read_text()
    caller = json.loads(text.splitlines()[-1])["inputs"]["caller"]
    assert (caller["user"], caller["project"], caller["domain"]) == (
        cloud.users["edna"], cloud.projects["demo"], "default",
    )  # fmt: skip
    assert sorted(caller["roles"])[:1] == ["edge_user"]
    assert (token in text, "secret" in text) == (False, False)
