"""Takes secrets out of what is logged (layer 6).

In: the JSON data of a definition, and the stack that was read of it. Out: the data with `MASK` wherever the value of a
hidden parameter stood, and the names of those parameters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from datalog_gate.base.errors import InputError
from datalog_gate.stack.model import Stack
from datalog_gate.template.document import read_document

MASK = "******"
"""What Heat itself shows in the place of a hidden value (heat/engine/service.py:1410-1427)."""
SHORT = 4
"""A text shorter than this is masked only where it stands alone: taken out of texts it would leave nothing of them. A
number of fewer digits is masked only where the parameter is named."""
SECTIONS = ("parameters", "parameter_defaults")
DECLARED = (("parameters", "default", "hidden"), ("Parameters", "Default", "NoEcho"))
"""How templates of either kind declare a parameter: the section, its default, and that it is hidden."""


def redacted(definition: Mapping[str, Any], stacks: Iterable[Stack]) -> tuple[dict[str, Any], list[str]]:
    """The definition without the values of hidden parameters of the stacks and of those nested in them, by name too: a
    parameter's value stands in the request, in environments, or as a default, even if another one is over it."""
    hidden = [
        parameter for stack in stacks for part in stack.walk() for parameter in part.parameters if parameter.hidden
    ]
    names = frozenset(parameter.name for parameter in hidden)
    texts = {
        form for parameter in hidden for text in _texts(parameter.value) for form in (text, json.dumps(text)[1:-1])
    }
    whole = [
        parameter.value
        for parameter in hidden
        if parameter.value and isinstance(parameter.value, Mapping | list | tuple)
    ]
    secrets = _Secrets(names, tuple(sorted(texts, key=len, reverse=True)), whole)
    environments = definition["environment_files"]
    files = {
        name: secrets.text(text, secrets.environment if name in environments else secrets.template)
        for name, text in definition["files"].items()
    }
    masked = {
        "template": secrets.written(definition["template"], secrets.template),
        "environment": secrets.written(definition["environment"], secrets.environment),
        "parameters": secrets.data(secrets.section(definition["parameters"])),
        "files": files,
    }
    return {**definition, **masked}, sorted(names)


@dataclass(frozen=True, slots=True)
class _Secrets:
    """The names of hidden parameters, the texts in their values from the longest on, and the values that are more."""

    names: frozenset[str]
    texts: tuple[str, ...]
    whole: list[Any]

    def written(self, document: Any, sections: Callable[[Any], Any]) -> Any:
        """A document, as data or as text, of which `sections` masks what it names."""
        return self.text(document, sections) if isinstance(document, str) else self.data(sections(document))

    def text(self, text: str, sections: Callable[[Any], Any]) -> str:
        """As `written`. Where a text holds a secret it becomes JSON: cut out of YAML, it might leave none, and YAML can
        spell it in many ways."""
        if not (self.names or any(word in text for *_, word in DECLARED)):
            return text
        covered = self._cut(text)
        try:
            data = read_document(text, "").data
        except InputError:
            return covered
        if not isinstance(data, dict | list):
            return covered
        masked = self.data(sections(data))
        return text if (masked, covered) == (data, text) else json.dumps(masked)

    def template(self, data: Any) -> Any:
        """A template without the defaults of hidden parameters."""
        for section, default, hidden in DECLARED:
            if isinstance(data, Mapping) and isinstance(declared := data.get(section), Mapping):
                shown = {
                    name: {**one, default: MASK}
                    if isinstance(one, Mapping) and default in one and (one.get(hidden) or name in self.names)
                    else one
                    for name, one in declared.items()
                }
                data = {**data, section: shown}
        return data

    def environment(self, data: Any) -> Any:
        """An environment without the values of hidden parameters."""
        if not isinstance(data, Mapping):
            return data
        return {key: self.section(value) if key in SECTIONS else value for key, value in data.items()}

    def section(self, section: Any) -> Any:
        """Values by the names of parameters."""
        if not isinstance(section, Mapping):
            return section
        return {key: MASK if key in self.names else value for key, value in section.items()}

    def data(self, value: Any) -> Any:
        """Data without the secrets that stand in it."""
        if value in self.whole:
            return MASK
        match value:
            case str():
                return MASK if value in self.texts else self._cut(value)
            case int() | float():
                return MASK if len(str(value)) >= SHORT and str(value) in self.texts else value
            case Mapping():
                return {key: self.data(one) for key, one in value.items()}
            case list() | tuple():
                return [self.data(one) for one in value]
            case _:
                return value

    def _cut(self, text: str) -> str:
        for secret in self.texts:
            if len(secret) >= SHORT:
                text = text.replace(secret, MASK)
        return text


def _texts(value: object) -> Iterator[str]:
    match value:
        case str() if value:
            yield value
        case bool():
            pass
        case int() | float() if len(str(value)) >= SHORT:
            yield str(value)
        case Mapping():
            for one in value.values():
                yield from _texts(one)
        case list() | tuple():
            for one in value:
                yield from _texts(one)
