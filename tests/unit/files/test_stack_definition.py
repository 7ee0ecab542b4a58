"""The definition of a stack, as doors pass and log it."""

from __future__ import annotations

import json

import pytest

from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.schema.catalogue import SHIPPED
from tests.expressions import unknown_of

TEMPLATE = """heat_template_version: 2018-08-31
parameters:
  f: {type: string, default: small, hidden: true, constraints: [{allowed_values: [small, huge]}]}
resources:
  web: {type: OS::Nova::Server, properties: {flavor: {get_param: f}}}
"""
HIDDEN = unknown_of("{get_param: f} in s")


@pytest.mark.parametrize(
    ("definition", "flavor"),
    [
        (StackDefinition(TEMPLATE), "small"),
        (StackDefinition(TEMPLATE, {"parameters": {"f": "huge"}}), "huge"),
        (StackDefinition(TEMPLATE, None, {"f": "small"}, {"e": "parameters: {f: huge}"}, ("e",)), "huge"),
        (StackDefinition(TEMPLATE, None, None, {"e": "parameters: {f: huge}", "g": "parameters: {f: small}"},
                    ("e", "g")), "small"),
        (StackDefinition(TEMPLATE, {"parameters": {}}, None, {}, (), (("parameters", "f"),)), HIDDEN),
        (StackDefinition(TEMPLATE, None, None, {}, (), (("parameter_defaults", "f"),)), HIDDEN),
        (StackDefinition(TEMPLATE, {"parameters": {"f": "huge"}}, masked=(("parameter_defaults", "f"),)), "huge"),
    ],
)  # fmt: skip
def test_a_definition_is_read_as_heat_would_and_is_whole_again_from_json(
    definition: StackDefinition, flavor: object
) -> None:
    again = StackDefinition.from_json(json.loads(json.dumps(definition.to_json())))
    assert again == definition
    for copy in (definition, again):
        [web] = copy.stack("s", SHIPPED).resources
        assert web.properties["flavor"] == flavor
