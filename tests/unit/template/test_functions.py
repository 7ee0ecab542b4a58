"""Template functions give the values of Heat's own classes."""

from __future__ import annotations

import pytest

from datalog_gate.base.errors import InputError
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.files.templates import read_stack
from datalog_gate.stack.model import Data
from tests.expressions import as_words, unknown_of, worded
from tests.refusals import refusals

PARAMETERS: dict[str, Data] = {
    "l": {"type": "comma_delimited_list", "default": "a,b"},
    "j": {"type": "json", "default": {"a": {"b": 5}}},
    "n": {"type": "number", "default": "8080"},
    "flag": {"type": "boolean", "default": "on"},
    "key": {"type": "string"},
    "env": {"type": "string"},
    "pw": {"type": "string", "default": "s3cret", "hidden": True},
}
CONDITIONS: dict[str, Data] = {
    "always": {"equals": ["a", "a"]},
    "never": {"not": "always"},
    "prod": {"equals": [{"get_param": "env"}, "prod"]},
}


def resolved(expression: Data) -> Data:
    """The value of an expression in a template of the newest version."""
    template: dict[str, Data] = {
        "heat_template_version": "wallaby",
        "parameters": PARAMETERS,
        "conditions": CONDITIONS,
        "resources": {
            "net": {"type": "OS::Neutron::Net"},
            "off": {"type": "OS::Neutron::Net", "condition": "never"},
            "value": {"type": "OS::Heat::Value", "properties": {"value": "7", "type": "number"}},
            "r": {"type": "Acme::Any", "properties": {"p": expression}},
        },
    }
    stack = read_stack(template, stack_name="web")
    return stack.resources[-1].properties.get("p", "omitted")


def test_what_is_left_out_of_nothing_is_not_looked_at() -> None:
    joined: dict[str, Data] = {"list_join": ["-", {"list_concat_unique": [["a"]]}]}  # newer than ocata
    resources: dict[str, Data] = {
        "nothing": {"type": "OS::Heat::Value", "properties": {"value": {"filter": [[joined], False]}}},
        "something": {"type": "OS::Heat::Value", "properties": {"value": {"filter": [[joined], ["a"]]}}},
    }
    template: dict[str, Data] = {"heat_template_version": "ocata", "resources": resources}
    with pytest.raises(InputError) as error:
        read_stack(template, stack_name="web")
    message = "`list_concat_unique` is there from version 2017-09-01; this template is ocata"
    assert [problem.message for problem in error.value.diagnostics] == [message]
    del resources["something"]
    assert read_stack(template, stack_name="web").resources[0].properties["value"] is False


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ({"get_param": "n"}, 8080),
        ({"get_param": "flag"}, True),
        ({"get_param": ["l", "1"]}, "b"),
        ({"get_param": ["j", "a", "b"]}, 5),
        ({"get_param": "OS::stack_name"}, "web"),
        ({"get_resource": "net"}, ResourceId("web/net")),
        ({"get_attr": ["value", "value"]}, "7"),
        ({"list_join": [",", {"if": ["never", ["a"]]}]}, ""),
        ({"list_join": [",", ["a", None, "b"], ["c"], [{"x": 1}]]}, 'a,,b,c,{"x": 1}'),
        ({"str_replace": {"template": "$a-$ab-$a", "params": {"$a": "1", "$ab": "$a"}}}, "1-$a-1"),
        (
            {"str_replace": {"template": "x y z", "params": {"x": True, "y": None, "z": [1, {"b": 2}]}}},
            'True  [1, {"b": 2}]',
        ),
        ({"str_replace": {"template": "known", "params": {"x": {"get_param": "key"}}}}, "known"),
        ({"yaql": {"expression": "$.data", "data": {"if": ["never", "x"]}}}, None),
        ({"yaql": {"expression": "$.data.len()", "data": ["x", {"if": ["never", "x"]}]}}, 1),
        ({"contains": [{"if": ["never", "x"]}, ["x", None]]}, True),
        ({"repeat": {"for_each": {"x": ["a", "b"]}, "template": {"if": ["never", "x"]}}}, [None, None]),
        ({"str_split": [",", "a,b,c"]}, ["a", "b", "c"]),
        ({"str_split": [",", "a,b,c", "-1"]}, "c"),
        ({"list_concat": [["a"], None, ["b", 1]]}, ["a", "b", 1]),
        ({"list_concat_unique": [[{"a": 1}, "b"], [{"a": 1}]]}, [{"a": 1}, "b"]),
        ({"filter": [[{"get_param": "key"}, "a"], ["a"]]}, []),
        ({"map_merge": [{"a": 1, "b": 2}, None, {"b": 3}]}, {"a": 1, "b": 3}),
        ({"map_replace": [{"a": "x", "b": [1]}, {"keys": {"a": "z"}, "values": {"x": "y"}}]}, {"z": "y", "b": [1]}),
        ({"repeat": {"for_each": {"a": ["1", "2"], "b": ["x"]}, "template": {"ka": "b"}}}, [{"k1": "x"}, {"k2": "x"}]),
        (
            {"repeat": {"for_each": {"a": ["1", "2"], "b": ["x", "y"]}, "template": "ab", "permutations": False}},
            ["1x", "2y"],
        ),
        ({"repeat": {"for_each": {"%a%": {"q": 1, "r": 2}}, "template": "v%a%"}}, ["vq", "vr"]),
        ({"digest": ["md5", "hello"]}, "5d41402abc4b2a76b9719d911017c592"),
        ({"filter": [["a"], ["a", "b", "a"]]}, ["b"]),
        ({"filter": [{"str_split": ["a", None]}, []]}, []),
        ({"contains": ["a", ["a", {"get_param": "key"}]]}, True),
        ({"make_url": {"username": "u s", "password": "p/w", "host": "::1", "port": 80}}, "//u%20s:p%2Fw@[::1]:80"),
        ({"make_url": {"scheme": "http", "host": "h", "path": "/a b", "query": {"k": "v/w"}}}, "http://h/a%20b?k=v/w"),
        ({"if": ["always", "A", "B"]}, "A"),
        ({"if": [{"and": ["never", "prod"]}, "A", "B"]}, "B"),
        ({"if": ["prod", "same", "same"]}, "same"),
        ({"if": ["never", "A"]}, "omitted"),
        ([{"if": ["never", "A"]}, "z"], ["z"]),
        ({"equals": ["a", "a"]}, {"equals": ["a", "a"]}),
        ({"if": [{"equals": [[{"get_param": "env"}, "a"], ["x", "b"]]}, 1, 2]}, 2),
        ({"list_join": [",", ["a"]], "other": 1}, {"list_join": [",", ["a"]], "other": 1}),
    ],
)
def test_a_function_has_the_value_that_heat_gives_it(expression: Data, value: Data) -> None:
    actual = resolved(expression)
    assert (type(actual), actual) == (type(value), value)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ({"get_param": "key"}, "{get_param: key} in web"),
        ({"get_param": "OS::project_id"}, "{get_param: OS::project_id} in web"),
        ({"get_attr": ["net", "mtu"]}, "{get_attr: [net, mtu]} in web"),
        ({"list_join": ["-", ["a b", {"get_param": "key"}]]}, '{list_join: ["-", ["a b", {get_param: key}]]} in web'),
        (
            {"str_replace": {"template": "K", "params": {"K": {"get_param": "key"}}}},
            '{str_replace: {params: {"K": {get_param: key}}, template: K}} in web',
        ),
        ({"map_merge": [{"get_param": "key"}]}, "{map_merge: [{get_param: key}]} in web"),
        ({"if": ["prod", 1, 2]}, "{if: [{equals: [{get_param: env}, prod]}, 1, 2]} in web"),
        ({"yaql": {"expression": "now()", "data": "true"}}, '{yaql: {data: "true", expression: "now()"}} in web'),
        (
            {"list_join": ["", [{"get_param": "pw"}, "-s3cret", {"get_param": "key"}]]},
            '{list_join: ["", [{get_param: pw}, "-" + {get_param: pw}, {get_param: key}]]} in web',
        ),
        ({"contains": ["x", [{"get_param": "key"}]]}, "{contains: [x, [{get_param: key}]]} in web"),
        ({"resource_facade": "metadata"}, "{resource_facade: metadata} in web"),
        ({"get_file": "https://example.com/x"}, "{get_file: https://example.com/x} in web"),
    ],
)  # fmt: skip
def test_an_unknown_is_written_as_its_function(expression: Data, text: str) -> None:
    assert as_words(resolved(expression)) == worded(text)


def test_long_unknowns_that_differ_stay_different() -> None:
    first, other = (resolved({"list_join": ["", [{"get_param": "key"}, "x" * 300 + end]]}) for end in "ab")
    assert isinstance(first, Unknown)
    assert first != other
    assert len(first.expression) < 220


def test_what_is_known_beside_an_unknown_stays_known() -> None:
    key = unknown_of("{get_param: key} in web")
    merged = resolved({"map_merge": [{"a": {"get_param": "key"}}, {"b": [1, {"get_param": "key"}]}]})
    repeated = resolved(
        {"repeat": {"for_each": {"%p%": ["1"]}, "template": {"port": "%p%", "net": {"get_resource": "net"}}}}
    )
    assert merged == {"a": key, "b": [1, key]}
    assert repeated == [{"port": "1", "net": ResourceId("web/net")}]


def test_a_repeated_unknown_differs_by_what_replaces_its_names() -> None:
    template = {"repeat": {"for_each": {"%p%": ["1", "2"]}, "template": {"get_param": "key"}}}
    texts = [f'{{str_replace: {{params: {{"%p%": "{n}"}}, template: {{get_param: key}}}}}} in web' for n in "12"]
    assert as_words(resolved(template)) == [worded(text) for text in texts]


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ({"get_param": "kay"}, "bad-reference"),
        ({"get_resource": "nte"}, "bad-reference"),
        ({"get_attr": "net"}, "bad-function"),
        ({"get_file": "none.txt"}, "missing-file"),
        ({"get_file": ["x"]}, "bad-function"),
        ({"if": ["no_such", 1, 2]}, "bad-reference"),
        ({"if": ["always"]}, "bad-function"),
        ({"list_join": [",", "abc"]}, "bad-function"),
        ({"str_replace": {"template": "x", "params": {"": "y"}}}, "bad-function"),
        ({"str_replace_strict": {"template": "a", "params": {"zz": "1"}}}, "bad-function"),
        ({"str_replace_strict": {"template": "a", "params": {"a": {"get_param": "key"}, "b": 1}}}, "bad-function"),
        ({"str_replace_vstrict": {"template": "a", "params": {"a": ""}}}, "bad-function"),
        ({"str_replace": {"template": "a", "params": {"a": {1: "x", "b": "y"}}}}, "bad-function"),
        ({"list_join": [",", [{None: "x", 1: "y"}]]}, "bad-function"),
        ({"if": [{"not": None}, 1, 2]}, "bad-function"),
        ({"if": [{"and": ["never", {"equals": [{"get_param": "absent"}, 1]}]}, 1, 2]}, "bad-reference"),
        ({"yaql": {"expression": 5}}, "bad-function"),
        ({"str_split": [",", "a", 4]}, "bad-function"),
        ({"map_merge": [["a"]]}, "bad-function"),
        ({"map_replace": [{"a": 1, "b": 2}, {"keys": {"a": "b"}}]}, "bad-function"),
        ({"repeat": {"for_each": {"%a%": [1]}, "template": "%a%"}}, "bad-function"),
        ({"repeat": {"for_each": {"a": ["b"] * 900, "c": ["d"] * 900}, "template": "a"}}, "too-large"),
        ({"str_replace": {"template": "x" * 9000, "params": {"x": "y" * 9000}}}, "too-large"),
        ({"filter": [[{"a": str(n)} for n in range(400)], [{"b": "c"}] * 400]}, "too-large"),
        ({"str_replace": {"template": "x" * 9000, "params": {f"y{n}": "z" for n in range(20000)}}}, "too-large"),
        ({"digest": ["none", "x"]}, "bad-function"),
        ({"make_url": {"port": 70000}}, "bad-function"),
        ({"contains": ["a", 5]}, "bad-function"),
        ({"resource_facade": "name"}, "bad-function"),
    ],
)
def test_arguments_that_heat_refuses_are_refused(expression: Data, code: str) -> None:
    assert refusals(lambda: resolved(expression), "code") == [code]


KEYS = """\
heat_template_version: wallaby
conditions: {same: {equals: [{1: a, ~: b}, {'1': a, 'null': b}]}}
resources:
  r: {type: A, condition: same, metadata: {true: x}, properties: {m: {map_replace: [{v: 1}, {values: {1: 2}}]}}}
  n: {type: n.yaml, properties: {1: a, b: c}}
"""
NESTED = "heat_template_version: wallaby\nparameters: {'1': {type: string}, b: {type: string}}\n"


def test_keys_are_texts_as_where_heat_builds_from_json() -> None:
    stack = read_stack(template=KEYS, files={"n.yaml": NESTED}, stack_name="web")
    r, n = stack.resources
    assert (r.metadata, r.properties, stack.conditions) == ({"true": "x"}, {"m": {"v": 1}}, {"same": True})
    assert n.nested
    assert [(parameter.name, parameter.value) for parameter in n.nested.parameters] == [("1", "a"), ("b", "c")]
    text = KEYS.replace("{true: x}", "{true: x, 'true': y}")
    stack = read_stack(template=text, files={"n.yaml": NESTED})
    assert stack.resources[0].metadata == {"true": "y"}
    assert [str(warning.span) for warning in stack.warnings] == ["<template>:4:53"]


CFN = """\
AWSTemplateFormatVersion: '2010-09-09'
Parameters:
  Size: {Type: Number, Default: 2}
  Key: {Type: String, NoEcho: 'true', Default: hush}
Mappings:
  Images: {small: {id: img-1}}
Conditions:
  Big: {'Fn::Equals': [{Ref: Size}, 2]}
Resources:
  Net: {Type: 'OS::Neutron::Net'}
  R:
    Type: OS::Heat::None
    DependsOn: Net
    Properties:
"""


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("{Ref: Size}", 2),
        ("{Ref: Net}", ResourceId("web/Net")),
        ("{Ref: 'AWS::StackName'}", "web"),
        ("{Ref: 'AWS::Region'}", "ap-southeast-1"),
        ("{'Fn::GetAtt': [Net, mtu]}", unknown_of("{Fn::GetAtt: [Net, mtu]} in web")),
        ("{'Fn::Join': ['-', [a, b]]}", "a-b"),
        ("{'Fn::Select': ['1', [a, b]]}", "b"),
        ("{'Fn::Select': [k, '{\"k\": 3}']}", 3),
        ("{'Fn::Select': ['9', [a]]}", ""),
        ("{'Fn::FindInMap': [Images, small, id]}", "img-1"),
        ("{'Fn::Split': [',', 'a,b']}", ["a", "b"]),
        ("{'Fn::Replace': [{x: y}, xx]}", "yy"),
        ("{'Fn::Base64': text}", "text"),
        ("{'Fn::If': [Big, 1, 2]}", 1),
        ("{get_param: Size}", {"get_param": "Size"}),
    ],
)
def test_templates_of_the_other_kind_have_their_own_functions(expression: str, value: Data) -> None:
    resource = read_stack(f"{CFN}      p: {expression}\n", stack_name="web").resources[1]
    assert (resource.properties["p"], "Net" in resource.requires) == (value, True)
