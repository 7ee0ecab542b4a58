"""Parameters of templates, and where their values come from."""

# ruff: noqa: E501 - one case a line

from __future__ import annotations

import pytest

from datalog_gate.base.errors import InputError
from datalog_gate.files.templates import read_stack
from datalog_gate.stack.model import Data
from datalog_gate.template.parameters import TYPES
from tests.expressions import unknown_of
from tests.refusals import refusals
from tests.unit.template.test_reader import HEAD, problems, read


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("number", "22", 22),
        ("boolean", "Yes", True),
        ("boolean", 0, False),
        ("string", 22, "22"),
        ("string", True, "True"),
        ("comma_delimited_list", "", []),
        ("comma_delimited_list", [1, "b"], ["1", "b"]),
        ("json", '{"a": [1]}', {"a": [1]}),
        ("json", {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_a_given_value_is_read_by_the_type_of_its_parameter(kind: str, text: Data, value: Data) -> None:
    [parameter] = read(f"parameters: {{p: {{type: {kind}}}}}\n", parameters={"p": text}).parameters
    assert (parameter.value, parameter.origin) == (value, "parameters")
    assert type(parameter.value) is type(value)


@pytest.mark.parametrize(
    ("template", "name"),
    [
        (HEAD + "outputs: {o: {value: {get_param: 'OS::stack_name'}}}\n", "OS::stack_name"),
        (HEAD + "outputs: {o: {value: {get_param: 'OS::project_id'}}}\n", "OS::project_id"),
        ("AWSTemplateFormatVersion: '2010-09-09'\nOutputs: {o: {Value: {Ref: 'AWS::Region'}}}\n", "AWS::Region"),
    ],
)
def test_a_default_of_the_environment_is_taken_for_what_heat_adds_too(template: str, name: str) -> None:
    assert read_stack(template, environment={"parameter_defaults": {name: 5}}).outputs == {"o": "5"}
    without = read_stack(template, environment={"parameter_defaults": {name: None}}).outputs["o"]
    assert without == read_stack(template).outputs["o"] != "5"


def test_a_nearer_source_of_a_parameter_wins() -> None:
    text = (
        "parameters:\n"
        + "".join(f"  {name}: {{type: string, default: template}}\n" for name in "abcd")
        + "  e: {type: string}\n"
    )
    environment = "parameters: {a: env, b: env}\nparameter_defaults: {b: default, c: default, unknown: x}\n"
    stack = read(text, environment=environment, parameters={"a": "caller"})
    assert [(parameter.name, parameter.value, parameter.origin) for parameter in stack.parameters] == [
        ("a", "caller", "parameters"),
        ("b", "env", "environment"),
        ("c", "default", "environment"),
        ("d", "template", "default"),
        ("e", unknown_of("{get_param: e} in web"), "none"),
    ]


@pytest.mark.parametrize(
    ("definition", "text", "reason"),
    [
        ("type: number", "x", "can't be 'x': it is not a valid number"),
        ("type: number, constraints: [{range: {min: 1, max: 3}}]", 4, "can't be 4: its value is not from 1 to 3"),
        ("type: string, constraints: [{length: {max: 2}}]", "abc", "can't be 'abc': its length is not at most 2"),
        ("type: number, constraints: [{modulo: {step: 2, offset: '1'}}]", 4, "can't be 4: it is not a multiple of 2 plus 1"),
        ("type: string, constraints: [{allowed_pattern: 'a|ab'}]", "ab", "can't be 'ab': it does not match a|ab"),
        ("type: string, constraints: [{allowed_pattern: '[a-z+*(]+-[0-9+]+(x|y[+*]+)'}]", "a-1z", "can't be 'a-1z': it does not match [a-z+*(]+-[0-9+]+(x|y[+*]+)"),
        ("type: string, constraints: [{allowed_pattern: '([0-9]{1,3}[.]){3}[0-9]{1,3}'}]", "10.0.0", "can't be '10.0.0': it does not match ([0-9]{1,3}[.]){3}[0-9]{1,3}"),
        ("type: string, constraints: [{length: {min: 1}}]", 12, "can't be 12: it is not a valid string"),
        ("type: comma_delimited_list, constraints: [{allowed_values: [a]}]", ["a", "b"], "can't be ['a', 'b']: it is not one of a"),
        ("type: comma_delimited_list", 0, "can't be 0: it is not a valid comma_delimited_list"),
        ("type: json, constraints: [{length: {max: 1}}]", "[1, 2]", "can't be '[1, 2]': its length is not at most 1"),
        ("type: boolean, constraints: [{allowed_values: ['on']}]", "no", "can't be 'no': it is not one of on"),
        ("type: string, default: b, constraints: [{allowed_values: [a]}]", "a", "can't be 'b': it is not one of a"),
        ("type: string, hidden: true, constraints: [{allowed_values: [a]}]", "pw", "can't be a hidden value: it is not a valid string"),
        ("type: number", "7" * 4100, f"can't be '{'7' * 79}: it is not a valid number"),
        ("type: number", 10**4100, f"can't be 1{'0' * 79}: it is not a valid number"),
        ("type: json", f"[{'7' * 401}]", f"can't be '[{'7' * 78}: it is not a valid json"),
        ("type: json", [10**5000], "can't be a number of thousands of digits: it is not a valid json"),
        ("type: json", "[1", "can't be '[1': it is not a valid json"),
        ("type: boolean", "maybe", "can't be 'maybe': it is neither true nor false"),
    ],
)  # fmt: skip
def test_a_value_that_a_parameter_refuses_is_named_at_its_definition(definition: str, text: Data, reason: str) -> None:
    diagnostics = problems(f"parameters:\n  p: {{{definition}}}\n", parameters={"p": text})
    assert diagnostics == [("bad-parameter", 3, f"parameter `p` {reason}", None)]


@pytest.mark.parametrize(
    ("version", "definition", "reason"),
    [
        ("wallaby", "type: string, constraints: [{no_such: 1}]", "there is no constraint `no_such`"),
        ("wallaby", "type: string, constraints: [{description: d}]", "a string can't have the constraint `description`"),
        ("wallaby", "type: string, constraints: {}", "the constraints are not a list of maps"),
        ("wallaby", "type: json, constraints: [{allowed_values: [1]}]", "a json can't have the constraint `allowed_values`"),
        ("wallaby", "type: number, constraints: [{range: {}}]", "the constraint `range` takes numbers `min`, `max` or both"),
        ("wallaby", "type: string, constraints: [{length: {min: 1.5}}]", "the constraint `length` takes whole numbers `min`, `max` or both"),
        ("wallaby", "type: number, constraints: [{modulo: {step: 2}}]", "the constraint `modulo` takes whole numbers `step` and `offset`, which is less"),
        ("2016-10-14", "type: number, constraints: [{modulo: {step: 2, offset: 1}}]", "a number can't have the constraint `modulo`"),
        ("wallaby", "type: string, constraints: [{allowed_values: a}]", "the constraint `allowed_values` takes a list"),
        ("wallaby", "type: string, constraints: [{allowed_pattern: '['}]", "the constraint `allowed_pattern` takes a regular expression"),
        ("wallaby", "type: string, tags: x", "`tags` must be a list"),
    ],
)  # fmt: skip
def test_a_constraint_that_heat_refuses_is_refused_without_a_value_too(
    version: str, definition: str, reason: str
) -> None:
    text = f"heat_template_version: {version}\nparameters:\n  p: {{{definition}}}\n"
    refused = refusals(lambda: read_stack(text), "code", "span.line", "message")
    assert refused == [("bad-template", 3, f"parameter `p`: {reason}")]


def test_of_a_default_that_is_not_used_no_custom_constraint_is_tried() -> None:
    text = "parameters: {p: {type: number, default: '', constraints: [{custom_constraint: x}]}}\n"
    assert read(text, parameters={"p": 5}).parameters[0].value == 5


def test_tags_came_with_queens() -> None:
    text = "heat_template_version: {}\nparameters: {{p: {{type: string, tags: [x]}}}}\n"
    assert read_stack(text.format("queens")).parameters[0].attributes == {"tags": ["x"]}
    with pytest.raises(InputError, match="has no key `tags`"):
        read_stack(text.format("pike"))


def test_a_pattern_that_could_take_forever_is_left_to_heat() -> None:
    text = "parameters: {p: {type: string, default: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!, constraints: [{allowed_pattern: '(a+)+(?=b)'}]}}\n"
    [parameter] = read(text).parameters
    assert (parameter.name, parameter.value, parameter.origin) == ("p", f"{'a' * 30}!", "default")


def test_a_default_of_null_is_none() -> None:
    text = "parameters:\n" + "".join(f"  {kind}: {{type: {kind}, default: null, label: null}}\n" for kind in TYPES)
    parameters = read(text).parameters
    assert [(parameter.value, parameter.origin, parameter.attributes) for parameter in parameters] == [
        (unknown_of(f"{{get_param: {kind}}} in web"), "none", {"label": None}) for kind in TYPES
    ]


def test_undefined_parameters_are_refused() -> None:
    diagnostics = problems(
        "parameters: {image: {type: string}}\n", environment="parameters:\n  imge: x\n", parameters={"zz": 1}
    )
    assert diagnostics == [
        ("bad-parameter", 2, "there is no parameter `imge`", "did you mean `image`?"),
        ("bad-parameter", None, "there is no parameter `zz`", None),
    ]


def test_parameters_of_the_other_kind_of_template_are_read() -> None:
    text = "AWSTemplateFormatVersion: '2010-09-09'\nParameters:\n  P: {Type: Number, Default: '4', MaxValue: 4, NoEcho: true}\n"
    [parameter] = read_stack(text).parameters
    assert (parameter.type, parameter.value, parameter.hidden, parameter.attributes) == (
        "number", 4, True, {"MaxValue": 4, "NoEcho": True, "default": "4"},
    )  # fmt: skip
