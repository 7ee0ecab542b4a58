"""Operators' catalogue files: their types in rules and facts."""

# ruff: noqa: E501 (texts stand here as they are printed)

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import datalog_gate as dg
from datalog_gate.api import lint
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import InputError
from datalog_gate.doors.cli.main import main
from datalog_gate.schema import resource_types
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.operator_files import read_catalogue
from tests.refusals import refusals

BALANCER = """\
{"source": "acme 3",
"Acme::Balancer": {
  "relation": "acme:balancer",
  "properties": {
    "port": {"kind": "integer", "required": true, "range": [1, 65535]},
    "tier": {"kind": "string", "default": "small", "allowed": ["small", "large"]},
    "old_tier": {"kind": "string", "status": ["hidden", null]},
    "pools": {"kind": "list", "children": {"weight": {"kind": "number"}}},
    "tags": {"kind": "list", "item": {"kind": "string"}}
  },
  "moved": {"old_tier": "tier"},
  "attributes": {"address": null, "size": "tier"}
}}
"""
TEMPLATE = """\
heat_template_version: 2021-04-16
resources:
  one: {type: Acme::Balancer, properties: {port: "80", old_tier: large, pools: [{weight: 2}]}}
  two: {type: Acme::Balancer, properties: {port: 81, tier: {get_attr: [one, size]}}}
"""
RULES = '@deny("large", "{b} is {t}")\nlarge(b, t) :- acme:balancer(_id=b, port=p, tier=t), p < 1024, t != "small".\n'
PLAIN = '@deny("name", "{s}")\nnamed(s) :- os:nova:server(_id=s, name="x").\n'
TESTS = """\
cases:
  - name: both are large
    stack: ../web.yaml
    expect: {violations: [{policy: large, resource: one}, {policy: large, resource: two}]}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rules").mkdir()
    heat = resource_types.shipped(resource_types.SOURCES)
    server = json.loads(heat["OS::Nova::Server"])
    del server["properties"]["image"]
    server["properties"]["flavor"]["allowed"] = ["m1"]
    newer = {
        "source": "openstack-heat 99",
        "OS::Nova::Server": server,
        "OS::Neutron::Net": json.loads(heat["OS::Neutron::Net"]),
    }
    files = {
        "acme.json": BALANCER,
        "heat.json": json.dumps(newer),
        "web.yaml": TEMPLATE,
        "rules/rules.dl": RULES,
        "rules/test.yaml": TESTS,
        "plain.dl": PLAIN,
        "gone.dl": '@deny("p", "{s}")\np(s) :- os:nova:server(_id=s, image="x"), not os:neutron:router(_id=s).\n',
        "value.dl": '@deny("p", "{s}")\np(s) :- os:nova:server(_id=s, flavor="m2").\n',
        "bad.json": '{"A::B": {"relation": "a:b"}}',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)


def test_rules_and_facts_know_the_types_of_the_file() -> None:
    catalogue = dg.read_catalogue("acme.json")
    decision = dg.load_rules("rules", catalogue=catalogue).decide(dg.read_stack("web.yaml", catalogue=catalogue))
    assert [(violation.message, str(violation.place)) for violation in decision.violations] == [
        ("one is large", "web.yaml:3:66"),
        ("two is large", "web.yaml:4:60"),
    ]


def test_two_policy_sets_in_one_process_keep_their_own_types() -> None:
    dg.load_rules("rules", catalogue=dg.read_catalogue("acme.json"))
    with pytest.raises(dg.RulesError):
        dg.load_rules("rules")
    assert SHIPPED.type("Acme::Balancer") is None


@pytest.mark.parametrize(
    ("arguments", "code", "out"),
    [
        (
            "facts web.yaml --catalogue acme.json --relation acme:balancer.pools --relation acme:balancer",
            0,
            'acme:balancer(_id=web/one, _stack="web", port=80, tier="large")   web.yaml:3:43\n'
            'acme:balancer(_id=web/two, _stack="web", port=81, tier="large")   web.yaml:4:43\n'
            "acme:balancer.pools(_id=web/one, _index=0, weight=2)   web.yaml:3:81\n",
        ),
        ("query acme:balancer(tier=t) --rules plain.dl --catalogue acme.json --undefined error", 0, ""),
        ("lint rules --catalogue acme.json", 0, ""),
        ("lint rules --catalogue acme.json --catalogue heat.json", 0, ""),
    ],
)
def test_commands_take_catalogue_files(arguments: str, code: int, out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments.split()) == code
    assert capsys.readouterr().out == out


def test_a_list_with_a_hyphen_in_its_name_is_read_by_another_name_and_located_by_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tags = {"kind": "list", "item": {"kind": "string"}}
    Path("box.json").write_text(json.dumps({"Acme::Box": {"relation": "acme:box", "properties": {"x-tags": tags}}}))
    Path("box.yaml").write_text(
        "heat_template_version: 2018-08-31\nresources:\n  box: {type: Acme::Box, properties: {x-tags: [a, b]}}\n"
    )
    assert main(["facts", "box.yaml", "--catalogue", "box.json", "--relation", "acme:box.x_tags"]) == 0
    assert capsys.readouterr().out == (
        'acme:box.x_tags(_id=box/box, _index=0, _value="a")   box.yaml:3:48\n'
        'acme:box.x_tags(_id=box/box, _index=1, _value="b")   box.yaml:3:51\n'
    )


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--catalogue", "acme.json"], []])
def test_policy_tests_take_catalogue_files(options: list[str]) -> None:
    assert main(["test", *options, "rules"]) == (0 if options else 2)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("lint rules --catalogue heat.json", 2, "there is no relation acme:balancer"),
        ("lint plain.dl --catalogue bad.json", 3, "A::B has no `properties`"),
        (
            "check web.yaml --rules plain.dl --catalogue none.json",
            3,
            "none.json can't be read: No such file or directory",
        ),
        ("lint value.dl --catalogue heat.json", 2, "flavor of os:nova:server is never 'm2'"),
    ],
)
def test_errors_have_their_exit_codes(
    arguments: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments.split(), "--format", "json"]) == code
    assert [load["message"] for load in json.loads(capsys.readouterr().out)["diagnostics"]] == [message]


def test_an_upgrade_lists_all_that_it_breaks() -> None:
    problems = refusals(lambda: lint("gone.dl", catalogue=dg.read_catalogue("heat.json")), "span", "message")
    assert [(str(span), message) for span, message in problems] == [
        ("gone.dl:2:31", "os:nova:server has no column image"),
        ("gone.dl:2:47", "there is no relation os:neutron:router"),
    ]


def read_diagnostics(entry: dict[str, Any]) -> tuple[Diagnostic, ...]:
    """The diagnostics of a file with one type on one line."""
    with pytest.raises(InputError) as error:
        read_catalogue([("f", json.dumps({"A::B": {"relation": "a:b", "properties": {}} | entry}))])
    return error.value.diagnostics


def property_of(**declaration: object) -> dict[str, Any]:
    return {"properties": {"x": declaration}}


@pytest.mark.parametrize(
    ("entry", "message", "suggestion"),
    [
        ({"relation": 1}, "A::B.relation is not a string", None),
        ({"relation": "A:b"}, "A::B.relation is not the name of a relation", "such as acme:load_balancer"),
        ({"relation": "heat:resource"}, "heat:resource is the relation of the gate", None),
        ({"relation": "os:nova:server"}, "os:nova:server is the relation of OS::Nova::Server", None),
        ({"atributes": {}}, "A::B.atributes is not allowed here", "did you mean attributes?"),
        ({"properties": []}, "A::B.properties is not an object", None),
        ({"properties": {"_id": {"kind": "string"}}}, "A::B.properties._id is not a valid property name: it is empty, begins with _ or has a dot", None),
        (property_of(required=True), "A::B.properties.x has no `kind`", None),
        (property_of(kind="text"), "A::B.properties.x.kind is not one of string, integer, number, boolean, any, list, map", None),
        (property_of(kind="string", requierd=True), "A::B.properties.x.requierd is not allowed here", "did you mean required?"),
        (property_of(kind="string", required=1), "A::B.properties.x.required is not a boolean", None),
        (property_of(kind="integer", default=True), "A::B.properties.x.default is not of the kind integer", None),
        (property_of(kind="string", allowed=[[]]), "A::B.properties.x.allowed is not a list of scalars", None),
        (property_of(kind="map", item={"kind": "string"}), "A::B.properties.x can't have these children or this item: a list has either, a map may have children, a scalar has neither", None),
        (property_of(kind="list", item={"kind": "x"}), "A::B.properties.x.item.kind is not one of string, integer, number, boolean, any, list, map", None),
        ({"attributes": {"y": "z"}}, "A::B.attributes.y does not name a property", "write null, or the property that it returns"),
        ({"moved": {"y": None}}, "A::B.moved.y does not lead to a property: y", None),
        ({"moved": {"y": 1}}, "A::B.moved.y is neither null nor the path of a property", None),
        (property_of(kind="string") | {"moved": {"x": "y.z"}}, "A::B.moved.x does not lead to a property: y.z", None),
    ],
)  # fmt: skip
def test_a_bad_type_is_reported(entry: dict[str, Any], message: str, suggestion: str | None) -> None:
    assert [(diagnostic.code, diagnostic.message, diagnostic.suggestion) for diagnostic in read_diagnostics(entry)] == [
        ("bad-catalogue", message, suggestion)
    ]


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("", "this is not JSON: Expecting value", 1, 1),
        ('{\n  "A::B": {,}', "this is not JSON: Expecting property name enclosed in double quotes", 2, 12),
        ('{"a": 1, "a": 2}', "a is written twice", 1, 1),
        ('{"a": NaN}', "NaN is not a number", 1, 1),
        ("[" * 100_000, "it is too deep", 1, 1),
        ("[]", "a catalogue is an object of resource types by name", 1, 1),
        ('{\n "A::B": []}', "A::B is not an object", 2, 2),
        (BALANCER.replace('"weight": {"kind": "number"}', '"weight": {}'), "Acme::Balancer.properties.pools.children.weight has no `kind`", 8, 44),
    ],
)  # fmt: skip
def test_a_bad_file_is_reported_with_its_place(text: str, message: str, line: int, column: int) -> None:
    with pytest.raises(InputError) as error:
        read_catalogue([("f", text)])
    assert error.value.diagnostics == (Diagnostic("bad-catalogue", message, Span("f", line, column, line, column + 1)),)
