"""Removes secrets from stack definitions before they are logged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from datalog_gate.base.errors import InputError
from datalog_gate.base.secrecy import HEAT_MASK, masked
from datalog_gate.base.unknown import leaves
from datalog_gate.files.stack_definition import SECTIONS
from datalog_gate.stack.model import Stack
from datalog_gate.template.document import read_document

MIN_LENGTH = 4
"""Shorter texts are masked only as whole values, since replacing them inside other texts would destroy those. Numbers
with fewer digits are masked only under the name of their parameter."""
DECLARED = (("parameters", "default", "hidden"), ("Parameters", "Default", "NoEcho"))
"""The keys for the parameter section, defaults and hidden flags in HOT and CloudFormation templates."""


def redact_definition(definition: Mapping[str, Any], judged: Iterable[Stack]) -> tuple[dict[str, Any], list[str]]:
    """Mask the values of hidden parameters of the stacks and their nested stacks, wherever they occur.

    Return the masked definition and the names of the hidden parameters. Values are masked by name too: they may be in
    the request, in environments or in defaults, even if another value overrides them.
    """
    secrets = _Secrets(judged)
    return _redact(definition, secrets), sorted(secrets.names)


def _redact(definition: Mapping[str, Any], secrets: _Secrets) -> dict[str, Any]:
    parameters = secrets.mask_value(secrets.mask_section(definition["parameters"]))
    shown = secrets.mask_definition(definition) | {"parameters": parameters}
    if held := definition.get("held"):
        stacks = {
            path: stack | secrets.mask_definition(stack) | {"metadata": secrets.mask_value(stack.get("metadata"))}
            for path, stack in held["stacks"].items()
        }
        adopted = held.get("adopted", {})
        adopted = {path: secrets.mask_value(secrets.mask_section(section)) for path, section in adopted.items()}
        shown["held"] = held | {"stacks": stacks, "adopted": adopted}
    if leftovers := definition.get("leftovers"):
        shown["leftovers"] = [
            entry | {"definition": entry["definition"] and _redact(entry["definition"], secrets)} for entry in leftovers
        ]
    return {**definition, **shown}


class _Secrets:
    """The hidden parameters of stacks: their names, the texts in their values, and the values that are maps or
    lists."""

    def __init__(self, judged: Iterable[Stack]) -> None:
        stacks = [nested for stack in judged for nested in stack.walk()]
        hidden = [parameter for stack in stacks for parameter in stack.parameters if parameter.hidden]
        values = [parameter.value for parameter in hidden]
        self.names = {parameter.name for parameter in hidden}
        texts = {text for value in values for text in _texts(value)}
        self.texts = texts | {json.dumps(text)[1:-1] for text in texts}
        self.collections = [value for value in values if isinstance(value, dict | list) and value]

    def mask_definition(self, definition: Mapping[str, Any]) -> dict[str, Any]:
        """Mask the template, environment and files of a stack."""
        environments = definition.get("environment_files", ())
        return {
            "template": self.mask_document(definition["template"], self.mask_template),
            "environment": self.mask_document(definition["environment"], self.mask_environment),
            "files": {
                name: self.mask_text(text, self.mask_environment if name in environments else self.mask_template)
                for name, text in definition["files"].items()
            },
        }

    def mask_document(self, document: Any, sections: Callable[[Any], Any]) -> Any:
        """Mask a document, given as data or as text. `sections` masks the sections that name parameters."""
        return self.mask_text(document, sections) if isinstance(document, str) else self.mask_value(sections(document))

    def mask_text(self, text: str, sections: Callable[[Any], Any]) -> str:
        """Mask a document given as text. If it holds a secret it becomes JSON: YAML can write a secret in many ways,
        and the masked text might not parse."""
        if not (self.names or any(word in text for *_, word in DECLARED)):
            return text
        replaced = self._mask_within(text)
        try:
            data = read_document(text, "", as_json=sections != self.mask_environment).data
        except InputError:
            return replaced
        if not isinstance(data, dict | list):
            return replaced
        shown = self.mask_value(sections(data))
        return text if (shown, replaced) == (data, text) else json.dumps(shown)

    def mask_template(self, data: Any) -> Any:
        """Mask the defaults of hidden parameters in a template."""
        for section, default, hidden in DECLARED:
            if isinstance(data, Mapping) and isinstance(declared := data.get(section), Mapping):
                shown = {
                    name: {**schema, default: HEAT_MASK}
                    if isinstance(schema, Mapping)
                    and schema.get(default) not in (None, "")
                    and (schema.get(hidden) or name in self.names)
                    else schema
                    for name, schema in declared.items()
                }
                data = {**data, section: shown}
        return data

    def mask_environment(self, data: Any) -> Any:
        """Mask the values of hidden parameters in an environment."""
        if not isinstance(data, Mapping):
            return data
        return {key: self.mask_section(value) if key in SECTIONS else value for key, value in data.items()}

    def mask_section(self, section: Any) -> Any:
        """Mask the hidden parameters in a section of values by name."""
        if not isinstance(section, Mapping):
            return section
        return {key: HEAT_MASK if key in self.names else value for key, value in section.items()}

    def mask_value(self, value: Any) -> Any:
        """Mask the secrets in data."""
        if value in self.collections:
            return HEAT_MASK
        match value:
            case str():
                return HEAT_MASK if value in self.texts else self._mask_within(value)
            case int() | float():
                return HEAT_MASK if len(str(value)) >= MIN_LENGTH and str(value) in self.texts else value
            case Mapping():
                return {key: self.mask_value(member) for key, member in value.items()}
            case list() | tuple():
                return [self.mask_value(member) for member in value]
            case _:
                return value

    def _mask_within(self, text: str) -> str:
        return masked(text, (secret for secret in self.texts if len(secret) >= MIN_LENGTH), HEAT_MASK)


def _texts(value: object) -> Iterator[str]:
    for leaf in leaves(value):
        is_number = isinstance(leaf, int | float) and not isinstance(leaf, bool)
        if (isinstance(leaf, str) and leaf) or (is_number and len(str(leaf)) >= MIN_LENGTH):
            yield str(leaf)
