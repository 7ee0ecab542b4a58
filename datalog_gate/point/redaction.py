"""Takes secrets out of what is logged (layer 6).

In: the JSON data of a definition, and the stack that was read of it. Out: the data with `MASK` wherever the value of a
hidden parameter stood, and the names of those parameters.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from datalog_gate.facts.stack import Stack
from datalog_gate.template.document import read_document

MASK = "******"
"""What Heat itself shows in the place of a hidden value."""
SHORT = 4
"""A text shorter than this is masked only where it stands alone: taken out of texts it would leave nothing of them."""
SECTIONS = ("parameters", "parameter_defaults")


def redacted(definition: Mapping[str, Any], stack: Stack) -> tuple[dict[str, Any], list[str]]:
    """The definition without the values of hidden parameters of the stack and of those nested in it, by name too: a
    parameter's value stands in the request, in environments, or as a default."""
    hidden = [one for part in stack.walk() for one in part.parameters if one.hidden]
    if not hidden:
        return dict(definition), []
    names = {one.name for one in hidden}
    secrets = sorted({text for one in hidden for text in _texts(one.value)}, key=len, reverse=True)
    masked: dict[str, Any] = {key: _masked(value, secrets) for key, value in definition.items()}
    masked["parameters"] = _without(masked.get("parameters"), names)
    masked["environment"] = _environment(masked.get("environment"), names)
    for file in masked.get("environment_files") or ():
        masked["files"][file] = json.dumps(_environment(masked["files"][file], names))
    return masked, sorted(names)


def _environment(written: Any, names: Collection[str]) -> Any:
    data = read_document(written, "<environment>").data if isinstance(written, str) else written
    if not isinstance(data, Mapping):
        return data
    return {key: _without(value, names) if key in SECTIONS else value for key, value in data.items()}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def _masked(value: Any, secrets: Collection[str]) -> Any:
    match value:
        case str():
            if value in secrets:
                return MASK
            for secret in secrets:
                if len(secret) >= SHORT:
                    value = value.replace(secret, MASK)
            return value
        case Mapping():
            return {key: _masked(one, secrets) for key, one in value.items()}
        case list() | tuple():
            return [_masked(one, secrets) for one in value]
        case _:
            return value


def _without(section: Any, names: Collection[str]) -> Any:
    if not isinstance(section, Mapping):
        return section
    return {key: MASK if key in names else value for key, value in section.items()}
