"""The decision log shows no secret of a definition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from datalog_gate.decision_point.redaction import redact_definition
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.schema.catalogue import SHIPPED

MARK = "S3CR3T-o'\\n\\t\\\\Q"
NUMBER = 73519462
HIDDEN: dict[str, Any] = {"type": "string", "hidden": True}


def declared(schema: Mapping[str, Any], **properties: Any) -> dict[str, Any]:
    """A template with the parameter `pw`, and with a nested stack that gets what is given."""
    nested = {"nested": {"type": "nested.yaml", "properties": properties}} if properties else {}
    return {"heat_template_version": "wallaby", "parameters": {"pw": schema}, "resources": nested}


def nested(schema: Mapping[str, Any]) -> dict[str, str]:
    return {"nested.yaml": yaml.safe_dump(declared(schema))}


@pytest.mark.parametrize(
    "definition",
    [
        StackDefinition(declared(HIDDEN | {"default": MARK})),
        StackDefinition(declared(HIDDEN | {"default": MARK}), parameters={"pw": "another"}),
        StackDefinition(declared(HIDDEN | {"type": "number", "default": NUMBER})),
        StackDefinition(declared(HIDDEN | {"type": "comma_delimited_list", "default": f"a,{NUMBER}"})),
        StackDefinition(declared(HIDDEN | {"type": "json", "default": {f"key {MARK}": NUMBER}})),
        StackDefinition(declared(HIDDEN | {"type": "json", "default": json.dumps({f"key {MARK}": NUMBER})})),
        StackDefinition(yaml.safe_dump(declared(HIDDEN | {"default": MARK}))),
        StackDefinition(yaml.safe_dump(declared(HIDDEN | {"type": "number", "default": NUMBER}))),
        StackDefinition(declared(HIDDEN), "parameters:\n  pw: S3CR3T\n"),
        StackDefinition(declared(HIDDEN), "# it is S3CR3T\nparameter_defaults: {pw: S3CR3T}\n"),
        StackDefinition(declared(HIDDEN), parameters={"pw": "k4pt"}, files={"a": "x k4pt"}),
        StackDefinition(declared(HIDDEN), files={"e": "parameters:\n  pw: S3CR3T\n"}, environment_files=("e",)),
        StackDefinition(declared(HIDDEN), yaml.safe_dump({"parameters": {"pw": MARK}})),
        StackDefinition(
            declared(HIDDEN), parameters={"pw": MARK}, files={"a": f"x {MARK}", "b": yaml.safe_dump([MARK])}
        ),
        StackDefinition(declared(HIDDEN), parameters={"pw": MARK}, files={"a": json.dumps({"b": f"c {MARK}"})[:-1]}),
        StackDefinition(declared({"type": "json", "hidden": True}), parameters={"pw": json.dumps([MARK, NUMBER])}),
        StackDefinition(declared({"type": "string", "default": ""}), files=nested(HIDDEN | {"default": MARK})),
        StackDefinition(declared({"type": "string", "default": ""}, pw=MARK), files=nested(HIDDEN)),
        StackDefinition(yaml.safe_dump(declared({"type": "string", "default": ""}, pw=MARK)), files=nested(HIDDEN)),
        StackDefinition(
            declared({"type": "string", "default": ""}, pw=NUMBER), files=nested({"type": "number", "hidden": True})
        ),
        StackDefinition(
            declared({"type": "string", "default": ""}, pw={MARK: [NUMBER]}),
            files=nested({"type": "json", "hidden": True}),
        ),
        StackDefinition(
            {
                "AWSTemplateFormatVersion": "2010-09-09",
                "Parameters": {"pw": {"Type": "String", "NoEcho": "true", "Default": MARK}},
                "Resources": {},
            },
            parameters={"pw": str(NUMBER)},
        ),
    ],
)
def test_no_record_holds_a_secret_however_it_is_given(definition: StackDefinition) -> None:
    redacted = json.dumps(redact_definition(definition.to_json(), [definition.stack("s", SHIPPED)]))
    assert [secret for secret in ("S3CR3T", str(NUMBER), "k4pt") if secret in redacted] == []


def test_what_holds_no_secret_is_logged_as_it_is_written() -> None:
    text = yaml.safe_dump(declared({"type": "string", "hidden": True})) + "# said\n"
    files = {"a": "echo 1", "b": "k: [1, x]  # more\n", "c": "{: no YAML"}
    definition = StackDefinition(text, {"parameters": {"pw": MARK}}, None, files)
    assert redact_definition(definition.to_json(), [definition.stack("s", SHIPPED)]) == (
        definition.to_json() | {"environment": {"parameters": {"pw": "******"}}}, ["pw"],
    )  # fmt: skip


@pytest.mark.parametrize("default", ["", None])
def test_an_empty_default_is_no_secret(default: str | None) -> None:
    definition = StackDefinition(declared(HIDDEN | {"default": default}))
    assert redact_definition(definition.to_json(), [definition.stack("s", SHIPPED)])[0] == definition.to_json()


def test_secrets_too_short_to_look_for_are_masked_by_name() -> None:
    text = "parameter_defaults: {pw: '34'}"
    definition = StackDefinition(
        declared(HIDDEN | {"default": "12"}), text, {"pw": "12"}, {"a": "port 12", "e": text}, ("e",)
    )
    masked = '{"parameter_defaults": {"pw": "******"}}'
    assert redact_definition(definition.to_json(), [definition.stack("s", SHIPPED)])[0] == {
        "template": declared(HIDDEN | {"default": "******"}),
        "environment": masked,
        "parameters": {"pw": "******"},
        "files": {"a": "port 12", "e": masked},
        "environment_files": ["e"],
        "masked": [],
    }
