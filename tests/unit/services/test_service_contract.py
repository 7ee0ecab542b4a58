"""The contract of services: snapshots and keys."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

import datalog_gate as dg
from datalog_gate.base.values import ResourceId
from datalog_gate.services.contract import Held, Request, Service, in_scope
from datalog_gate.services.parts import Part
from tests.expressions import worded
from tests.ledger import request

TEMPLATE: dict[str, Any] = {
    "heat_template_version": "2018-08-31",
    "parameters": {"pw": {"type": "string", "hidden": True, "default": "s3cret"}},
    "resources": {
        "db": {
            "type": "OS::Nova::Server",
            "properties": {"flavor": "small", "image": {"get_resource": "image"}, "admin_pass": {"get_param": "pw"}},
        },
        "db2": {"type": "OS::Nova::Server", "properties": {"flavor": "small"}},
        "image": {"type": "OS::Glance::WebImage", "properties": {}},
        "group": {
            "type": "OS::Heat::ResourceGroup",
            "properties": {"count": 1, "resource_def": {"type": "OS::Nova::KeyPair", "properties": {"name": "k"}}},
        },
    },
}


def scope(*paths: str, hidden: str = "s3cret") -> tuple[Part, ...]:
    template = copy.deepcopy(TEMPLATE)
    template["parameters"]["pw"]["default"] = hidden
    return in_scope(dg.read_stack(template=template, stack_name="s"), [ResourceId(path) for path in paths])


BASE = replace(
    request("u"), scope=scope("s/db", "s/group"), options=MappingProxyType({"same": ("rack", worded("x")), "a": 1})
)


@pytest.mark.parametrize(
    "same",
    [
        replace(BASE, scope=scope("s/group", "s/db")),
        replace(BASE, scope=scope("s/db", "s/group", hidden="other")),
        replace(BASE, options={"a": 1, "same": ["rack", worded("x", unread=True)]}),
        replace(BASE, replaces=("k",)),
        replace(BASE, stack="other", stack_name="other", grant="other/grant"),
    ],
)
def test_what_is_not_reserved_is_no_part_of_the_key(same: Request) -> None:
    assert same.key == BASE.key


@pytest.mark.parametrize(
    "other",
    [
        replace(BASE, uuid="v"),
        replace(BASE, project="q"),
        replace(BASE, service="other"),
        replace(BASE, scope=scope("s/db")),
        replace(BASE, scope=scope("s/db2", "s/group")),
        replace(BASE, options={}),
        replace(BASE, options={"same": ("rack", worded("y"))}),
        replace(BASE, options={"same": ("rack", "x")}),
    ],
)
def test_what_is_reserved_is_part_of_the_key(other: Request) -> None:
    assert other.key != BASE.key


def test_a_service_that_says_nothing_objects_to_nothing_and_keeps_nothing() -> None:
    plain = Service()
    assert (plain.on_abandon, plain.sticky, plain.waits(BASE)) == ("release", False, "")
    plain.facts(BASE)
    plain.commit(Held(key="k", project="p", uuid="u", decision={}))
