"""Names of any characters that Heat takes, in unknowns and messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import datalog_gate as dg
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Stack
from datalog_gate.stack.update import outcomes

AWKWARD = [
    "a in b",
    "a=b",
    'a"b',
    "a'b",
    "a, b",
    "a]b",
    "a}b",
    "{a: b}",
    "a:b",
    "a.b",
    "a?",
    "a+b",
    "a#b",
    "...#",
    "ä b",
]
AWKWARD += ["ä b", "not", "null", "true", "1", "%index%", "get_param", "\\", "web", "a\nb", "in", " in web"]
AWKWARD += ["} in web", "a=1"]
NAMES = st.sampled_from(AWKWARD) | st.text(
    st.characters(exclude_characters="/", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8
)
"""Names of resources: Heat refuses a slash (heat/engine/resource.py:198)."""
ALL_NAMES = NAMES | st.sampled_from(["a/b", "/", "a in b/c"])
RULES = """
@deny("named", "{name}")
named(s, name) :- os:neutron:net(_id=s, name=name), name = "bad".
"""


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parameter=ALL_NAMES, condition=ALL_NAMES, resource=NAMES, other=NAMES, output=ALL_NAMES)
@example(parameter="a in b", condition="c", resource="r=1", other="o=1", output="p")
@example(parameter="x", condition="a in b", resource="r", other='a"b', output="p")
def test_findings_name_what_they_depend_on_and_assuming_it_settles_them(
    parameter: str, condition: str, resource: str, other: str, output: str, tmp_path: Path
) -> None:
    second = f"{resource}-2"
    assume(len({resource, second, other}) == 3)
    (tmp_path / "m.dl").write_text(RULES)
    rules = dg.load_rules(tmp_path / "m.dl")
    text = template(parameter, condition, resource, other, output)
    stack = dg.read_stack(template=text, stack_name="web")
    found = {
        violation.resource.path: violation
        for violation in rules.decide(stack, explain=True).undetermined
        if violation.resource
    }
    assert {path: violation.depends for path, violation in found.items()} == {
        f"web/{resource}": f"depends on parameter {parameter}",
        f"web/{second}": f"depends on condition {condition} and mtu of `{other}`",
    }
    for path, violation in found.items():
        values = [f"{unknown.expression}={'true' if unknown.domain else 'bad'}" for unknown in violation.because]
        decision = rules.decide(dg.read_stack(template=text, stack_name="web", assume=values))
        assert [finding.resource.path for finding in decision.violations if finding.resource] == [path]
    changes = outcomes([stack], [dg.read_stack(template=text, stack_name="web")], SHIPPED)
    assert {outcome.of.name: list(outcome.changes) for outcome in changes} == {
        name: ["unchanged"] for name in (resource, second, other)
    }


@settings(max_examples=40)
@given(resource=NAMES, other=NAMES)
@example(resource="a", other="a in web")
def test_only_what_reads_a_changed_resource_may_change(resource: str, other: str) -> None:
    assume(len({resource, other, "reader", "bystander"}) == 4)

    def read(name: str) -> Stack:
        properties = {
            resource: {"name": name},
            other: {},
            "reader": {"name": {"get_attr": [resource, "mtu"]}},
            "bystander": {"name": {"get_attr": [other, "mtu"]}},
        }
        resources = {key: {"type": "OS::Neutron::Net", "properties": value} for key, value in properties.items()}
        return dg.read_stack(template={"heat_template_version": "2018-08-31", "resources": resources}, stack_name="web")

    changes = outcomes([read("before")], [read("after")], SHIPPED)
    assert {outcome.of.name: list(outcome.changes) for outcome in changes} == {
        resource: ["update"],
        other: ["unchanged"],
        "reader": ["unchanged", "update"],
        "bystander": ["unchanged"],
    }


def test_the_longest_expression_that_an_equals_sign_follows_is_assumed() -> None:
    """A member of a group may be called `g=1`, so that one stack's id begins with another's."""
    nested = {
        "heat_template_version": "2018-08-31",
        "parameters": {"p": {"type": "string"}},
        "resources": {"net": {"type": "OS::Neutron::Net", "properties": {"name": {"get_attr": ["src", "mtu"]}}}},
    }
    nested["resources"]["src"] = {"type": "OS::Neutron::Net"}  # type: ignore[index]
    held = {"type": "nested.yaml", "properties": {"p": "x"}}
    text = {"heat_template_version": "2018-08-31", "resources": {"a": held, "a=b": held}}
    stack = dg.read_stack(
        template=text,
        files={"nested.yaml": yaml.safe_dump(nested)},
        stack_name="web",
        assume=["{get_attr: [src, mtu]} in web/a=b=c"],
    )
    names = {
        resource.id.path: resource.properties["name"]
        for part in stack.walk()
        for resource in part.resources
        if resource.name == "net"
    }
    assert names["web/a=b/net"] == "c"
    assert names["web/a/net"] != "b=c"


def template(parameter: str, condition: str, resource: str, other: str, output: str) -> dict[str, Any]:
    """Two nets of which nobody knows the name, and a third that one of them reads."""
    network = "OS::Neutron::Net"
    return {
        "heat_template_version": "2018-08-31",
        "parameters": {
            parameter: {"type": "string"},
            f"{parameter}-2": {"type": "string"},
        },
        "conditions": {condition: {"equals": [{"get_param": f"{parameter}-2"}, "a"]}},
        "resources": {
            resource: {"type": network, "properties": {"name": {"get_param": parameter}}},
            f"{resource}-2": {
                "type": network,
                "condition": condition,
                "properties": {"name": {"get_attr": [other, "mtu"]}},
            },
            other: {"type": network},
        },
        "outputs": {output: {"value": {"get_attr": [resource, "mtu"]}}},
    }
