"""Bypasses of the filters by templates or environments.

Each is sent over HTTP before Heat's convergence engine, and is refused with its reason or judged as Heat builds it.
Afterwards no stack of Heat has a violation.
"""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.heat.doors.rig import Heat
from tests.heat.doors.templates import CLEAN, LONG, OF_PARAMETER, refusal, string, template, why

TYPE = "OS::Heat::RandomString"
NONE = "OS::Heat::None"
SALTED = {
    "heat_template_version": "2018-08-31",
    "parameters": {
        "salt": {"type": "string", "default": "", "hidden": True},
        "length": {"type": "number", "default": 8},
    },
    "resources": {"s": string({"get_param": "length"}, {"get_param": "salt"})},
}
UNSALTED = {**SALTED, "resources": {"s": string({"get_param": "length"})}}
YAML = "heat_template_version: 2018-08-31\nresources:\n  s:\n    type: OS::Heat::RandomString\n    properties: {length: 64}\n"
CANNOT = "The stack can't be read: "
AT, MEMBER = "resources.s.properties.length", "resources.g.properties.resource_def.properties.length"
LENGTH = "The policies deny this stack: length: {} has 64 characters at {} (32 are enough)"
UNREAD = (
    "The policies can't judge what depends on what {} holds: send that template among the files of the request, and "
    "name it as the type"
)


def typed(kind: str) -> dict[str, Any]:
    """LONG, with another name for its type."""
    return template(s={**string(64), "type": kind})


def registry(**entries: Any) -> dict[str, Any]:
    return {"resource_registry": entries}


@dataclass(frozen=True)
class Try:
    """The body of a creation, or of an update of a clean stack, and its refusal. `{}` in a reason is the stack's name.
    `merged` is the reason if Heat would merge the body, since merged values have no places."""

    body: dict[str, Any]
    reason: str = LENGTH.format("s", AT)
    code: int = 403
    merged: str = ""


def group(kind: str, **properties: Any) -> dict[str, Any]:
    return template(g={"type": kind, "properties": properties})


TRIES: dict[str, Try] = {
    "alias": Try({"template": typed("My::Thing"), "environment": registry(**{"My::Thing": TYPE})}),
    "alias of an alias": Try({"template": typed("A::B"), "environment": registry(**{"A::B": "C::D", "C::D": TYPE})}),
    "wildcard": Try({"template": typed("My::Heat::RandomString"), "environment": registry(**{"My::*": "OS::*"})}),
    "mapping of one resource": Try({"template": typed(NONE), "environment": registry(resources={"s": {NONE: TYPE}})}),
    "mapping of a nested resource by pattern": Try(
        {"template": template(n={"type": "n.yaml"}), "files": {"n.yaml": json.dumps(typed(NONE))}, "environment": registry(resources={"[mn]*": {"s": {NONE: TYPE}}})},
        LENGTH.format("s", f"n.yaml:{AT}")),
    "nested template": Try(
        {"template": template(n={"type": "n.yaml"}), "files": {"n.yaml": json.dumps(LONG)}}, LENGTH.format("s", f"n.yaml:{AT}")),
    "nested template by an alias": Try(
        {"template": template(n={"type": "My::N"}), "environment": registry(**{"My::N": "n.yaml"}), "files": {"n.yaml": YAML}},
        LENGTH.format("s", "n.yaml:5:26")),
    "member of a group": Try(
        {"template": group("OS::Heat::ResourceGroup", count=1, resource_def=string(64))}, LENGTH.format("{}/g/0", MEMBER)),
    **{f"member of a group of {count!r}": Try({"template": group("OS::Heat::ResourceGroup", count=count, resource_def=string(64))}, LENGTH.format("{}/g/0", MEMBER))
       for count in (True, "+1", " 01 ", "\uff11", 1.5)},
    "member of an autoscaling group": Try(
        {"template": group("OS::Heat::AutoScalingGroup", min_size=1, max_size=2, resource=string(64))},
        LENGTH.format("{}/g/0", MEMBER.replace("_def", ""))),
    **{f"nested parameter named {name}": Try(
        {"template": template(n={"type": "n.yaml", "properties": {name: {"length": 64}}}),
         "files": {"n.yaml": json.dumps({**OF_PARAMETER, "parameters": {"length": {"type": "number", "default": 8}, name: {"type": "json", "default": {}}}})}},
        f"{CANNOT}resources.n.properties.{name}: Heat reads the parameter `{name}` of a nested template as that section of an environment (give the parameter another name)", 400)
       for name in ("parameters", "parameter_defaults", "resource_registry")},
    "a base_url that only the client looks at": Try(
        {"template": template(n={"type": "My::T"}), "environment": registry(**{"base_url": "sub", "My::T": "n.yaml"}),
         "files": {"n.yaml": json.dumps(LONG), "sub/n.yaml": json.dumps(CLEAN)}}, LENGTH.format("s", f"n.yaml:{AT}")),
    "two merge keys in one mapping": Try(
        {"template": YAML.replace("length: 64", "<<: {length: 8}, <<: {length: 64}")}, LENGTH.format("s", "<template>:5:48")),
    "the tag of nothing in particular": Try(
        {"template": YAML.replace("length: 64", "length: {if: [{equals: [! 1, 1]}, 64, 8]}")}, LENGTH.format("s", "<template>:5:26")),
    "a wildcard without an effect": Try(
        {"template": typed("My::X"), "environment": registry(**{"My::*": "OS::Heat::*", "My::X": TYPE})}),
    "an environment in JSON": Try(
        {"template": {**template(s=string({"if": [{"equals": [{"get_param": "p"}, "1e1"]}, 64, 8]})), "parameters": {"p": {"type": "string"}}},
         "environment": '{"parameters": {"p": 1e1}}'}),
    "echo attribute": Try(
        {"template": template(v={"type": "OS::Heat::Value", "properties": {"value": 64}}, s=string({"get_attr": ["v", "value"]}))}),
    **{f"length as {text!r}": Try({"template": template(s=string(text))}) for text in ("6_4", " +064 ", "\uff16\uff14", 64.5)},
    **{f"length in YAML as {text}": Try({"template": YAML.replace("length: 64", text)}, LENGTH.format("s", "<template>:5:26"))
       for text in ("length: 0x40", "length: 0100", "length: 1:04", "length: !!int '64'")},
    "length twice in YAML": Try(
        {"template": YAML.replace("length: 64", "length: 8, length: 64")}, LENGTH.format("s", "<template>:5:37")),
    "a template in JSON with a key twice": Try(
        {"template": '{"heat_template_version": "2018-08-31", "description": "a", "description": "b", "resources": '
                     f'{{"s": {{"type": "{TYPE}", "properties": {{"length": 6.4e1}}}}}}}}'},
        LENGTH.format("s", "resources.s.properties.length")),
    "a facade in a member of a group": Try(
        {"template": group("OS::Heat::ResourceGroup", count=1, resource_def={"type": "n.yaml", "metadata": {"length": 64}}),
         "files": {"n.yaml": json.dumps(template(s=string({"yaql": {"expression": "$.data.get(length, 8)", "data": {"resource_facade": "metadata"}}})))}},
        LENGTH.format("s", f"n.yaml:{AT}")),
    "template of another format": Try(
        {"template": {"HeatTemplateFormatVersion": "2012-12-12", "Resources": {"s": {"Type": TYPE, "Properties": {"length": {"Fn::Select": ["1", ["8", "64"]]}}}}}},
        LENGTH.format("s", "Resources.s.Properties.length")),
    "parameter": Try({"template": OF_PARAMETER, "parameters": {"length": 64}}),
    "parameter in the environment": Try({"template": OF_PARAMETER, "environment": {"parameters": {"length": 64}}}),
    "environment as text": Try(
        {"template": OF_PARAMETER, "environment": "parameters: {length: 64}"}, LENGTH.format("s", "<environment>:1:22"), merged=LENGTH.format("s", AT)),
    "parameter_defaults": Try({"template": OF_PARAMETER, "environment": {"parameter_defaults": {"length": 64}}}),
    "environment_files over parameters": Try(
        {"template": OF_PARAMETER, "parameters": {"length": 8}, "environment": {"parameters": {"length": 8}},
         "environment_files": ["e"], "files": {"e": "parameters: {length: 64}"}},
        LENGTH.format("s", "e:1:22"), merged=LENGTH.format("s", AT)),
    "YAML text": Try({"template": YAML}, LENGTH.format("s", "<template>:5:26")),
    "JSON text": Try({"template": json.dumps(LONG)}, LENGTH.format("s", AT)),
    "template_url": Try({"template_url": "http://127.0.0.1:1/t"}, f"{CANNOT}the policies can't judge a stack given by template_url (send the template itself: heat stack create -t FILE reads an address for you)", 400),
    "nested template at an address": Try(
        {"template": template(n={"type": "AWS::CloudFormation::Stack", "properties": {"TemplateURL": "http://127.0.0.1:1/t"}})}, UNREAD.format("{}/n"), 400),
    "alias of a nested template at an address": Try(
        {"template": template(n={"type": "A::B", "properties": {"TemplateURL": "http://127.0.0.1:1/t"}}),
         "environment": registry(**{"A::B": "AWS::CloudFormation::Stack"})}, UNREAD.format("{}/n"), 400),
    "type at an address": Try({"template": template(n={"type": "http://127.0.0.1:1/t.yaml"})}, UNREAD.format("http://127.0.0.1:1/t.yaml"), 400),
    "look-alike letters, mapped": Try({"template": typed("OS::Heat::R\u0430ndomString"), "environment": registry(**{"OS::Heat::R\u0430ndomString": TYPE})}),
}  # fmt: skip


@pytest.mark.parametrize("case", TRIES)
def test_no_creation_bypasses_the_filter(filtered: Heat, case: str) -> None:
    attempt, name = TRIES[case], filtered.name()
    with filtered.unchanged():
        for path in ("stacks", "stacks/preview"):
            answer = filtered.ask("POST", path, stack_name=name, **attempt.body)
            assert refusal(answer) == (attempt.code, attempt.reason.replace("{}", name))


@pytest.mark.parametrize("case", TRIES)
def test_no_update_bypasses_the_filter(filtered: Heat, existing: str, case: str) -> None:
    attempt = TRIES[case]
    expected = attempt.code, attempt.reason.replace("{}", existing)
    merged = attempt.code, (attempt.merged or attempt.reason).replace("{}", existing)
    with filtered.unchanged():
        assert refusal(filtered.on(existing, "PUT", **attempt.body)) == expected
        assert refusal(filtered.on(existing, "PUT", converge=True, **attempt.body)) == expected
        assert refusal(filtered.on(existing, "PATCH", **attempt.body)) == merged
        assert refusal(filtered.on(existing, "PUT", existing=True, **attempt.body)) == merged
    assert (filtered.on(existing, "GET", "/template").json(), filtered.lengths(existing)) == (OF_PARAMETER, [8])


ADOPTED = json.dumps({"name": "x", "template": LONG, "environment": {}, "resources": {}})
ELSEWHERE = f"{CANNOT}adopt_stack_data is only allowed in the creation of a stack"


def test_adoption_judges_the_adopted_stack_not_the_template(filtered: Heat) -> None:
    plain_data = json.dumps({"template": OF_PARAMETER, "environment": {"parameters": {"length": 64}}})
    mapped = json.dumps({"template": typed("My::S"), "environment": registry(**{"My::S": TYPE})})
    with filtered.unchanged():
        for data in (ADOPTED, plain_data):
            _, answer = filtered.create(CLEAN, adopt_stack_data=data)
            assert refusal(answer) == (403, why())
        _, answer = filtered.create(CLEAN, adopt_stack_data=mapped)  # Heat takes its parameters alone
        message = "The Resource Type (My::S) could not be found."
        assert (answer.status_code, answer.json()["error"]["message"]) == (400, message)


def test_an_update_adopts_nothing(filtered: Heat, existing: str) -> None:
    with filtered.unchanged():
        for method, path in (("PUT", ""), ("PATCH", ""), ("PUT", "/preview"), ("PATCH", "/preview")):
            answer = filtered.on(existing, method, path, template=CLEAN, adopt_stack_data=ADOPTED)
            assert refusal(answer) == (400, ELSEWHERE)
        assert refusal(filtered.ask("POST", "validate", template=CLEAN, adopt_stack_data=ADOPTED)) == (400, ELSEWHERE)


def test_types_with_look_alike_letters_are_unknown(filtered: Heat) -> None:
    with filtered.unchanged():
        for kind in ("OS::Heat::R\u0430ndomString", "OS\uff1a\uff1aHeat::RandomString", f"{TYPE} ", TYPE.lower()):
            _, answer = filtered.create(typed(kind))
            message = f"The Resource Type ({kind}) could not be found."
            assert (answer.status_code, answer.json()["error"]["message"]) == (400, message)


def test_heat_ignores_a_mapping_for_a_pattern_of_names_in_the_root(filtered: Heat) -> None:
    name, answer = filtered.create(typed(NONE), environment=registry(resources={"*": {NONE: TYPE}}))
    assert (answer.status_code, filtered.ended(name)[0], filtered.lengths(name)) == (201, "CREATE_COMPLETE", [])


def salted(heat: Heat, **parameters: Any) -> str:
    """A stack with a hidden parameter that nothing depends on."""
    return heat.created(UNSALTED, parameters=parameters, tags="x")


def test_a_hidden_value_is_judged_if_the_request_has_it(filtered: Heat) -> None:
    name = salted(filtered, salt="odd one")
    advice = "send the value of the parameter salt with the request, since Heat does not show it"
    unread = 400, f"The policies can't judge what depends on {{get_param: salt}} in {name}: {advice}"
    denied = 403, "The policies deny this stack: salt: s is salted with *** at resources.s.properties.salt"
    with filtered.unchanged():
        assert refusal(filtered.on(name, "PATCH", template=SALTED)) == unread
        assert refusal(filtered.on(name, "PUT", template=SALTED, existing=True)) == unread
        assert refusal(filtered.on(name, "PATCH", template=SALTED, parameters={"salt": "odd two"})) == denied
        assert refusal(filtered.on(name, "PATCH", parameters={"length": 64})) == (403, why())
    assert (filtered.updated(name, parameters={"length": 9})[0], filtered.lengths(name)) == ("UPDATE_COMPLETE", [9])


def test_a_literal_mask_is_an_ordinary_text(filtered: Heat) -> None:
    name = salted(filtered, salt="odd one")
    assert filtered.on(name, "PATCH", template=SALTED, parameters={"salt": "******"}).status_code == 202
    assert filtered.ended(name)[0] == "UPDATE_COMPLETE"
    value = filtered.on(name, "GET", "/resources/s").json()["resource"]["attributes"]["value"]
    assert len(value) == 8
    open_, answer = filtered.create(OF_PARAMETER, parameters={"length": "******"})
    assert (answer.status_code, filtered.stack(open_)) == (400, {})


def test_an_update_of_tags_alone_keeps_the_stack_and_is_judged_with_it(filtered: Heat) -> None:
    name = salted(filtered)
    assert filtered.updated(name, tags="a,b")[0] == "UPDATE_COMPLETE"
    assert (filtered.stack(name)["tags"], filtered.on(name, "GET", "/template").json()) == (["a", "b"], UNSALTED)
    with filtered.unchanged():
        assert refusal(filtered.on(name, "PATCH", tags="c", parameters={"length": 64})) == (403, why())


BOTH: dict[str, Any] = {
    "heat_template_version": "2018-08-31",
    "parameters": {name: {"type": "boolean", "default": False} for name in "xy"},
    "conditions": {"both": {"and": [{"get_param": "x"}, {"get_param": "y"}]}},
    "resources": {"s": string({"if": ["both", 64, 8]})},
}


@pytest.mark.parametrize("hidden", [False, True])
def test_two_updates_at_once_that_are_clean_alone_never_make_a_violating_stack(filtered: Heat, hidden: bool) -> None:
    """With a hidden parameter Heat merges after all, but with a body that says all the other values."""
    secret = {"secret": {"type": "string", "hidden": True, "default": "x"}} if hidden else {}
    both = {**BOTH, "parameters": {**BOTH["parameters"], **secret}}
    values = {"secret": "y"} if hidden else {}
    name = filtered.created(both, parameters=values)

    def switch(parameter: str) -> int:
        return filtered.on(name, "PATCH", parameters={parameter: True}).status_code

    codes = set()
    with ThreadPoolExecutor(2) as threads:
        for _ in range(4):
            codes |= set(threads.map(switch, "xy"))
            assert filtered.ended(name)[0] == "UPDATE_COMPLETE"
            merged = filtered.on(name, "GET", "/environment").json()["parameters"]
            assert (merged.get("x") and merged.get("y"), filtered.lengths(name)) in ((False, [8]), (None, [8]))
            assert filtered.on(name, "PUT", template=both, parameters=values).status_code == 202
            filtered.ended(name)
    assert codes <= {202, 403, 409}
