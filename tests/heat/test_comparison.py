"""The comparison with Heat finds every kind of difference."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from datalog_gate.files.templates import read_stack
from tests.heat.categories import category
from tests.heat.comparison import Report, compare
from tests.heat.heat_side import SHAPES, HeatStack, Refused, resolve
from tests.heat.inputs import compare_body, ours_of

TEMPLATE = """\
heat_template_version: 2018-08-31
parameters: {size: {type: number, default: 2}}
conditions: {big: {equals: [{get_param: size}, 2]}}
resources:
  net: {type: OS::Neutron::Net}
  vm:
    type: OS::Nova::Server
    metadata: {a: [1]}
    deletion_policy: Retain
    update_policy: {x: 1}
    properties: {flag: true, count: 1, net: {get_resource: net}, ip: {get_attr: [net, mtu]}, list: [a]}
  group:
    type: OS::Heat::ResourceGroup
    properties: {count: {get_param: size}, resource_def: {type: OS::Heat::Value, properties: {value: '%index%'}}}
outputs: {one: {value: {get_attr: [group, resource.1.value]}}}
"""


def both(change: Callable[[HeatStack], object] = lambda _: None) -> Report:
    """The report of the template, after a change to Heat's answer in every shape."""
    heat = {shape: resolve(TEMPLATE, {}, {}, shape) for shape in SHAPES}
    for answer in heat.values():
        assert isinstance(answer, HeatStack)
        change(answer)
    return compare(read_stack(template=TEMPLATE, stack_name="web"), heat)


def put(resource: str, part: str, value: Any) -> Callable[[HeatStack], None]:
    """Another value for a part of a resource, or for one of its properties."""

    def change(answer: HeatStack) -> None:
        part_of = answer.resources[resource]
        if hasattr(part_of, part):
            setattr(part_of, part, value)
        else:
            part_of.properties[part] = value

    return change


def test_the_same_template_has_no_difference() -> None:
    report = both()
    assert (report.differences, report.resources, report.compared) == ([], 5, 5)


@pytest.mark.parametrize(
    ("change", "at"),
    [
        (put("vm", "flag", 1), "web/vm properties.flag"),
        (put("vm", "count", True), "web/vm properties.count"),
        (put("vm", "count", Refused("no")), "web/vm properties.count"),
        (put("vm", "net", "vm"), "web/vm properties.net"),
        (put("vm", "ip", "1450"), "web/vm properties.ip"),
        (put("vm", "list", ["a", "b"]), "web/vm properties.list"),
        (put("vm", "more", None), "web/vm properties"),
        (put("vm", "metadata", {"a": ["1"]}), "web/vm metadata.a.0"),
        (put("vm", "update_policy", {}), "web/vm update_policy"),
        (put("vm", "requires", frozenset()), "web/vm requires"),
        (put("net", "nested", HeatStack()), "web/net nested"),
        (put("group", "nested", Refused("no")), "web/group nested"),
        (lambda answer: answer.resources.pop("net"), "web/net"),
        (lambda answer: answer.resources.update(other=answer.resources["net"]), "web/other"),
        (lambda answer: answer.resources["group"].nested.resources.pop("1"), "web/group/1"),
        (lambda answer: put("0", "value", "1")(answer.resources["group"].nested), "web/group/0 properties.value"),
        (lambda answer: answer.parameters.update(size=3), "web parameters.size"),
        (lambda answer: answer.conditions.update(big=False), "web conditions.big"),
        (lambda answer: answer.outputs.update(one="0"), "web output one"),
        (lambda answer: answer.outputs.update(two="0"), "web outputs"),
    ],
)  # fmt: skip
def test_a_difference_is_found_at_its_place(change: Callable[[Any], object], at: str) -> None:
    assert [difference.at for difference in both(change).differences] == [at]


def test_a_difference_in_a_single_shape_is_found() -> None:
    heat = {shape: resolve(TEMPLATE, {}, {}, shape) for shape in SHAPES}
    last = heat["flag"]
    assert isinstance(last, HeatStack)
    put("vm", "count", 2)(last)
    report = compare(read_stack(template=TEMPLATE, stack_name="web"), heat)
    assert [difference.at for difference in report.differences] == ["web/vm properties.count"]


def test_one_shape_alone_shows_no_dependence_on_the_cloud() -> None:
    heat = {"word": resolve(TEMPLATE, {}, {}, "word")}
    assert compare(read_stack(template=TEMPLATE, stack_name="web"), heat).differences == []


def test_a_stack_nested_by_a_property_that_no_value_of_the_cloud_fits_is_a_known_difference() -> None:
    value = {"list_join": [",", [{"str_split": ["a", {"get_attr": ["net"]}]}]]}
    resources = {"net": {"type": "Unheard::Of"}, "two": {"type": "below.yaml", "properties": {"passed": value}}}
    text = json.dumps({"heat_template_version": "2015-10-15", "resources": resources})
    below = json.dumps({"heat_template_version": "newton", "parameters": {"passed": {"type": "string"}}})
    differences = compare_body(text, {}, {"below.yaml": below}).differences
    name = "function that takes nothing of what the cloud may say"
    assert {difference.at: category(difference) for difference in differences} == {
        "web/two properties.passed": name,
        "web/two nested": name,
    }


def test_the_attribute_of_members_without_their_value_is_a_known_difference() -> None:
    member = {"type": "OS::Heat::Value", "properties": {"value": None}}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": member}}
    outputs = {"out": {"value": {"get_attr": ["group", "value"]}}}
    text = json.dumps({"heat_template_version": "newton", "resources": {"group": group}, "outputs": outputs})
    differences = compare_body(text, {}, {}).differences
    assert [(difference.ours, category(difference)) for difference in differences] == [
        ([None, None], "parameter of a nested template without a value")
    ]


def test_equal_unknowns_must_be_equal_in_heat() -> None:
    ours = TEMPLATE.replace("list: [a]", "list: [{get_attr: [net, mtu]}]")
    heat = {
        shape: resolve(TEMPLATE.replace("list: [a]", "list: [{get_attr: [net, name]}]"), {}, {}, shape)
        for shape in SHAPES
    }
    report = compare(read_stack(template=ours, stack_name="web"), heat)
    assert [difference.at for difference in report.differences] == ["web/vm properties.list.0 and web/vm properties.ip"]


@pytest.mark.parametrize(
    ("ours", "theirs", "differs"),
    [
        ("{get_param: none}", "{get_param: none}", False),
        ("{get_param: none}", "{get_param: size}", True),
        ("{get_param: size}", "{get_param: none}", True),
        ("{digest: [none, x]}", "{digest: [md5, x]}", True),
    ],
)
def test_a_refusal_must_be_shared(ours: str, theirs: str, differs: bool) -> None:
    mine, heat = (TEMPLATE.replace("list: [a]", f"list: [{item}]") for item in (ours, theirs))
    answers = {shape: resolve(heat, {}, {}, shape) for shape in SHAPES}
    assert bool(compare(ours_of(template=mine), answers).differences) is differs
