"""Judging a live stack over HTTP, with scripted answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datalog_gate.doors.cli.heat_client import read_live
from datalog_gate.doors.cli.main import main
from datalog_gate.schema.catalogue import SHIPPED
from tests.scripted_cloud import Cloud, with_keystone

RULES = """\
@deny("flavor", "{s} takes {f}")
flavor(s, f) :- os:nova:server(_id=s, flavor=f), f = "huge".
@warn("failed", "{r} ({p}) failed to {a}")
failed(r, p, a) :- heat:status(r, a, "FAILED"), heat:physical(r, p).
"""
TEMPLATE: dict[str, Any] = {
    "heat_template_version": "2018-08-31",
    "parameters": {"f": {"type": "string", "hidden": True, "default": "small"}, "i": {"type": "string"}},
    "resources": {
        "web": {"type": "OS::Nova::Server", "properties": {"flavor": {"get_param": "f"}, "image": {"get_param": "i"}}},
        "one": {"type": "db.yaml"},
        "two": {"type": "db.yaml", "properties": {"key": "k"}},
    },
}
NESTED = """\
heat_template_version: 2018-08-31
parameters: {key: {type: string, hidden: true, default: none}}
resources: {db: {type: OS::Nova::Server, properties: {flavor: huge, key_name: {get_param: key}}}}
"""
ENVIRONMENT = {
    "parameters": {"f": "******", "i": "debian"},
    "parameter_defaults": {"key": "******"},
    "resource_registry": {"resources": {}},
    "encrypted_param_names": [],
    "event_sinks": [],
}
EMPTY = TEMPLATE | {"resources": {}}
STACK = "GET /v1/p/stacks/web/6a"
LISTED = f"{STACK}/resources?nested_depth=5"


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cloud]:
    """A cloud with the stack, and credentials for it."""
    (tmp_path / "m.dl").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    with with_keystone(monkeypatch, "s3cret") as server:
        where = f"{server.url}/v1/p/stacks/web/6a?resolve_outputs=False"
        server.give("GET /v1/p/stacks/web?resolve_outputs=False", {}, 302, Location=where)
        body = {"stack_name": "web", "id": "6a", "stack_status": "CREATE_FAILED", "tags": ["front"]}
        server.give(f"{STACK}?resolve_outputs=False", {"stack": body})
        server.give(f"{STACK}/template", TEMPLATE)
        server.give(f"{STACK}/environment", ENVIRONMENT)
        server.give(f"{STACK}/files", {"db.yaml": NESTED})
        server.give(
            LISTED,
            {
                "resources": [
                    listed(server, "db", "web-two/7c", "CREATE_FAILED", "p-3"),
                    listed(server, "web", "web/6a", "CREATE_IN_PROGRESS", ""),
                    listed(server, "one", "web/6a", "CREATE_COMPLETE", "7b", "web-one/7b"),
                    listed(server, "two", "web/6a", "CREATE_FAILED", "7c", "web-two/7c"),
                    listed(server, "db", "web-one/7b", "UPDATE_COMPLETE", "p-2"),
                ]
            },
        )
        yield server


def listed(cloud: Cloud, name: str, stack: str, status: str, physical: str, nested: str = "") -> dict[str, object]:
    """A resource as Heat lists it (heat/api/openstack/v1/resources.py:28-65)."""
    at = f"{cloud.url}/v1/p/stacks"
    links = [{"rel": "self", "href": f"{at}/{stack}/resources/{name}"}, {"rel": "stack", "href": f"{at}/{stack}"}]
    links += [{"rel": "nested", "href": f"{at}/{nested}"}] if nested else []
    return {"resource_name": name, "resource_status": status, "physical_resource_id": physical, "links": links}


JUDGED = """\
db.yaml:3:63: deny[flavor] web/one/db takes huge
db.yaml:3:63: deny[flavor] web/two/db takes huge
resources.two: warn[failed] two (7c) failed to CREATE
db.yaml:3:13: warn[failed] web/two/db (p-3) failed to CREATE
resources.web.properties.flavor: undetermined[flavor] web takes ?: depends on parameter f
2 denied, 2 warnings, 1 undetermined; 2 policies, 14 facts; deny; decision {}
"""


def test_a_live_stack_is_judged_with_what_heat_says_of_its_resources(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--stack", "web", "--rules", "m.dl", "--format", "compact"]) == 1
    printed = capsys.readouterr()
    assert (re.sub(r"[0-9a-f]{6}$", "{}", printed.out, flags=re.M), printed.err) == (JUDGED, "")
    assert [token for request, token in cloud.requests if "/v1/" in request] == ["t-1"] * 6


@pytest.mark.usefixtures("cloud")
def test_rules_read_the_tags_of_a_live_stack(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "m.dl").write_text('@deny("tag", "{tag}") tagged(s, tag) :- heat:tag(stack=s, value=tag).\n')
    assert main(["check", "--stack", "web", "--rules", "m.dl", "--format", "compact"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == "heat_template_version: deny[tag] front"


@pytest.mark.usefixtures("cloud")
def test_a_template_is_judged_against_a_live_stack(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    more = {"three": {"type": "db.yaml"}}
    (tmp_path / "new.yaml").write_text(json.dumps({**TEMPLATE, "resources": {**TEMPLATE["resources"], **more}}))
    (tmp_path / "db.yaml").write_text(NESTED)
    command = ["check", "new.yaml", "-P", "i=debian", "--against", "stack:web", "--rules", "m.dl"]
    assert main([*command, "--format", "json"]) == 1
    decision = json.loads(capsys.readouterr().out)
    assert {violation["resource"]: violation["change"] for violation in decision["violations"]} == {
        "new/one/db": "preexisting",
        "new/two/db": "preexisting",
        "new/three/db": "introduced",
    }


def test_a_caller_may_send_a_token(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USERNAME", "PASSWORD", "PROJECT_NAME", "USER_DOMAIN_NAME", "PROJECT_DOMAIN_NAME"):
        monkeypatch.delenv(f"OS_{name}")
    monkeypatch.setenv("OS_TOKEN", "t-0")
    assert read_live("web", None, SHIPPED).name == "web"
    identity = {"methods": ["token"], "token": {"id": "t-0"}}
    assert [json.loads(body)["auth"]["identity"] for body in cloud.bodies] == [identity]


SET = """
  help  set OS_AUTH_URL, OS_USERNAME, OS_PASSWORD, OS_PROJECT_NAME and OS_USER_DOMAIN_NAME, or the variables that \
OS_AUTH_TYPE needs; for a Heat without Keystone set OS_AUTH_TYPE=none and OS_ENDPOINT"""
NOT_REACHED = "Heat can't be reached with these credentials: "
NEXT = "Heat's answer does not match its API"


@pytest.mark.parametrize(
    ("environ", "request_", "answer", "message"),
    [
        ({"OS_AUTH_URL": ""}, "", (),
         f"{NOT_REACHED}Auth plugin requires parameters which were not given: auth_url{SET}"),
        ({"OS_AUTH_URL": "http://me:s3cret@127.0.0.1:1/v3"}, "", (),
         "the URL of Keystone holds a password\n  help  set OS_USERNAME and OS_PASSWORD"),
        ({"OS_AUTH_URL": "http://127.0.0.1:1/v3"}, "", (),
         f"{NOT_REACHED}Unable to establish connection to http://127.0.0.1:1/v3/auth/tokens: ...{SET}"),
        ({"OS_AUTH_URL": "nothing"}, "", (),
         f"{NOT_REACHED}Could not find requested endpoint in Service Catalog.{SET}"),
        ({"OS_AUTH_TYPE": "nothing"}, "", (), f"{NOT_REACHED}The plugin nothing could not be found{SET}"),
        ({"OS_AUTH_TYPE": "none"}, "", (), "with these credentials there is no orchestration service in the "
        f"catalogue{SET}"),
        ({"OS_CACERT": "/nothing.pem", "OS_AUTH_URL": "https://127.0.0.1:1/v3"}, "", (),
         f"{NOT_REACHED}Could not find a suitable TLS CA certificate bundle, invalid path: /nothing.pem{SET}"),
        ({"OS_REGION_NAME": "elsewhere"}, "", (),
         f"{NOT_REACHED}public endpoint for orchestration service in elsewhere region not found{SET}"),
        ({}, "POST /v3/auth/tokens", (401, {"error": {"message": "not with s3cret"}}, {}),
         f"{NOT_REACHED}not with ****** (HTTP 401){SET}"),
        ({}, "GET /v1/p/stacks/web?resolve_outputs=False", (404, {}, {}), "Heat has no stacks/web"),
        ({}, f"{STACK}?resolve_outputs=False", (200, {"stack": {"stack_status": "DELETE_COMPLETE"}}, {}),
         "the stack web is deleted"),
        ({}, f"{STACK}?resolve_outputs=False", (200, [], {}), NEXT),
        ({}, f"{STACK}/template", (403, {"error": {"message": "You are not authorized"}}, {}),
         "Heat does not return stacks/web/6a/template: You are not authorized (HTTP 403)"),
        ({}, f"{STACK}/template", (500, b"<html>", {}),
         "Heat does not return stacks/web/6a/template: Internal Server Error (HTTP 500)"),
        ({}, f"{STACK}/template", (200, b"{", {}), "Heat's answer for stacks/web/6a/template is not JSON"),
        ({}, f"{STACK}/template", (200, EMPTY, {}), "the stack web leaves nothing to judge: it has no resource"),
        ({}, f"{STACK}/files", (200, {"db.yaml": 1}, {}), "Heat holds files of the stack web that are not text"),
        ({}, LISTED, (200, {"resources": [{"resource_name": "x", "links": []}]}, {}),
         "Heat lists a resource that belongs to no stack"),
        ({}, LISTED, (200, {}, {}), NEXT),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_diagnostic_without_a_secret(
    cloud: Cloud,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    environ: dict[str, str],
    request_: str,
    answer: tuple[int, object, dict[str, str]],
    message: str,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    if request_:
        cloud.answers[request_] = answer
    assert main(["check", "--stack", "web", "--rules", "m.dl"]) == 3
    printed = capsys.readouterr()
    code = "no-resources" if "nothing to judge" in message else "unreadable"
    err = re.sub(r"HTTPConnectionPool.*", "...", printed.err)
    assert (printed.out, err) == ("", f"error[{code}] {message}\n")


@pytest.mark.parametrize("more", ["web.yaml", "--stack other", "-e env.yaml", "-P a=b", "--module web.yaml",
                                  "--files-root ."])  # fmt: skip
def test_a_live_stack_is_whole_without_what_a_command_line_adds(more: str) -> None:
    assert main(["check", "--stack", "web", *more.split()]) == 64
