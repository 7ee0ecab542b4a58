"""Rules see hidden parameters, and no door shows them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import datalog_gate as dg
from datalog_gate.api import ExplainedDecision
from datalog_gate.base.errors import InputError
from datalog_gate.base.values import SECRET, ResourceId, Unknown, hidden_value
from datalog_gate.decision_point.grant_requests import build_operation_request
from datalog_gate.decision_point.log import DecisionTrace, build_record
from datalog_gate.decision_point.operation import Answer, Operation
from datalog_gate.decision_point.point import DecisionPoint
from datalog_gate.doors.cli.reports.entries import ReportEntry
from datalog_gate.doors.cli.reports.formats import format_report
from datalog_gate.doors.wsgi import wrap
from datalog_gate.facts.flatten import flatten
from datalog_gate.facts.lines import write, write_text
from datalog_gate.files.check_options import FORMATS
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.pages.decision_page import build_page
from datalog_gate.pages.drawing import draw
from datalog_gate.policytest.comparison import CaseResult, report
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import Data, Stack
from tests.expressions import unknown_of, worded
from tests.fake_heat import Client, FakeHeat
from tests.refusals import refusals
from tests.sampling import sample

PW = "S3CR3T-XQZJVKWYBF"
RULES = """
@deny("property", "{id} has {path} = {value}", hint="change it")
property(id, path, value) :- heat:property(id, path, value).
@deny("made", "{id}: {longer}, {length}, {all}, {first}")
made(id, longer, length, all, first) :-
    heat:property(id, _, value), text = value ?? "", is_string(text), concat(text, "!", longer), len(longer, length),
    all = list{ distinct v : heat:property(id, _, v) }, first = max{ v : word(id, v) }.
word(id, value) :- os:nova:server(_id=id, admin_pass=value).
word(id, value) :- word(id, _), heat:property(id, _, value), os:nova:server(admin_pass=value).
@deny("server", "{s} has {p} and {k} {v}")
server(s, p, k, v) :- os:nova:server(_id=s, admin_pass=p), os:nova:server.metadata(_id=s, _key=k, _value=v).
@deny("told", "{name} is {value}")
told(name, value) :- heat:parameter(name=name, value=value).
told(name, value) :- heat:output(name=name, value=value).
told(name, value) :- heat:metadata(path=name, value=value).
told(name, value) :- heat:unknown(path=name, expression=value).
@deny("failed", "{s} counts {n}")
failed(s, n) :- os:nova:server(_id=s, admin_pass=p), p != null, int(p, n).
"""
NESTED = {
    "heat_template_version": "wallaby",
    "parameters": {"arg": {"type": "json"}, "inner": {"type": "string", "hidden": True, "default": PW}},
    "resources": {
        "below": {"type": "OS::Nova::Server", "properties": {"name": "below", "metadata": {"a": {"get_param": "arg"}}}},
        "value": {"type": "OS::Heat::Value", "properties": {"value": {"get_param": "inner"}}},
    },
    "outputs": {"out": {"value": {"list_join": ["", ["<", {"get_param": "arg"}]]}}},
}


def stack_of(properties: Mapping[str, Data], **more: Data) -> dict[str, Any]:
    server = {"type": "OS::Nova::Server", "properties": {"flavor": "small", **properties}}
    return {
        "heat_template_version": "wallaby",
        "parameters": {
            "pw": {"type": "string", "hidden": True},
            "blob": {"type": "json", "hidden": True, "default": {f"k{PW}": PW, "list": ["x", PW]}},
            "open": {"type": "string"},
        },
        "conditions": {"is": {"equals": [{"get_param": "pw"}, "x"]}},
        "resources": {"kept": {"type": "OS::Heat::Value", "properties": {"value": {"get_param": "pw"}}}, "srv": server}
        | more,
    }


def _wrapped(inner: st.SearchStrategy[Data]) -> st.SearchStrategy[Data]:
    beside = st.sampled_from(["public", {"get_attr": ["srv2", "x"]}, {"get_param": "open"}])
    return st.one_of(
        st.tuples(inner, beside).map(lambda two: {"list_join": ["-", list(two)]}),
        inner.map(lambda value: {"str_replace": {"template": "a $b c", "params": {"$b": value}}}),
        inner.map(lambda value: {"str_split": ["T", {"list_join": ["", [value]]}, 0]}),
        inner.map(lambda value: {"str_split": ["-", {"list_join": ["", ["T", value]]}]}),
        inner.map(lambda value: {"digest": ["sha256", {"list_join": ["", [value]]}]}),
        inner.map(lambda value: {"if": ["is", value, "no"]}),
        inner.map(lambda value: {"if": ["is", "yes", {"m": value}]}),
        inner.map(
            lambda value: {"repeat": {"for_each": {"<x>": ["1", {"list_join": ["", [value]]}]}, "template": "v<x>"}}
        ),
        inner.map(lambda value: {"list_concat": [["a"], [value]]}),
        inner.map(lambda value: {"list_concat_unique": [["a"], [value, "a"]]}),
        inner.map(lambda value: {"map_merge": [{"a": value}, {"b": "c"}]}),
        inner.map(
            lambda value: {"make_url": {"scheme": "http", "host": "h", "password": {"list_join": ["", [value]]}}}
        ),
        inner.map(lambda value: {"filter": [["a"], ["a", value]]}),
        inner.map(lambda value: {"m": [value, {"n": value}]}),
        inner.map(lambda value: [{"if": [{"equals": ["a", "a"]}, {"if": [{"not": "is"}, value]}]}, value]),
    )


SOURCES: list[Data] = [
    {"get_param": "pw"},
    {"get_param": "blob"},
    {"get_param": ["blob", "list"]},
    {"get_attr": ["kept", "value"]},
    {"get_attr": ["nest", "out"]},
    {"get_attr": ["group", "resource.0.out"]},
]
HIDDEN = st.recursive(st.sampled_from(SOURCES), _wrapped, max_leaves=4)


@st.composite
def templates(draw: st.DrawFn) -> dict[str, Any]:
    """A template in which hidden values flow everywhere. Some are refused: then the refusal must not show them."""
    values = {name: draw(HIDDEN) for name in ("admin_pass", "name", "metadata", "user_data", "security_groups")}
    nest = {"type": "nested.yaml", "properties": {"arg": {"a": draw(HIDDEN)}, "inner": PW}}
    member = {"type": "nested.yaml", "properties": {"arg": {"%index%": draw(HIDDEN)}}}
    single = {"type": "OS::Nova::Server", "properties": {"admin_pass": draw(HIDDEN), "name": "n%index%"}}
    body = stack_of(
        values,
        nest=nest,
        group={"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": member}},
        servers={"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": single}},
        srv2={"type": "OS::Nova::Server", "metadata": draw(HIDDEN), "properties": {"name": "plain"}},
        port={"type": "OS::Neutron::Port", "metadata": draw(HIDDEN), "properties": {"network_id": draw(HIDDEN)}},
        deploy={"type": "OS::Heat::SoftwareDeploymentGroup", "properties": {"servers": {"a": draw(HIDDEN)}}},
        config={"type": "AWS::AutoScaling::LaunchConfiguration", "properties": {"ImageId": draw(HIDDEN)}},
        scaled={
            "type": "OS::Heat::InstanceGroup",
            "properties": {
                "Size": 1,
                "LaunchConfigurationName": {"get_resource": "config"},
                "Tags": [{"Key": "k", "Value": draw(HIDDEN)}],
            },
        },
        text={
            "type": "OS::Heat::Stack",
            "properties": {"template": {"get_file": "nested.yaml"}, "parameters": {"arg": {"a": draw(HIDDEN)}}},
        },
    )
    kept = draw(st.sets(st.sampled_from(sorted(values))))
    body["resources"]["srv"]["properties"] = {name: values[name] for name in sorted(kept)}
    body["outputs"] = {"o": {"value": draw(HIDDEN)}, "p": {"value": {"get_attr": ["text", "outputs", "out"]}}}
    return body


def shown_by_all_doors(
    point: DecisionPoint, path: Path, template: Mapping[str, Data], parameters: dict[str, Data]
) -> str:
    output, rules, heat = io.StringIO(), point.reloader.current().ruleset.rules, FakeHeat()
    files = {"nested.yaml": (path.parent / "nested.yaml").read_text()}
    body = {"stack_name": "s", "template": template, "parameters": parameters, "files": files}
    output.write(repr(Client(wrap(heat, point=point), heat).send(json.dumps(body).encode())))
    try:
        stack = dg.read_stack(path, parameters=parameters)
    except InputError as error:
        return f"{output.getvalue()}\n{error}\n{[diagnostic.to_json() for diagnostic in error.diagnostics]}"
    decision = rules.decide(stack, explain=True)
    assert isinstance(decision, ExplainedDecision)
    for name in decision.derived:
        width = len(rules.program.relations[name].columns)
        for row in (["x"] * width, [..., *["x"] * (width - 1)]):
            output.write(repr(decision.explanation.why_not(name, row)))
    every = {name: decision.rows(name) for name in decision.derived}
    entry = ReportEntry("s", decision, page=build_page(decision, decision.explanation, [stack], fixes=True))
    for form in FORMATS:
        output.write(format_report(form, [entry], rules.policies))
    definition = StackDefinition(template, parameters=parameters, files=files)
    trace = DecisionTrace(rules, definition, stack, None, decision, {}, {}, {})
    operation = Operation("api", "create", "s", "p", lambda: definition, None)
    output.write(json.dumps(build_record(operation, Answer("denied", decision.id), trace, "", decision.now)))
    output.write(report({"rows": dict.fromkeys(every, ())}, CaseResult((), every), {}))
    output.write(repr((decision.violations, decision.undetermined, decision.derived)))
    output.write(repr(build_operation_request(operation, decision.id, stack)))
    facts = flatten(stack, SHIPPED)
    return output.getvalue() + "\n".join([*write(facts), *write_text(facts)])


def secrets_in(output: str, stack: Stack | None) -> set[str]:
    """Pieces of the password, and digests of the stack, that the output shows."""
    pieces = {PW[at : at + 5] for at in range(len(PW) - 4)}
    digests = set(re.findall("[0-9a-f]{64}", repr(stack and [tree.resources for tree in stack.walk()])))
    return {piece for piece in pieces | digests if piece in output}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stack")
    (path / "nested.yaml").write_text(yaml.safe_dump(NESTED))
    return path


@settings(max_examples=sample(60))
@given(template=templates(), flow=st.sampled_from([None, False, True]), known=st.booleans())
def test_no_door_shows_what_came_from_a_hidden_parameter(
    point: DecisionPoint, folder: Path, template: dict[str, Any], flow: bool | None, known: bool
) -> None:
    path = folder / "web.yaml"
    path.write_text(yaml.safe_dump(template, default_flow_style=flow, width=10_000))
    parameters: dict[str, Data] = {"pw": PW, **({"open": "o"} if known else {})}
    output = shown_by_all_doors(point, path, template, parameters)
    try:
        stack = dg.read_stack(path, parameters=parameters)
    except InputError:
        stack = None
    assert secrets_in(output, stack) == set()


def decided(rules: str, template: dict[str, Any], tmp_path: Path, **parameters: Data) -> dg.Decision:
    (tmp_path / "m.dl").write_text(rules)
    stack = dg.read_stack(template=template, parameters={"pw": PW, "open": "o", **parameters})
    return dg.load_rules(tmp_path / "m.dl").decide(stack)


def test_rules_see_the_values_and_messages_do_not(tmp_path: Path) -> None:
    rules = """
    @deny("p", "{s} {p} {n} {f}", hint="h")
    p(s, p, n, f) :- os:nova:server(_id=s, admin_pass=p, flavor=f), p = "S3CR3T-XQZJVKWYBF", len(p, n).
    q(s, p, k) :- os:nova:server(_id=s, admin_pass=p), heat:parameter(value=p, name=k), starts_with(p, "S3").
    few(n) :- n = count{ s : os:nova:server(_id=s, admin_pass=p), p != null }.
    """
    decision = decided(rules, stack_of({"admin_pass": {"get_param": "pw"}}), tmp_path)
    assert [violation.message for violation in decision.violations] == ["srv *** *** small"]
    assert [violation.to_json()["row"] for violation in decision.violations] == [
        ["stack/srv", {"$hidden": True}, {"$hidden": True}, "small"]
    ]
    assert decision.rows("m:q") == [["stack/srv", {"$hidden": True}, "pw"]]
    assert decision.rows("m:few") == [[1]]
    assert decided(rules, stack_of({"admin_pass": {"get_param": "pw"}}), tmp_path, pw="x").violations == ()


def test_a_list_item_that_holds_a_hidden_value_deep_within_is_covered(tmp_path: Path) -> None:
    rules = '@deny("p", "{s} {g}")\np(s, g) :- os:nova:server.security_groups(_id=s, _value=g).\n'
    template = stack_of({"security_groups": ["plain", {"m": [{"n": {"get_param": "pw"}}]}]})
    assert [violation.message for violation in decided(rules, template, tmp_path).violations] == [
        "srv plain",
        "srv ***",
    ]


def test_a_value_is_covered_and_not_what_the_template_says() -> None:
    text = "heat_template_version: 2018-08-31\nparameters: {p: {type: string, hidden: true, default: a}}\noutputs:\n"
    text += "  o: {value: {str_replace: {template: {get_param: p}, params: 1}}}\n  n: {value: {get_attr: [a, b]}}\n"
    text += "  m: {value: {get_attr: [{get_param: p}, b]}}\n"
    with pytest.raises(InputError) as wrong:
        dg.read_stack(template=text)
    assert [diagnostic.message for diagnostic in wrong.value.diagnostics] == [
        "`str_replace` takes a text as `template` and a map as `params`",
        "there is no resource `a`",
        "there is no resource `***`",
    ]


def test_only_what_came_from_a_hidden_parameter_is_covered(tmp_path: Path) -> None:
    rules = """
    @record("p", "")
    p(path, v) :- heat:property(path=path, value=v), path != "template".
    o(name, v) :- heat:output(name=name, value=v).
    """
    rule = {"remote_ip_prefix": {"get_param": "pw"}, "port_range_min": 22}
    template = stack_of(
        {"name": "srv", "image": {"get_attr": ["sg", "show"]}, "user_data": {"if": ["is", "a", "b"]}},
        sg={"type": "OS::Neutron::SecurityGroup", "properties": {"rules": [rule, {"port_range_min": 23}]}},
        again={"type": "OS::Neutron::SecurityGroup", "properties": {"name": {"get_attr": ["sg", "name"]}}},
    )
    public = {"get_param": "open"}
    template["outputs"] = {"a": {"value": {"get_attr": ["kept", "value"]}}, "b": {"value": public}}
    decision = decided(rules, template, tmp_path)
    hidden, unknown = {"$hidden": True}, "{get_attr: [sg, %s]} in stack"
    assert {
        path: value for path, value in decision.rows("m:p") if not isinstance(value, dict) or "$hidden" in value
    } == {
        "flavor": "small",
        "name": "srv",
        "user_data": hidden,
        "rules.0.remote_ip_prefix": hidden,
        "rules.0.port_range_min": 22,
        "rules.1.port_range_min": 23,
        "value": hidden,
    }
    assert [row for row in decision.derived["m:p"] if isinstance(row[1], Unknown) and row[1] != SECRET] == [
        ("image", unknown_of(unknown % "show")),
        ("name", unknown_of(unknown % "name")),
    ]
    assert decision.rows("m:o") == [["a", hidden], ["b", "o"]]


def test_the_digest_of_the_facts_does_not_depend_on_a_hidden_value(tmp_path: Path) -> None:
    rules = '@record("p", "")\np(s) :- os:nova:server(_id=s, admin_pass=p, name=n), heat:parameter(value=p).'
    template = stack_of({"admin_pass": {"get_param": "pw"}, "name": {"get_param": "open"}})
    first, other, public = (
        decided(rules, template, tmp_path, **given_parameters).digests["facts"]
        for given_parameters in ({}, {"pw": "x"}, {"open": "p"})
    )
    assert first == other != public


@pytest.mark.parametrize(
    ("environment", "value", "expected"),
    [
        ({}, {"get_param": "blob"}, "parameters.blob.default"),
        ({"parameters": {"blob": {PW: "x"}}}, {"get_param": "blob"}, "parameters.blob"),
        ({"parameter_defaults": {"blob": {PW: "x"}}}, {"get_param": "blob"}, "parameter_defaults.blob"),
        ({}, {"map_merge": [{"get_param": "blob"}]}, "resources.v.properties.value"),
    ],
)
def test_the_place_of_a_hidden_value_shows_no_key_within_it(
    environment: dict[str, Any], value: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    blob = {"type": "json", "hidden": True, "default": {PW: {PW: "x"}}}
    resource = {"type": "OS::Heat::Value", "properties": {"value": value}}
    template = {"heat_template_version": "wallaby", "parameters": {"blob": blob}, "resources": {"v": resource}}
    for name, data in (("web.json", template), ("env.json", environment)):
        (tmp_path / name).write_text(json.dumps(data))  # on one line, where a place is a path
    (tmp_path / "m.dl").write_text('@deny("p", "{v}")\np(v) :- heat:property(value=v).\n')
    stack = dg.read_stack(tmp_path / "web.json", environments=[tmp_path / "env.json"])
    decision = dg.load_rules(tmp_path / "m.dl").decide(stack)
    assert {violation.place and violation.place.path for violation in decision.violations} == {expected}


def test_the_place_of_what_a_hidden_parameter_of_a_nested_stack_gets_shows_no_key_within_it(tmp_path: Path) -> None:
    inner = {"type": "OS::Heat::Value", "properties": {"value": {"get_param": "arg"}}}
    hidden = {"arg": {"type": "json", "hidden": True}}
    nested = {"heat_template_version": "wallaby", "parameters": hidden, "resources": {"v": inner}}
    nest = {"type": "nested.yaml", "properties": {"arg": {PW: {PW: "x"}}}}
    (tmp_path / "nested.yaml").write_text(json.dumps(nested))
    (tmp_path / "web.json").write_text(json.dumps({"heat_template_version": "wallaby", "resources": {"nest": nest}}))
    (tmp_path / "m.dl").write_text('@deny("p", "{v}")\np(id, v) :- heat:property(id=id, value=v).\n')
    decision = dg.load_rules(tmp_path / "m.dl").decide(dg.read_stack(tmp_path / "web.json"))
    assert [(violation.resource, violation.place and violation.place.path) for violation in decision.violations] == [
        (ResourceId("web/nest"), "resources.nest.properties.arg"),
        (ResourceId("web/nest/v"), "resources.nest.properties.arg"),
    ]


def test_a_template_made_of_a_hidden_value_is_hidden_as_a_whole(tmp_path: Path) -> None:
    nested = json.dumps(
        {
            "heat_template_version": "wallaby",
            "resources": {"s": {"type": "OS::Nova::Server", "properties": {"name": "%pw", "flavor": "f"}}},
            "outputs": {"o": {"value": "%pw"}},
        }
    )
    template_text = {"str_replace": {"template": nested, "params": {"%pw": {"get_param": "pw"}}}}
    template = stack_of(
        {"name": {"get_attr": ["more", "outputs", "o"]}},
        more={"type": "OS::Heat::Stack", "properties": {"template": template_text}},
    )
    rules = '@record("p", "")\np(id, v) :- os:nova:server(_id=id, name=v).'
    hidden = {"$hidden": True}
    assert decided(rules, template, tmp_path).rows("m:p") == [["stack/more/s", hidden], ["stack/srv", hidden]]


def test_a_template_made_of_a_hidden_value_shows_no_section_of_it() -> None:
    nested = {
        "heat_template_version": "wallaby",
        "description": PW,
        "parameters": {PW: {"type": "string", "default": PW, "label": PW}},
        "resources": {"s": {"type": "OS::Heat::Value", "properties": {"value": {"get_param": PW}}}},
        "outputs": {PW: {"value": PW}},
    }
    text = json.dumps(nested).replace(PW, "%pw")
    template_text = {"str_replace": {"template": text, "params": {"%pw": {"get_param": "pw"}}}}
    template = stack_of({}, more={"type": "OS::Heat::Stack", "properties": {"template": template_text}})
    stack = dg.read_stack(template=template, parameters={"pw": PW, "open": "o"})
    facts = flatten(stack, SHIPPED)
    shown = {name: [facts.shown(name, row) for row in facts.rows[name]] for name in facts.rows}
    within = {value for rows in shown.values() for row in rows if row[0] == "stack/more" for value in row}
    assert within == {"stack/more", ResourceId("stack/more"), 1, SECRET}


def test_a_type_and_a_file_named_by_a_hidden_value_are_hidden() -> None:
    definition = {"type": {"list_join": ["", ["a", {"get_param": "pw"}, ".yaml"]]}}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": definition}}
    template = stack_of({"user_data": {"get_file": {"get_param": "pw"}}}, group=group)
    parameters = {"pw": PW, "open": "o"}
    member = '{"heat_template_version": "wallaby", "resources": {"v": {"type": "OS::Heat::Value"}}}'
    files = {f"a{PW}.yaml": member, PW: "text"}
    stack = dg.read_stack(template=template, parameters=parameters, files=files)
    assert PW not in "".join(write(flatten(stack, SHIPPED)))
    assert PW not in str(list(draw(stack, {})))
    assert refusals(lambda: dg.read_stack(template=template, parameters=parameters), "message") == [
        "the type of stack/group/0 came from a hidden parameter, and Heat does not accept it",
        "there is no file ***",
    ]


def test_no_digest_of_a_file_proves_a_guess_of_a_hidden_default() -> None:
    nested = {"template": {"get_file": "nested.yaml"}, "parameters": {"arg": {}}}
    more = {"type": "OS::Heat::Stack", "properties": nested}
    template = stack_of({"user_data": {"get_file": "open.sh"}}, more=more)
    files = {"nested.yaml": json.dumps(NESTED), "open.sh": "text"}
    stack = dg.read_stack(template=template, parameters={"pw": PW, "open": "o"}, files=files)
    facts = flatten(stack, SHIPPED, ["heat:file"])
    assert sorted(facts.shown("heat:file", row) for row in facts.rows["heat:file"]) == [
        ("stack", "nested.yaml", SECRET, SECRET),
        ("stack", "open.sh", "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1", 4),
    ]


def test_what_is_hidden_is_so_in_columns_of_other_names_and_keys_of_environments() -> None:
    properties = {"min_size": 1, "max_size": {"get_param": "pw"}, "resource": {"type": "OS::Heat::Value"}}
    group = {"type": "OS::Heat::AutoScalingGroup", "properties": properties}
    stack = dg.read_stack(
        template=stack_of({}, group=group),
        environment={"parameters": {"pw": PW, "open": "o", "blob": {f"k{PW}": [PW]}}},
    )
    assert PW not in "".join(write(flatten(stack, SHIPPED)))


def test_what_a_text_calls_is_not_hidden_with_what_it_gives(tmp_path: Path) -> None:
    rules = """
    @deny("p", "{id} takes {name} by {function}")
    p(id, name, function) :-
        heat:uses_parameter(id, "admin_pass", name), heat:function(id, "admin_pass", function),
        heat:parameter(name=name, hidden=true).
    @record("t", "{text}")
    t(text) :- heat:text(path="key_name", text=text).
    """
    key = {"list_join": ["-", ["of", {"get_param": "pw"}]]}
    template = stack_of({"admin_pass": {"get_param": "pw"}, "key_name": key})
    decision = decided(rules, template, tmp_path)
    assert [violation.message for violation in decision.violations] == ["srv takes pw by get_param", "of-$"]


def test_a_hidden_truth_is_covered_too(tmp_path: Path) -> None:
    template = stack_of({})
    template["parameters"]["pw"]["type"] = "boolean"
    rules = '@record("p", "")\np(v) :- os:heat:value(value=v).'
    assert decided(rules, template, tmp_path, pw=True).derived["m:p"] == ((SECRET,),)
    assert dg.read_stack(template=template, parameters={"pw": True, "open": ""}).resources[0].properties == {
        "value": True
    }


def test_a_hidden_value_is_followed_where_the_text_does_not_show_it(tmp_path: Path) -> None:
    template = stack_of(
        {
            "security_groups": [{"if": [{"equals": ["a", "b"]}, "gone"]}, {"get_param": "pw"}],
            "name": {"if": ["is", "a", "b"]},
            "image": {"if": ["is", "a", "b"]},
        },
        more={"type": "nested.yaml", "metadata": {"m": {"get_param": "pw"}}},
        many={
            "type": "OS::Heat::ResourceGroup",
            "properties": {"count": {"get_param": "pw"}, "resource_def": {"type": "OS::Heat::None"}},
        },
    )
    nested = {
        "heat_template_version": "wallaby",
        "resources": {
            "s": {"type": "OS::Nova::Server", "properties": {"metadata": {"resource_facade": "metadata"}, "name": "n"}}
        },
    }
    (tmp_path / "m.dl").write_text("""
    @deny("image", "{id} {at} {v}")
    p(id, at, v) :- heat:property(id, at, v), starts_with(at, "x").
    @deny("sum", "{id}")
    sum(id) :- os:nova:server(_id=id, key_name=k), k = "x".
    """)
    template["resources"]["srv"]["properties"]["key_name"] = {
        "list_join": ["", [{"get_param": "pw"}, {"get_attr": ["more", "x"]}]]
    }
    stack = dg.read_stack(
        template=template, parameters={"pw": PW, "open": "o"}, files={"nested.yaml": json.dumps(nested)}
    )
    facts = flatten(stack, SHIPPED, ["heat:property"])
    properties = [facts.shown("heat:property", row) for row in facts.rows["heat:property"]]
    assert {path for _, path, value in properties if value == SECRET} == {
        *("security_groups.0", "name", "image", "key_name", "value", "count", SECRET)
    }
    decision = dg.load_rules(tmp_path / "m.dl").decide(stack)
    assert [
        (violation.policy, violation.message, violation.because)
        for violation in decision.undetermined
        if violation.policy == "sum"
    ] == [("sum", "srv", (SECRET,))]
    assert [resource.open_members for resource in stack.resources if resource.open_members] == [
        worded("the number of members ***")
    ]


def test_a_hidden_output_of_a_member_is_followed_through_its_group() -> None:
    member = {"type": "nested.yaml", "properties": {"arg": {}}}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": member}}
    use = {"type": "OS::Heat::Value", "properties": {"value": {"get_attr": ["group", "resource.0.secret"]}}}
    nested = json.dumps(NESTED | {"outputs": {"secret": {"value": {"get_param": "inner"}}}})
    template = stack_of({}, group=group, use=use)
    stack = dg.read_stack(template=template, parameters={"pw": PW, "open": "o"}, files={"nested.yaml": nested})
    assert PW not in "".join(write(flatten(stack, SHIPPED)))


def test_a_hidden_value_is_followed_out_of_a_resource_of_a_nested_template() -> None:
    nest = {"type": "nested.yaml", "properties": {"arg": {}}}
    use = {"type": "OS::Heat::Value", "properties": {"value": {"get_attr": ["nest", "resource.value.value"]}}}
    template = stack_of({}, nest=nest, use=use)
    stack = dg.read_stack(
        template=template, parameters={"pw": PW, "open": "o"}, files={"nested.yaml": json.dumps(NESTED)}
    )
    assert stack.resources[-1].properties == {"value": PW}
    assert PW not in "".join(write(flatten(stack, SHIPPED)))


def test_no_allowed_value_of_a_hidden_parameter_is_shown(tmp_path: Path) -> None:
    hidden = {"type": "string", "hidden": True, "constraints": [{"allowed_values": ["a", PW]}]}
    template = {**stack_of({"name": {"get_param": "pin"}}), "parameters": {"pin": hidden, "pw": {"type": "string"}}}
    (tmp_path / "m.dl").write_text(f'@deny("p", "")\np(s) :- os:nova:server(_id=s, name="{PW}").')
    decision = dg.load_rules(tmp_path / "m.dl").decide(dg.read_stack(template=template))
    assert [finding.depends for finding in decision.undetermined] == ["depends on parameter pin"]


def test_no_deployment_is_named_after_a_hidden_server() -> None:
    group = {"type": "OS::Heat::SoftwareDeploymentGroup", "properties": {"servers": {"get_param": "blob"}}}
    stack = dg.read_stack(template=stack_of({}, group=group), parameters={"pw": PW, "open": "o"})
    assert stack.resources[-1].open_members == hidden_value("servers of group")
    assert PW not in "".join(write(flatten(stack, SHIPPED, ["heat:member", "heat:resource"])))


def test_what_is_hidden_stays_so_where_heat_moves_a_property(tmp_path: Path) -> None:
    pw = {"get_param": "pw"}
    port = {"type": "OS::Neutron::Port", "properties": {"network_id": pw, "name": "p"}, "metadata": {"m": pw}}
    template = stack_of({"networks": [{"uuid": pw}]}, port=port)
    rules = """
    @record("p", "")
    p(v) :- os:nova:server.networks(network=v).
    p(v) :- os:neutron:port(network=v).
    n(v) :- os:neutron:port(name=v).
    m(v) :- heat:metadata(value=v).
    """
    decision = decided(rules, template, tmp_path)
    assert [decision.derived[f"m:{name}"] for name in "pnm"] == [((SECRET,),), (("p",),), ((SECRET,),)]
