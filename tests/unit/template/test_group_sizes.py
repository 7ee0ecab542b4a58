"""Findings over groups of unknown size: certain of all legal sizes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import datalog_gate as dg
from datalog_gate.api import Rules
from datalog_gate.base.errors import InputError
from tests.sampling import sample

RULES = """
@deny("open", "{g} opens port 22")
open(g) :- os:neutron:security_group.rules(_id=g, port_range_min=22).
@deny("many", "{n} volumes")
many(n) :- n = count{ v : os:cinder:volume(_id=v) }, n > 2.
@deny("large", "{n} GiB")
large(n) :- n = sum{ size, v : os:cinder:volume(_id=v, size=size) }, n >= 40.
@warn("none", "{s} has no volume")
none(s) :- heat:stack(id=s, depth=0), not os:cinder:volume(_id=_).
@deny("third", "{v} is the third")
third(v) :- os:cinder:volume(_id=v, name="v2").
@warn("pair", "{v} and {w} are of one size")
pair(v, w) :- os:cinder:volume(_id=v, size=size), os:cinder:volume(_id=w, size=size), v != w.
@record("member", "{g} has a second member")
member(g) :- heat:member(group=g, index=1).
@deny("value", "{v} takes {size}")
value(v, size) :- os:cinder:volume(_id=v, size=size), size != null, size > 30.
"""
SECTION = {"heat_template_version": "2018-08-31"}
NESTED = {
    **SECTION,
    "parameters": {"name": {"type": "string", "default": "v2"}, "size": {"type": "number", "default": 15}},
    "resources": {
        "volume": {
            "type": "OS::Cinder::Volume",
            "properties": {"name": {"get_param": "name"}, "size": {"get_param": "size"}},
        },
        "group": {
            "type": "OS::Neutron::SecurityGroup",
            "properties": {"rules": [{"protocol": "tcp", "port_range_min": 22, "port_range_max": 22}]},
        },
    },
}


@cache
def rules() -> Rules:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sizes.dl"
        path.write_text(RULES)
        return dg.load_rules(path)


def decide(template: Mapping[str, Any], **given: Any) -> dg.Decision:
    stack = dg.read_stack(template=template, files={"member.yaml": json.dumps(NESTED)}, stack_name="web", **given)
    return rules().decide(stack)


def judged(decision: dg.Decision) -> dict[str, str]:
    """By policy what the decision says of it: it is violated, it may be, or it is satisfied, and then it is missing."""
    undetermined = [policy for violation in decision.undetermined for policy in violation.policies]
    return dict.fromkeys(undetermined, "undetermined") | {
        violation.policy: "violated" for violation in decision.violations
    }


def definition(limits: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **SECTION,
        "parameters": {"n": {"type": "number", "constraints": [limits]}},
        "resources": {"g": {"type": "OS::Heat::ResourceGroup", "properties": properties}},
    }


MEMBER = {"type": "member.yaml"}
COUNT = {"get_param": "n"}


@st.composite
def templates(draw: st.DrawFn) -> tuple[dict[str, Any], list[int]]:
    """A template, and all legal sizes of its parameter."""
    least, span = draw(st.integers(0, 2)), draw(st.integers(0, 3))
    legal = list(range(least, least + span + 1))
    limits: dict[str, Any] = {"range": {"min": least, "max": legal[-1]}}
    if draw(st.booleans()):
        legal = sorted(draw(st.sets(st.sampled_from(legal), min_size=1)))
        limits = {"allowed_values": legal}
    scaling, indexed, twice = draw(st.booleans()), draw(st.booleans()), draw(st.integers(0, 3)) == 0
    size: Any = draw(st.sampled_from([5, 15, 31, {"get_param": "n"}]))
    name = "v%index%" if indexed else draw(st.sampled_from(["v2", "other"]))
    volume = {"type": "OS::Cinder::Volume", "properties": {"name": name, "size": size}}
    member = draw(st.sampled_from([volume, {**MEMBER, "properties": {"name": name, "size": size}}, MEMBER]))
    properties: dict[str, Any] = {"count": COUNT, "resource_def": member}
    if scaling:
        high = draw(st.sampled_from([3, 9, {"get_param": "n"}]))
        properties = {
            "min_size": draw(st.integers(0, 1)),
            "max_size": high,
            "desired_capacity": COUNT,
            "resource": member,
        }
        if draw(st.booleans()):
            properties |= {"min_size": COUNT}
            del properties["desired_capacity"]
        if isinstance(high, int):
            legal = [number for number in legal if number <= high]
        if isinstance(properties["min_size"], int):
            legal = [number for number in legal if number >= properties["min_size"]]
    template = definition(limits, properties)
    kind = "AutoScalingGroup" if scaling else "ResourceGroup"
    template["resources"]["g"]["type"] = f"OS::Heat::{kind}"
    if twice:
        template["resources"]["h"] = template["resources"]["g"]
    if draw(st.booleans()):
        template["resources"]["own"] = {
            "type": "OS::Cinder::Volume",
            "properties": {"size": draw(st.sampled_from([5, 31]))},
        }
    return template, legal


@given(templates())
@settings(deadline=None, max_examples=int(os.environ.get("DATALOG_GATE_SIZES", sample(400))))
def test_a_finding_is_certain_if_all_legal_sizes_have_it_and_missing_if_none_has(
    generated: tuple[dict[str, Any], list[int]],
) -> None:
    template, legal = generated
    if not legal:
        return
    worlds = [judged(decide(template, parameters={"n": number})) for number in legal]
    expected = {
        policy: "violated" if all(policy in world for world in worlds) else "undetermined"
        for policy in dict.fromkeys(policy for world in worlds for policy in world)
    }
    assert judged(decide(template)) == expected


def test_bounds_that_are_known_once_resources_are_built_limit_no_size() -> None:
    later = {"get_attr": ["of", "value"]}
    volume = {"type": "OS::Cinder::Volume", "properties": {"size": 31}}
    for bounds in ({"min_size": later, "max_size": later}, {"min_size": 1, "max_size": later}):
        group = {"resource": volume, "desired_capacity": {"get_param": "n"}, **bounds}
        template = {
            **SECTION,
            "parameters": {"n": {"type": "number"}},
            "resources": {
                "of": {"type": "OS::Heat::RandomString"},
                "group": {"type": "OS::Heat::AutoScalingGroup", "properties": group},
            },
        }
        assert judged(decide(template))["value"] == ("undetermined" if bounds["min_size"] is later else "violated")


@pytest.mark.parametrize("limits", [{"allowed_values": [2, 31]}, {"range": {"min": 2, "max": 31}}])
def test_a_value_that_heat_refuses_decides_nothing(limits: Mapping[str, Any]) -> None:
    template = definition(limits, {"min_size": 0, "max_size": 3, "desired_capacity": COUNT})
    template["resources"]["g"] |= {"type": "OS::Heat::AutoScalingGroup"}
    template["resources"]["g"]["properties"]["resource"] = {"type": "OS::Cinder::Volume", "properties": {"size": COUNT}}
    assert judged(decide(template)).items() >= judged(decide(template, parameters={"n": 2})).items()
    assert "value" not in judged(decide(template))
    with pytest.raises(InputError, match="`desired_capacity` is 31, more than `max_size`, 3: Heat refuses the group"):
        decide(template, parameters={"n": 31})
