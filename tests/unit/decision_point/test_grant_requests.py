"""The requests that grants make to their services."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import datalog_gate as dg
from datalog_gate.base.errors import GateError
from datalog_gate.base.values import SECRET, ResourceId
from datalog_gate.decision.decision import Grant
from datalog_gate.decision_point.enabled_plugins import create_broker, load_enabled_services
from datalog_gate.decision_point.grant_requests import build_requests
from datalog_gate.decision_point.settings import Settings
from datalog_gate.services.broker import Limits
from datalog_gate.services.contract import Request
from datalog_gate.services.journal_claim import JournalError
from datalog_gate.stack.model import Stack
from tests.expressions import unknown_of

KEY = {"type": "OS::Nova::KeyPair", "properties": {"name": "k"}}
SERVER = {"type": "OS::Nova::Server", "properties": {"flavor": "small", "image": "debian"}}
GROUP = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": KEY}}


def grant(service: str = "edge", /, *requires: str, **properties: Any) -> dict[str, Any]:
    """A grant that depends on these resources."""
    policy = {"type": "DatalogGate::Policy", "properties": {"service": service, **properties}}
    return policy | ({"depends_on": list(requires)} if requires else {})


def read(resources: dict[str, Any], files: dict[str, str] | None = None, **inputs: Any) -> Stack:
    """The stack `s` of these resources. Parameters: a list of names, a hidden text, one that nobody gave."""
    parameters = {
        "names": {"type": "comma_delimited_list", "default": "a,b"},
        "pin": {"type": "string", "hidden": True, "default": "s3cret"},
        "open": {"type": "string"},
    }
    template = {"heat_template_version": "2018-08-31", "parameters": parameters, "resources": resources}
    return dg.read_stack(template=template, files=files or {}, stack_name="s", **inputs)


def unlocked(stack: Stack) -> list[Grant]:
    """All grants of the stack, as if a rule unlocked each."""
    grants = [
        resource for home in stack.walk() for resource in home.resources if resource.type == "DatalogGate::Policy"
    ]
    return [Grant(grant.id, str(grant.properties["service"]), True, "unlocked") for grant in grants]


def read_requests(resources: dict[str, Any], **more: Any) -> dict[str, Request]:
    """The requests of all grants of the stack."""
    stack = read(resources, **more)
    return build_requests(stack, unlocked(stack), "p")


def scopes(resources: dict[str, Any], **more: Any) -> dict[str, list[str]]:
    """The paths in the scope of each request."""
    return {path: [part.id for part in request.scope] for path, request in read_requests(resources, **more).items()}


AB = {"a": KEY, "b": KEY}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"g": grant(scope=["b", "a"]), **AB}, {"s/g": ["s/a", "s/b"]}),
        ({"g": grant(scope=["a", "a"]), **AB, "ab": KEY}, {"s/g": ["s/a"]}),
        ({"g": grant(scope=[]), **AB}, {"s/g": []}),
        ({"g": grant(scope=["nothing"]), **AB}, {"s/g": []}),
        ({"g": grant(scope="a"), **AB}, {"s/g": []}),
        ({"g": grant(scope={"get_param": "names"}), **AB, "c": KEY}, {"s/g": ["s/a", "s/b"]}),
        ({"g": grant(scope=[{"get_resource": "a"}]), **AB}, {"s/g": ["s/a"]}),
        ({"g": grant(scope=[{"get_attr": ["a", "name"]}, "b"]), "a": SERVER, "b": KEY}, {"s/g": ["s/b"]}),
        ({"g": grant(), **AB}, {"s/g": ["s/a", "s/b"]}),
        ({"g": grant("edge", "a"), **AB}, {"s/g": ["s/b"]}),
        # what one grant requires, through others too, no grant is for by default
        (
            {"g": grant(), "h": grant("edge", "a"), "a": {**KEY, "depends_on": "b"}, "b": KEY, "c": KEY},
            {"s/g": ["s/c"], "s/h": ["s/c"]},
        ),
        ({"g": grant(scope=["group"]), "group": GROUP}, {"s/g": ["s/group", "s/group/0", "s/group/1"]}),
        ({"g": grant(scope=["group.1"]), "group": GROUP}, {"s/g": ["s/group", "s/group/0", "s/group/1"]}),
        ({"g": grant(scope=["a.b"]), "a.b": KEY, "a": KEY}, {"s/g": ["s/a.b"]}),
        # a name means a resource of the grant's own stack
        ({"g": grant(scope=["g", "h"]), "h": grant(scope=["a"]), "a": KEY}, {"s/g": ["s/g", "s/h"], "s/h": ["s/a"]}),
    ],
)
def test_a_grant_asks_for_what_is_in_its_scope(resources: dict[str, Any], expected: dict[str, list[str]]) -> None:
    assert scopes(resources) == expected


NESTED = """
heat_template_version: 2018-08-31
parameters: {what: {type: string}}
resources:
  own: {type: DatalogGate::Policy, properties: {service: edge, scope: [a, {get_param: what}]}}
  a: {type: OS::Nova::KeyPair, properties: {name: k}}
  b: {type: OS::Nova::KeyPair, properties: {name: k}}
  c: {type: OS::Nova::KeyPair, properties: {name: k}}
"""


def test_a_grant_of_a_nested_stack_is_for_that_stack_and_one_around_it_for_the_whole() -> None:
    resources = {"g": grant(scope=["tr.a"]), "tr": {"type": "tr.yaml", "properties": {"what": "b"}}, "a": KEY}
    assert scopes(resources, files={"tr.yaml": NESTED}) == {
        "s/g": ["s/tr", "s/tr/own", "s/tr/a", "s/tr/b", "s/tr/c"],
        "s/tr/own": ["s/tr/a", "s/tr/b"],
    }


def test_a_request_holds_options_covered_and_what_others_ask_of_the_same_service() -> None:
    options = {"same": "rack", "pin": {"get_param": "pin"}, "of": [{"get_param": "open"}, {"get_resource": "b"}]}
    resources = {
        "g": grant(scope=["a"], options=options),
        "h": grant(scope=["b"]),
        "i": grant("other", scope=["b"], options=None),
        **AB,
    }
    stack = read(resources)
    scope = {name: build_requests(stack, unlocked(stack), "p")[f"s/{name}"].scope for name in "ghi"}
    uuids = {"g": "u1", "h": "", "i": ""}

    def request(name: str, service: str = "edge", options: Any = None, **more: Any) -> Request:
        return Request(
            service=service,
            project="p",
            stack="id-s",
            stack_name="s",
            grant=f"s/{name}",
            uuid=uuids[name],
            options=options or {},
            scope=scope[name],
            **more,
        )

    def identify(bare: Request) -> Request:
        return replace(bare, stack="id-s", stack_name="s", uuid=uuids[bare.grant[-1]])

    covered = {"same": "rack", "pin": SECRET, "of": (unknown_of("{get_param: open} in s"), ResourceId("s/b"))}
    g, h = request("g", options=covered), request("h")
    assert build_requests(stack, unlocked(stack), "p", identify) == {
        "s/g": request("g", options=covered, together=(h,)),
        "s/h": request("h", together=(g,)),
        "s/i": request("i", "other"),
    }


def test_a_grant_that_unlocks_nothing_asks_nothing_and_is_no_part_of_what_others_ask() -> None:
    stack = read({"g": grant(scope=["a"]), "h": grant(scope=["b"]), **AB})
    locked, other = unlocked(stack)
    no = Grant(locked.grant, "edge", False, "no rule unlocks it")
    requests = build_requests(stack, [no, other], "p")
    assert {path: request.together for path, request in requests.items()} == {"s/h": ()}
    assert build_requests(stack, [no], "p") == {}


def settings(folder: Path, **more: Any) -> Settings:
    """One service with its journal in the folder."""
    options = {"services": ("edge",), "service_option": (f"edge.file={folder}/e",), "store": f"{folder}/j"}
    return Settings(**{**options, **more})


def test_the_services_of_a_process_come_with_their_journal_and_limits(tmp_path: Path) -> None:
    broker = create_broker(settings(tmp_path, service_call_seconds=2.0, service_late_seconds=7.0), lambda: 5.0)
    assert broker
    assert (broker.limits, broker.journal.late, broker.journal.claims(), broker.clock()) == (
        Limits(2.0, 25.0, 120.0), 7.0, (), 5.0
    )  # fmt: skip
    assert type(broker.service("edge")).__name__ == "Edge"


def test_without_services_there_is_no_journal(tmp_path: Path) -> None:
    chosen = settings(tmp_path, services=(), service_option=())
    assert (load_enabled_services(chosen), create_broker(chosen), list(tmp_path.iterdir())) == ({}, None, [])


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"store": ""}, ValueError, "services need the option store"),
        ({"service_option": ("edge",)}, ValueError, "service_option edge is not NAME.KEY=VALUE"),
        ({"services": ("gone",), "service_option": ()}, GateError, "can't be loaded: gone is not installed"),
        ({"services": ()}, GateError, "can't be loaded: edge has settings, but is not enabled"),
        ({"service_option": ()}, GateError, "edge can't be created: ValueError: the service needs a file"),
        (
            {"services": ("approval",), "service_option": ("approval.store=/own",)},
            GateError,
            "approval can't be created: ValueError: store: claims are kept in that of the gate, the option `store`",
        ),
        ({"service_lease_seconds": 25.0}, ValueError, "service_call_seconds must not exceed service_step_seconds"),
        ({"store": "/nowhere/j"}, JournalError, "/nowhere/j can't be created"),
    ],
)
def test_services_that_can_not_be_put_to_work_stop_with_a_reason(
    tmp_path: Path, more: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        create_broker(settings(tmp_path, **more))


def test_the_names_of_options_are_texts_whatever_the_template_says() -> None:
    grant = "{type: DatalogGate::Policy, properties: {service: edge, options: {7: a, true: {null: b}}}}"
    resources = f"{{a: {{type: OS::Heat::None}}, g: {grant}}}"
    stack = dg.read_stack(template=f"heat_template_version: 2018-08-31\nresources: {resources}\n", stack_name="s")
    requests = build_requests(stack, unlocked(stack), "p")
    assert requests["s/g"].options == {"7": "a", "true": {"null": "b"}}
