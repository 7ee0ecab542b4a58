"""What a stack is made of, as a door hands it on: read as Heat would, and whole again from the log."""

from __future__ import annotations

import json

import pytest

from datalog_gate.base.values import Unknown
from datalog_gate.decision_point.stack_definition import Definition
from datalog_gate.schema.catalogue import SHIPPED

TEMPLATE = """heat_template_version: 2018-08-31
parameters:
  f: {type: string, default: small, hidden: true, constraints: [{allowed_values: [small, huge]}]}
resources:
  web: {type: OS::Nova::Server, properties: {flavor: {get_param: f}}}
"""
HIDDEN = Unknown("{get_param: f} in s")


@pytest.mark.parametrize(
    ("definition", "flavor"),
    [
        (Definition(TEMPLATE), "small"),
        (Definition(TEMPLATE, {"parameters": {"f": "huge"}}), "huge"),
        (Definition(TEMPLATE, None, {"f": "small"}, {"e": "parameters: {f: huge}"}, ("e",)), "huge"),
        (Definition(TEMPLATE, None, None, {"e": "parameters: {f: huge}", "g": "parameters: {f: small}"},
                    ("e", "g")), "small"),
        (Definition(TEMPLATE, {"parameters": {}}, None, {}, (), (("parameters", "f"),)), HIDDEN),
        (Definition(TEMPLATE, None, None, {}, (), (("parameter_defaults", "f"),)), HIDDEN),
        (Definition(TEMPLATE, {"parameters": {"f": "huge"}}, None, {}, (), (("parameter_defaults", "f"),)), "huge"),
    ],
)  # fmt: skip
def test_a_definition_is_read_as_heat_would_and_is_whole_again_from_json(
    definition: Definition, flavor: object
) -> None:
    again = Definition.from_json(json.loads(json.dumps(definition.to_json())))
    assert again == definition
    for one in (definition, again):
        [web] = one.stack("s", SHIPPED).resources
        assert web.properties["flavor"] == flavor
