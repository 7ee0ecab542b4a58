"""Read unknowns as they are printed: ``{get_attr: [db, ip]} in web``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.expression import phrase
from datalog_gate.base.unknown import call
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.template.dialect import _CFN_CONDITIONAL, _CONDITIONAL, _SHARED, _SINCE

FUNCTIONS = {*" ".join((*_SINCE.values(), *_CONDITIONAL.values(), _SHARED, _CFN_CONDITIONAL)).split(), "Fn::GetAtt"}


def worded(words: str, place: Span | None = None, **properties: Any) -> Unknown:
    """An unknown that no function gave."""
    return Unknown(phrase(words), place, **properties)


def unknown_of(text: str) -> Unknown:
    """The unknown that is printed so; words if it is the result of no function."""
    body, _, stack = text.rpartition(" in ")
    try:
        [(function, arguments)] = yaml.safe_load(body).items()
    except (AttributeError, ValueError, yaml.YAMLError):
        return worded(text)
    unknown = call(function, _data(arguments, stack), stack, {}, None) if function in FUNCTIONS else worded(text)
    return unknown if unknown.expression == text else worded(text)


def as_words(data: Any) -> Any:
    """The data, or rows, with words in place of each unknown: the way it is printed."""
    match data:
        case ResourceId():
            return data
        case Unknown():
            return replace(data, source=phrase(data.expression))
        case dict():
            return {as_words(key): as_words(value) for key, value in data.items()}
        case list() | tuple() | set() | frozenset():
            return type(data)(map(as_words, data))
    return data


def _data(data: object, stack: str) -> object:
    match data:
        case dict() if len(data) == 1 and FUNCTIONS.issuperset(data):
            [(function, arguments)] = data.items()
            return call(function, _data(arguments, stack), stack, {}, None)
        case dict():
            return {key: _data(value, stack) for key, value in data.items()}
        case list():
            return [_data(item, stack) for item in data]
    return data
