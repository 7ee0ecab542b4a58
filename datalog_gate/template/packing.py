"""Texts of nested templates as Heat's client sends them.

The client sends JSON of each template that another one reads by `get_file`, and replaces the names of files in it,
which are relative to it (heatclient/common/template_utils.py:137).
"""

from __future__ import annotations

import json
import posixpath

from datalog_gate.base.errors import InputError
from datalog_gate.stack.model import Data
from datalog_gate.template.dialect import VERSION_KEYS
from datalog_gate.template.document import Documents, Spend
from datalog_gate.template.environment import TEMPLATE_ENDINGS


def pack(file: str, text: str, root: str, documents: Documents, spend: Spend) -> str:
    """The text that is sent for a file: of a template, with names relative to the folder of the file `root`."""
    if not any(version in text for version in VERSION_KEYS):
        return text
    try:
        document = documents.read(text, file, True, spend)
    except InputError:
        return text
    is_flow = text.lstrip().startswith("{") and document.root is not None  # the client reads it as JSON, and fails
    if is_flow or not isinstance(document.data, dict) or document.data.keys().isdisjoint(VERSION_KEYS):
        return text
    spend(len(text) // 16)
    folder = posixpath.relpath(posixpath.dirname(file) or ".", posixpath.dirname(root) or ".")
    return json.dumps(_rewritten(document.data, folder))


def _rewritten(data: Data, folder: str) -> Data:
    match data:
        case dict():
            return {
                key: posixpath.normpath(posixpath.join(folder, value))
                if isinstance(value, str) and _names_file(key, value)
                else _rewritten(value, folder)
                for key, value in data.items()
            }
        case list():
            return [_rewritten(item, folder) for item in data]
    return data


def _names_file(key: Data, value: str) -> bool:
    named = key == "get_file" or (key == "type" and value.endswith(TEMPLATE_ENDINGS))
    return named and "://" not in value
