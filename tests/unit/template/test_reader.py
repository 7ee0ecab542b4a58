"""Templates as stacks: resources, conditions and places."""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

import pytest

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import InputError
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.files.templates import read_stack
from datalog_gate.stack.model import Data, Path, Resource, Stack
from tests.expressions import unknown_of
from tests.refusals import refusals

HEAD = "heat_template_version: wallaby\n"


def read(text: str, **inputs: Data) -> Stack:
    return read_stack(HEAD + text, stack_name="web", **inputs)  # type: ignore[arg-type]


def problems(text: str, **inputs: Data) -> list[tuple[str, int | None, str, str | None]]:
    refused = refusals(lambda: read(text, **inputs), "code", "span", "message", "suggestion")
    return [(code, span and span.line, message, suggestion) for code, span, message, suggestion in refused]


# resources


def test_a_resource_holds_what_its_definition_says() -> None:
    text = """\
description: two resources
resources:
  net: {type: OS::Neutron::Net}
  db:
    type: OS::Nova::Server
    depends_on: net
    deletion_policy: retain
    update_policy: {x: 1}
    metadata: {m: {get_param: OS::stack_name}}
    properties: {net: {get_resource: net}, mtu: {get_attr: [other, mtu]}}
  other: {type: A, external_id: abc}
outputs: {o: {value: {get_attr: [db, addresses]}}}
"""
    stack = read(text)
    assert stack == Stack(
        "web",
        "web",
        None,
        0,
        "wallaby",
        "two resources",
        resources=(
            Resource(ResourceId("web/net"), "net", "OS::Neutron::Net", "OS::Neutron::Net", {}),
            Resource(
                ResourceId("web/db"),
                "db",
                "OS::Nova::Server",
                "OS::Nova::Server",
                {"net": ResourceId("web/net"), "mtu": unknown_of("{get_attr: [other, mtu]} in web")},
                {"net": "explicit", "other": "attribute"},
                metadata={"m": "web"},
                deletion_policy="Retain",
                update_policy={"x": 1},
            ),
            Resource(ResourceId("web/other"), "other", "A", "A", {}, deletion_policy="Retain", external=True),
        ),
        outputs={"o": unknown_of("{get_attr: [db, addresses]} in web")},
        sections=("heat_template_version", "description", "resources", "outputs"),
    )


@pytest.mark.parametrize(
    ("written", "external"),
    [
        ("a-b-c", True),
        ("{get_param: given}", True),
        ("{if: [never, x, null]}", False),
        ("{get_param: open}", unknown_of("{get_param: open} in web")),
    ],
)
def test_what_an_external_id_names_is_taken_as_it_is(written: str, external: bool | Unknown) -> None:
    text = f"""\
parameters: {{given: {{type: string, default: a-b-c}}, open: {{type: string}}}}
conditions: {{never: {{equals: [a, b]}}}}
resources:
  own: {{type: "OS::Neutron::Subnet", external_id: {written}, properties: {{cidr: 10.0.0.0/8}}}}
  reader: {{type: "OS::Heat::Value", properties: {{value: {{get_attr: [own, cidr]}}}}}}
  group:
    type: OS::Heat::ResourceGroup
    external_id: {written}
    properties: {{count: 1, resource_def: {{type: A}}}}
"""
    own, reader, group = read(text).resources
    echoed = "10.0.0.0/8" if external is False else unknown_of("{get_attr: [own, cidr]} in web")
    assert (own.external, group.external, reader.properties["value"]) == (external, False, echoed)


def test_a_template_of_amazons_kind_has_no_external_id() -> None:
    text = """\
AWSTemplateFormatVersion: '2010-09-09'
Resources: {net: {Type: OS::Neutron::Net, external_id: x, "": y, Properties: {name: n}}}
"""
    [net] = read_stack(text).resources
    assert (net.external, net.deletion_policy, net.written(("external_id",), frozenset())) == (False, None, {})


def test_an_output_that_refers_to_what_is_not_built_has_no_value() -> None:
    text = "conditions: {never: false}\nresources: {a: {type: A, condition: never}}\noutputs: {o: {value: {get_resource: a}}}\n"
    assert read(text).outputs == {"o": None}


def test_an_output_that_refers_to_nothing_has_no_value_and_warns() -> None:
    lists = "[a, {get_resource: nte}, {get_param: keys}]"
    stack = read(
        f"parameters: {{key: {{type: string}}}}\nresources: {{net: {{type: A}}}}\noutputs: {{o: {{value: {lists}}}}}\n"
    )
    said = [
        (warning.severity, warning.span and warning.span.line, warning.message, warning.suggestion)
        for warning in stack.warnings
    ]
    assert (stack.outputs, said) == (
        {"o": None},
        [
            ("warning", 4, "there is no resource `nte`: in Heat the output has no value", "did you mean `net`?"),
            ("warning", 4, "there is no parameter `keys`: in Heat the output has no value", "did you mean `key`?"),
        ],
    )


@pytest.mark.parametrize(
    ("resource", "effect"),
    [
        ("type: OS::Heat::None, properties: {a: {get_param: b}}", "Heat does not read it"),
        ("type: Acme::Mapped, properties: {a: {get_param: [b, c]}}", "Heat does not read it"),
        ("type: OS::Neutron::Net, external_id: x, properties: {name: {get_param: b}}", "Heat does not read it"),
        ("type: OS::Neutron::Net, metadata: {a: {get_param: b}}", "Heat finds this only when it creates the resource"),
    ],
)
def test_a_parameter_that_is_none_is_a_warning_where_heat_does_not_read_it(resource: str, effect: str) -> None:
    text = f"heat_template_version: 2018-08-31\nresources: {{r: {{{resource}}}}}\n"
    stack = read_stack(template=text, environment={"resource_registry": {"Acme::Mapped": "OS::Heat::None"}})
    assert [warning.message for warning in stack.warnings] == [f"there is no parameter `b`: {effect}"]


def test_get_attr_takes_a_text_of_a_letter_as_heat_does() -> None:
    text = "resources: {n: {type: A}}\noutputs: {o: {value: {get_attr: n}}}\n"
    assert read(text).outputs == {"o": unknown_of("{get_attr: [n]} in web")}
    refused = refusals(lambda: read_stack(f"heat_template_version: 2014-10-16\n{text}"), "message")
    assert refused == ["`get_attr` takes [resource, attribute, key, ...]"]


@pytest.mark.parametrize("keys", ["1", "1.5", "true", "[x]", "{}", "x, [1]", "x, {}"])
def test_get_attr_takes_a_text_as_attribute_and_texts_or_numbers_as_keys(keys: str) -> None:
    found = problems(f"resources: {{n: {{type: A}}}}\noutputs: {{o: {{value: {{get_attr: [n, {keys}]}}}}}}\n")
    message = "`get_attr` takes a text as the attribute, and texts or numbers as keys"
    assert found == [("bad-function", 3, message, None)]


def test_a_resource_requires_another_for_its_first_reason() -> None:
    values = "[{get_resource: a}, {get_attr: [a, x]}, {get_attr: [{get_resource: a}, x]}]"
    _, other = read(f"resources: {{a: {{type: A}}, b: {{type: A, properties: {{x: {values}}}}}}}\n").resources
    assert other.requires == {"a": "reference"}


def test_a_name_that_is_not_known_yet_refers_to_nothing() -> None:
    text = (
        "parameters: {p: {type: string}}\nresources: {b: {type: A, properties: {x: {get_resource: {get_param: p}}}}}\n"
    )
    [resource] = read(text).resources
    assert isinstance(resource.properties["x"], Unknown)


def test_what_exists_already_requires_nothing() -> None:
    text = "resources: {a: {type: A}, b: {type: A, external_id: x, properties: {p: {get_resource: a}}}}\n"
    assert [resource.requires for resource in read(text).resources] == [{}, {}]


def test_conditions_decide_which_resources_there_are() -> None:
    text = """\
parameters: {env: {type: string}}
conditions: {never: {equals: [a, b]}, prod: {equals: [{get_param: env}, prod]}}
resources:
  absent: {type: A, condition: never}
  untyped: {type: '', condition: never}
  there: {type: A, condition: {not: never}, depends_on: absent}
  perhaps: {type: A, condition: prod}
outputs: {o: {value: 1, condition: never}, p: {value: 1, condition: prod}}
"""
    stack, prod = read(text), unknown_of("{equals: [{get_param: env}, prod]} in web")
    assert [(resource.name, resource.maybe, resource.requires) for resource in stack.resources] == [
        ("there", None, {}),
        ("perhaps", prod, {}),
    ]
    assert stack.conditions == {"never": False, "prod": prod}
    assert stack.outputs == {"o": None, "p": unknown_of("{if: [{equals: [{get_param: env}, prod]}, 1, null]} in web")}


def test_a_template_without_resources_is_a_stack_without_resources() -> None:
    assert read("description: nothing\n").resources == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("resources: {a: {}}\n", ("bad-template", 2, "the resource `a` needs a `type`", None)),
        ("resources: [a]\n", ("bad-template", 2, "the section `resources` must be a map", None)),
        ("conditions: \n", ("bad-template", 2, "the section `conditions` must be a map", None)),
        ("resorces: {}\n", ("bad-template", 2, "a template has no section `resorces`", "did you mean `resources`?")),
        ("resources: {on: {type: A}}\n", ("bad-template", 2, "the name `True` is not a string", "write it in quotes")),
        ("resources: {a: {type: A, propertis: {}}}\n", ("bad-template", 2, "a resource has no key `propertis`", "did you mean `properties`?")),
        ("resources: {a: {type: A, properties: [1]}}\n", ("bad-template", 2, "`properties` of `a` must be a map", None)),
        ("resources: {a: {type: A, properties: }}\n", ("bad-template", 2, "`properties` of `a` must be a map", "leave it out, or give it a value")),
        ("resources: {a: {type: A, metadata: [1]}}\n", ("bad-template", 2, "`metadata` of `a` must be a map", None)),
        ("resources: {a: {type: A, update_policy: x}}\n", ("bad-template", 2, "`update_policy` of `a` must be a map", None)),
        ("resources: {a: {type: A, description: [1]}}\n", ("bad-template", 2, "`description` of `a` must be a text", None)),
        ("resources: {a: {type: A, external_id: 5}}\n", ("bad-template", 2, "`external_id` of `a` must be a text", None)),
        ("resources: {a: {type: A, deletion_policy: [Retain]}}\n", ("bad-template", 2, "`deletion_policy` of `a` must be a text", None)),
        ("resources: {a: {type: A, depends_on: }}\n", ("bad-template", 2, "`depends_on` of `a` must be a name or a list of names", "leave it out, or give it a value")),
        ("resources: {a: {type: A, condition: }}\n", ("bad-template", 2, "`condition` of `a` must be a condition", "leave it out, or give it a value")),
        ("resources: {a: {type: A, deletion_policy: keep}}\n", ("bad-template", 2, "`keep` is not a deletion policy", "use Delete or Retain")),
        ("resources: {a/b: {type: A, properties: {x: 1}}, c: {type: A, properties: {x: {get_resource: a/b}}}}\n", ("bad-template", 2, "a resource's name can't contain a slash: `a/b`", None)),
        ("resources: {server: {type: A, depends_on: servre}}\n", ("bad-reference", 2, "there is no resource `servre`", "did you mean `server`?")),
        ("parameters: {p: {type: string, default: a}}\nresources: {a: {type: A}, b: {type: A, depends_on: {get_param: p}}}\n", ("bad-template", 3, "`depends_on` takes a name or a list of names, not a function", None)),
        ("resources: {a: {type: A}, b: {type: A, depends_on: [a, {get_resource: a}]}}\n", ("bad-template", 2, "`depends_on` takes a name or a list of names, not a function", None)),
        ("resources: {a: {type: A, properties: {x: {get_resource: b}}}, b: {type: A, properties: {x: {get_resource: a}}}}\n", ("bad-reference", 2, "resources depend on each other: a -> b -> a", None)),
        ("resources: {a: {type: A, depends_on: b}, b: {type: A, depends_on: [a]}}\n", ("bad-reference", 2, "resources depend on each other: a -> b -> a", None)),
        ("conditions: {a: {equal: [1, 2]}}\n", ("bad-template", 2, "the condition `a` must be true, false, or one of and, contains, equals, get_param, not, or, yaql", "did you mean `equals`?")),
        ("conditions: {a: {not: b}, b: {not: a}}\n", ("bad-reference", 2, "the condition `a` depends on itself", None)),
        ("conditions: {never: false}\nresources: {a: {type: A, condition: never}, b: {type: A, properties: {x: {get_resource: a}}}}\n", ("bad-reference", 3, "the condition of the resource `a` is false", None)),
        ("conditions: {never: false}\nresources: {a: {type: A, condition: never}}\noutputs: {o: {value: {get_attr: [a, x]}}}\n", ("bad-reference", 4, "the condition of the resource `a` is false", None)),
        ("resources: {a: {type: A}, b: {type: A, properties: {x: {get_resource: [a]}}}}\n", ("bad-reference", 2, "there is no resource `['a']`", None)),
        ("outputs: {o: {value: {get_attr: [a, x]}}}\n", ("bad-reference", 2, "there is no resource `a`", None)),
        ("resources: {a: {type: A}}\noutputs: {o: {value: {get_resource: [a]}}}\n", ("bad-reference", 3, "there is no resource `['a']`", None)),
        ("outputs: {o: 1}\n", ("bad-template", 2, "the output `o` needs a `value`", None)),
        ("parameter_groups: {g: {parameters: []}}\n", ("bad-template", 2, "the section `parameter_groups` must be a list", None)),
        ("parameter_groups:\n- parameters:\n", ("bad-template", 3, "a group of parameters needs `parameters`, a list of their names", None)),
        ("parameter_groups:\n- label: g\n  paramters: [p]\n", ("bad-template", 4, "a group of parameters has no key `paramters`", "did you mean `parameters`?")),
        ("parameters: {name: {type: string}}\nparameter_groups:\n- parameters: ['OS::project_id', naem]\n", ("bad-reference", 4, "there is no parameter `naem`", "did you mean `name`?")),
        ("parameters: {p: {type: string}}\nparameter_groups:\n- parameters: [p]\n- parameters: [p]\n", ("bad-template", 5, "the parameter `p` is in a group already", "leave it out here")),
        ("parameters: {p: {type: text}}\n", ("bad-template", 2, "the type of parameter `p` is not one of string, number, comma_delimited_list, json, boolean", None)),
        ("parameters: {p: {type: string, defualt: x}}\n", ("bad-template", 2, "the definition of parameter `p` has no key `defualt`", "did you mean `default`?")),
        ("resources: {g: {type: 'OS::Heat::ResourceGroup', properties: {count: 1000000000, resource_def: {type: A}}}}\n", ("too-large", 2, "`count` is more than 10000 members", None)),
        ("resources: {g: {type: 'OS::Heat::ResourceGroup'}}\n", ("bad-template", 2, "the definition of a group's members must be a map with a `type`", "add `resource_def`, a map")),
        ("resources: {g: {type: 'OS::Heat::SoftwareDeploymentGroup'}}\n", ("bad-template", 2, "`servers` must be a map of names and servers", "add `servers`, a map")),
        ("resources: {g: {type: 'OS::Heat::SoftwareDeploymentGroup', properties: {servers: {a/b: s}}}}\n", ("bad-template", 2, "a resource's name must be a string without a slash: `a/b`", None)),
        ("resources: {a: {type: none.yaml}}\n", ("missing-file", 2, "there is no file none.yaml", None)),
    ],
)  # fmt: skip
def test_a_wrong_template_is_refused_at_its_place(text: str, problem: tuple[str, int, str, str | None]) -> None:
    assert problems(text) == [problem]


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("hello\nworld\n", "not-a-template", 1),
        ("resources: {}\n", "not-a-template", 1),
        ("resources: {}\nheat_template_version: 2099-01-01\n", "not-a-template", 2),
        ("# nothing\n", "not-a-template", 1),
        ("description: x\nresources: \x01\n", "yaml", 2),
    ],
)
def test_what_is_no_template_of_a_known_version_is_refused_in_its_file(text: str, code: str, line: int) -> None:
    assert refusals(lambda: read_stack(text), "code", "span.line") == [(code, line)]


def test_a_version_that_is_a_number_is_not_missing() -> None:
    message = "this is not a template: heat_template_version is not a string: write it in quotes"
    assert refusals(lambda: read_stack("heat_template_version: 2018\n"), "message") == [message]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{a: {type: A, external_id: x, condition: c}}", [("external_id", "2016-10-14", 26)]),
        ("{}\nconditions: {c: {equals: [{get_param: x}]}}", [("conditions", "2016-10-14", 1)]),
        ("{a: {type: A, properties: {p: {str_split: {if: [a, b, c]}}}}}", [("if", "2016-10-14", 54)]),
        ("{a: {type: A, properties: {p: {if: [a, b, c]}}}}", []),  # plain data
    ],
)
def test_what_a_later_version_has_is_said_once_with_that_version(text: str, wrong: list[tuple[str, str, int]]) -> None:
    text = f"heat_template_version: 2016-04-08\nresources: {text}\n"
    said = refusals(lambda: read_stack(text), "code", "message", "suggestion", "span.column") if wrong else []
    assert said == [
        (
            "newer-version",
            f"`{name}` is there from version {since}; this template is 2016-04-08",
            f"write `heat_template_version: {since}`",
            column,
        )
        for name, since, column in wrong
    ]
    assert wrong or read_stack(text).resources


@pytest.mark.parametrize(
    ("cause", "code", "message"),
    [
        ("{get_file: none.txt}", "missing-file", "there is no file none.txt"),
        ("{get_param: none}", "bad-reference", "there is no parameter `none`"),
        ("{get_attr: [none, a]}", "bad-reference", "there is no resource `none`"),
        ("{get_resource: none}", "bad-reference", "there is no resource `none`"),
        ("{digest: a}", "bad-function", "`digest` takes [algorithm, text]"),
    ],
)
def test_what_follows_from_an_error_is_not_said(cause: str, code: str, message: str) -> None:
    function = f"{{str_replace: {{template: {cause}, params: {{$a: b}}}}}}"
    text = f"resources: {{a: {{type: A, properties: {{p: {{list_join: ['', {{str_split: [a, {function}]}}]}}}}}}}}\n"
    assert problems(text) == [(code, 2, message, None)]


def test_all_problems_are_reported_together_with_their_text() -> None:
    text = "resources:\n  a: {type: A, depends_on: x}\n  b: {type: A, properties: {p: {get_param: y}}}\n"
    with pytest.raises(InputError) as error:
        read(text)
    assert [(diagnostic.code, diagnostic.span and diagnostic.span.line) for diagnostic in error.value.diagnostics] == [
        ("bad-reference", 3),
        ("bad-reference", 4),
    ]
    assert error.value.sources == {"<template>": HEAD + text}


def test_a_flood_of_problems_ends_the_reading() -> None:
    text = "resources:\n" + "".join(f"  r{n}: {{type: A, depends_on: none}}\n" for n in range(3000))
    assert [problem[:2] for problem in problems(text)] == [("bad-reference", n) for n in range(3, 103)]


def test_strange_values_arrive_as_they_are() -> None:
    for value in ('") :- p(x).', "a\nb", "it's", "\0", "\U0001f600", "x" * 1_000_000):
        template: dict[str, Data] = {
            "heat_template_version": "2013-05-23",
            "resources": {"a": {"type": "A", "properties": {"p": value}}},
        }
        assert read_stack(template).resources[0].properties == {"p": value}


def test_a_long_chain_of_attributes_is_followed() -> None:
    chain = "".join(
        f"  r{n}: {{type: OS::Heat::Value, properties: {{value: {{get_attr: [r{n + 1}, value]}}}}}}\n"
        for n in range(1500)
    )
    stack = read(f"resources:\n{chain}  r1500: {{type: OS::Heat::Value, properties: {{value: end}}}}\n")
    assert {resource.properties["value"] for resource in stack.resources} == {"end"}


# places

PLACES = """\
resources:
  sg:
    type: OS::Neutron::SecurityGroup
    properties:
      rules: [{port: 22, prefix: 0.0.0.0/0}]
      more:
        repeat: {for_each: {'%p%': ['1']}, template: {port: '%p%'}}
  g:
    type: OS::Heat::ResourceGroup
    properties:
      resource_def:
        type: A
        properties: {x: [1, 2]}
  bare: {type: A}
"""


@pytest.mark.parametrize(
    ("name", "path", "place"),
    [
        ("sg", (), (3, 3, 3, 5)),
        ("sg", ("type",), (4, 11, 4, 37)),
        ("sg", ("properties", "rules", 0, "prefix"), (6, 34, 6, 43)),
        ("sg", ("properties", "rules", 0, "absent"), (6, 15, 6, 44)),
        ("sg", ("properties", "more", 0, "port"), (8, 9, 9, 3)),
        ("bare", ("properties", "x"), (15, 3, 15, 7)),
        ("g/0", (), (12, 7, 12, 19)),
        ("g/0", ("type",), (13, 15, 13, 16)),
        ("g/0", ("properties", "x", 1), (14, 29, 14, 30)),
    ],
)
def test_every_part_of_a_resource_knows_its_place(name: str, path: Path, place: tuple[int, int, int, int]) -> None:
    [resource] = [
        resource for stack in read(PLACES).walk() for resource in stack.resources if resource.id.path == f"web/{name}"
    ]
    assert resource.locate(path) == Span("<template>", *place)


def test_places_in_the_other_kind_of_template_are_found_by_the_same_names() -> None:
    text = "AWSTemplateFormatVersion: '2010-09-09'\nResources:\n  R:\n    Type: A\n    Properties: {x: 1}\n"
    resource = read_stack(text).resources[0]
    assert resource.locate(("properties", "x")) == Span("<template>", 5, 21, 5, 22)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "null", ""),
        ("number", "null", 0),
        ("boolean", "null", False),
        ("json", "null", {}),
        ("comma_delimited_list", "null", []),
        ("comma_delimited_list", "[a, 'b,c', null]", ["a", "b", "c", ""]),
        ("comma_delimited_list", "[{a: 1}, {b: x}]", [".member.0.a=1", ".member.1.b=x"]),
        ("string", "true", "True"),
    ],
)
def test_a_parameter_of_a_template_resource_is_a_property_first(kind: str, text: str, value: Data) -> None:
    files = {"in.yaml": HEAD + f"parameters: {{p: {{type: {kind}}}}}\nresources: {{r: {{type: OS::Heat::None}}}}\n"}
    [outer] = read(f"resources: {{in: {{type: in.yaml, properties: {{p: {text}}}}}}}\n", files=files).resources
    assert outer.nested is not None
    assert [(parameter.value, parameter.origin) for parameter in outer.nested.parameters] == [(value, "parent")]


@pytest.mark.parametrize(
    ("kind", "text"), [("string", "[a]"), ("boolean", "1"), ("json", "7"), ("comma_delimited_list", "[1]")]
)
def test_a_property_of_another_kind_is_no_parameter(kind: str, text: str) -> None:
    files = {"in.yaml": HEAD + f"parameters: {{p: {{type: {kind}}}}}\nresources: {{r: {{type: OS::Heat::None}}}}\n"}
    diagnostics = problems(f"resources: {{in: {{type: in.yaml, properties: {{p: {text}}}}}}}\n", files=files)
    assert [code for code, *_ in diagnostics] == ["bad-parameter"]


def test_a_number_of_json_that_is_too_long_is_refused_at_its_place() -> None:
    text = f'{{"heat_template_version": "2018-08-31", "outputs": {{"a": {"7" * 401}}}}}'
    assert refusals(lambda: read_stack(text), "code", "span.column", "message") == [
        ("yaml", text.index("7") + 1, "this can't be read as int")
    ]
