"""The comparison of verdicts sees a wrong value that rules read."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from datalog_gate.stack.model import Stack
from tests.heat.heat_side import SHAPES, HeatResource, HeatStack, Refused, resolve
from tests.heat.inputs import compare_body, ours_of
from tests.heat.verdicts import contradictions

TEMPLATE = """\
heat_template_version: 2018-08-31
resources:
  net: {type: OS::Neutron::Net}
  good: {type: OS::Nova::Server, properties: {flavor: m1.small, image: i, security_groups: [g]}}
  bad: {type: OS::Nova::Server, properties: {flavor: huge, image: i, security_groups: [g]}}
  open: {type: OS::Nova::Server, properties: {flavor: {get_attr: [net, name]}, image: i, security_groups: [g]}}
  ip: {type: OS::Neutron::FloatingIPAssociation, properties: {floatingip_id: {get_resource: made}}}
  made: {type: OS::Neutron::FloatingIP, properties: {floating_network: public}}
  group:
    type: OS::Heat::ResourceGroup
    properties:
      count: 1
      resource_def: {type: OS::Nova::Server, properties: {flavor: m1.small, image: i, security_groups: [g]}}
  wide:
    type: OS::Heat::ResourceGroup
    properties:
      count: {get_attr: [net, mtu]}
      resource_def: {type: OS::Nova::Server, properties: {flavor: m1.small, image: i, security_groups: [g]}}
"""
STATED = [shape for shape in SHAPES if shape != "none"]


def judged(change: Callable[[dict[str, HeatResource]], object]) -> list[tuple[str, str | None, bool]]:
    """The contradictions after something is changed in what Heat says in every shape; the same in all of them."""
    ours = ours_of(template=TEMPLATE, stack_name="web")
    heat = {shape: resolve(TEMPLATE, {}, {}, "web", shape) for shape in SHAPES}
    assert isinstance(ours, Stack)
    for answer in heat.values():
        assert isinstance(answer, HeatStack)
        change(answer.resources)
    reported = contradictions(ours, heat)
    by_shape = {
        shape: sorted(
            (*contradiction.finding, contradiction.certain)
            for contradiction in reported
            if contradiction.shape == shape
        )
        for shape in STATED
    }
    assert len(reported) == sum(map(len, by_shape.values()))
    assert [*by_shape.values()] == [by_shape["word"]] * len(STATED)
    return by_shape["word"]


def put(name: str, key: str, value: Any) -> Callable[[dict[str, HeatResource]], object]:
    return lambda resources: resources[name].properties.update({key: value})


def more(holder: str) -> Callable[[dict[str, HeatResource]], object]:
    """Another member in a group, with a flavor that is not on offer."""

    def change(resources: dict[str, HeatResource]) -> None:
        nested = resources[holder].nested = copy.deepcopy(resources["group"].nested)
        assert isinstance(nested, HeatStack)
        nested.resources["99"] = resources["bad"]

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda _: None, []),
        (put("good", "flavor", "huge"), [("security.flavor", "web/good", False)]),
        (put("bad", "flavor", "m1.small"), [("security.flavor", "web/bad", True)]),
        (put("good", "flavor", Refused("no")), []),
        (put("bad", "flavor", Refused("no")), []),
        (put("open", "flavor", "huge"), []),
        (lambda resources: resources.pop("bad"), [("security.flavor", "web/bad", True)]),
        (lambda resources: resources.update(new=resources["bad"]), [("security.flavor", "web/new", False)]),
        (put("ip", "floatingip_id", "other"), [("net.floating_ip", "web/ip", False)]),
        (put("bad", "flavor", "larger"), [("security.flavor", "web/bad", True)]),
        (more("group"), [("security.flavor", "web/group/99", False)]),
        (more("wide"), []),
    ],
)  # fmt: skip
def test_a_verdict_that_heats_values_do_not_bear_out_is_seen(
    change: Callable[[dict[str, HeatResource]], object], expected: list[tuple[str, str, bool]]
) -> None:
    assert judged(change) == expected


def test_what_heat_builds_as_a_load_balancer_is_not_passed_over() -> None:
    text = """\
AWSTemplateFormatVersion: 2010-09-09
Parameters: {LbFlavor: {Type: String, Default: huge}}
Resources: {b: {Type: 'AWS::ElasticLoadBalancing::LoadBalancer', Properties: {AvailabilityZones: [], Listeners: []}}}
"""
    report = compare_body(text, {}, {})
    assert (report.differences, report.contradictions) == ([], [])
