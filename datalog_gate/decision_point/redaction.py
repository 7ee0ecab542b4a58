"""Removes secrets from stack definitions before they are logged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from datalog_gate.base.errors import InputError
from datalog_gate.stack.model import Stack
from datalog_gate.template.document import read_document

MASK = "******"
"""What Heat shows in place of a hidden value (heat/engine/service.py:1410-1427)."""
MIN_LENGTH = 4
"""A shorter text is masked only as a whole value, since replacing it inside other texts would destroy them. A number of
fewer digits is masked only under the name of its parameter."""
SECTIONS = ("parameters", "parameter_defaults")
DECLARED = (("parameters", "default", "hidden"), ("Parameters", "Default", "NoEcho"))
"""The section, default and hidden keys of parameters in HOT and CloudFormation templates."""


def redact_definition(definition: Mapping[str, Any], judged: Iterable[Stack]) -> tuple[dict[str, Any], list[str]]:
    """Mask the values of the hidden parameters of the stacks and their nested stacks, wherever they stand.

    Return the masked definition and the names of the hidden parameters. A value is masked by name too: it may stand in
    the request, in environments, or as a default, even where another value overrides it.
    """
    hidden = [
        parameter for stack in judged for nested in stack.walk() for parameter in nested.parameters if parameter.hidden
    ]
    names = frozenset(parameter.name for parameter in hidden)
    texts = {
        form for parameter in hidden for text in _texts(parameter.value) for form in (text, json.dumps(text)[1:-1])
    }
    collections = [
        parameter.value
        for parameter in hidden
        if parameter.value and isinstance(parameter.value, Mapping | list | tuple)
    ]
    secrets = _Secrets(names, tuple(sorted(texts, key=len, reverse=True)), collections)
    masked = secrets.definition(definition) | {"parameters": secrets.data(secrets.section(definition["parameters"]))}
    if held := definition.get("held"):
        stacks = {path: stack | secrets.definition(stack) for path, stack in held["stacks"].items()}
        masked["held"] = held | {"stacks": stacks}
    return {**definition, **masked}, sorted(names)


def remove_masked(environment: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Remove what Heat masks from an environment, but for `own` values. Return the section and name of each."""
    sections = {name: section for name in SECTIONS if isinstance(section := environment.get(name), dict)}
    masked = [(name, key) for name, section in sections.items() for key in section if section[key] == MASK]
    hidden = tuple((name, key) for name, key in masked if key not in own.get(name, {}))
    for name, key in hidden:
        del sections[name][key]
    return hidden


@dataclass(frozen=True, slots=True)
class _Secrets:
    """Masks the values of hidden parameters."""

    names: frozenset[str]
    texts: tuple[str, ...]
    """The texts in the values, longest first."""
    collections: list[Any]
    """The values that are maps or lists."""

    def definition(self, definition: Mapping[str, Any]) -> dict[str, Any]:
        """Mask the template, environment and files of a stack."""
        environments = definition.get("environment_files", ())
        return {
            "template": self.document(definition["template"], self.template),
            "environment": self.document(definition["environment"], self.environment),
            "files": {
                name: self.text(text, self.environment if name in environments else self.template)
                for name, text in definition["files"].items()
            },
        }

    def document(self, document: Any, sections: Callable[[Any], Any]) -> Any:
        """Mask a document, given as data or as text. `sections` masks the sections that name parameters."""
        return self.text(document, sections) if isinstance(document, str) else self.data(sections(document))

    def text(self, text: str, sections: Callable[[Any], Any]) -> str:
        """Mask a document given as text.

        A text that holds a secret becomes JSON: YAML can spell a secret in many ways, and might not parse without it.
        """
        if not (self.names or any(word in text for *_, word in DECLARED)):
            return text
        replaced = self._replace(text)
        try:
            data = read_document(text, "", as_json=sections != self.environment).data
        except InputError:
            return replaced
        if not isinstance(data, dict | list):
            return replaced
        masked = self.data(sections(data))
        return text if (masked, replaced) == (data, text) else json.dumps(masked)

    def template(self, data: Any) -> Any:
        """Mask the defaults of hidden parameters in a template."""
        for section, default, hidden in DECLARED:
            if isinstance(data, Mapping) and isinstance(declared := data.get(section), Mapping):
                shown = {
                    name: {**schema, default: MASK}
                    if isinstance(schema, Mapping) and default in schema and (schema.get(hidden) or name in self.names)
                    else schema
                    for name, schema in declared.items()
                }
                data = {**data, section: shown}
        return data

    def environment(self, data: Any) -> Any:
        """Mask the values of hidden parameters in an environment."""
        if not isinstance(data, Mapping):
            return data
        return {key: self.section(value) if key in SECTIONS else value for key, value in data.items()}

    def section(self, section: Any) -> Any:
        """Mask the hidden parameters in a section of values by name."""
        if not isinstance(section, Mapping):
            return section
        return {key: MASK if key in self.names else value for key, value in section.items()}

    def data(self, value: Any) -> Any:
        """Mask the secrets in data."""
        if value in self.collections:
            return MASK
        match value:
            case str():
                return MASK if value in self.texts else self._replace(value)
            case int() | float():
                return MASK if len(str(value)) >= MIN_LENGTH and str(value) in self.texts else value
            case Mapping():
                return {key: self.data(item) for key, item in value.items()}
            case list() | tuple():
                return [self.data(item) for item in value]
            case _:
                return value

    def _replace(self, text: str) -> str:
        for secret in self.texts:
            if len(secret) >= MIN_LENGTH:
                text = text.replace(secret, MASK)
        return text


def _texts(value: object) -> Iterator[str]:
    match value:
        case str() if value:
            yield value
        case bool():
            pass
        case int() | float() if len(str(value)) >= MIN_LENGTH:
            yield str(value)
        case Mapping():
            for item in value.values():
                yield from _texts(item)
        case list() | tuple():
            for item in value:
                yield from _texts(item)
