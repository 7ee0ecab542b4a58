"""The texts of a request as Heat's own loaders read them.

The gate has its own reader of texts, which records places. If the results differ, Heat would build another stack than
the judged one.
"""

from __future__ import annotations

import json
from typing import Any

from datalog_gate.stack.model import Stack
from datalog_gate.template.reader import TemplateSource


def find_difference(stack: Stack) -> str | None:
    """The first text of a judged stack that Heat reads differently; None if there is none, or no Heat."""
    try:
        from heat.common import template_format
    except ImportError:
        return None
    assert isinstance(stack.source, TemplateSource)
    for (_, as_json), document in stack.source.documents.sent.items():
        if document.text is None:
            continue
        try:
            data = template_format.simple_parse(document.text) if as_json else load_environment(document.text)
        except Exception:  # noqa: BLE001 - Heat refuses a text by any error
            continue
        if not (_is_same(document.data, data) or _is_same(_as_json(document.data), _as_json(data))):
            return f"Heat reads {document.file} differently"
    return None


def _as_json(data: Any) -> Any:
    """The data as Heat's API sends it to its engine, and its engine stores it."""
    try:
        return json.loads(json.dumps(data))
    except (TypeError, ValueError):  # not possible
        return data


def load_environment(text: str) -> Any:
    """The data of an environment, loaded as in heat/common/environment_format.py:29. Errors: ValueError."""
    from heat.common import template_format

    try:
        data = template_format.yaml.load(text, Loader=template_format.yaml_loader)
    except template_format.yaml.YAMLError:
        try:
            return template_format.yaml.load(text, Loader=template_format.yaml.SafeLoader)
        except template_format.yaml.YAMLError as error:
            raise ValueError(str(error)) from None
    return {} if data is None else data


def _is_same(data: Any, other: Any) -> bool:
    """Whether data and their types are equal, in any order of keys."""
    if type(data) is not type(other):
        return False
    match data:
        case dict():
            kinds = {key: type(key) for key in data}
            return kinds == {key: type(key) for key in other} and all(_is_same(data[key], other[key]) for key in data)
        case list():
            return len(data) == len(other) and all(map(_is_same, data, other))
    return bool(data == other or data != data)  # NaN
