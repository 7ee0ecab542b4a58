"""Plain data of a template as values of Heat's declared kinds.

Data that Heat can't convert, and will refuse, stays unchanged.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import NamedTuple

from datalog_gate.base.expression import Expression
from datalog_gate.base.unknown import freeze
from datalog_gate.base.values import FALSE, Boolean, ResourceId, Unknown, Value, bases, boolean, from_python, number
from datalog_gate.schema.declaration import Property
from datalog_gate.stack.model import Data, Path

EMPTY: dict[str, Value] = {"string": "", "integer": 0, "number": 0, "boolean": FALSE}
"""Heat's values for a null where it requires the kind (heat/engine/properties.py:258-348)."""

_TEXTS = ("string", "any")
"""Kinds whose texts need no conversion."""


class Leaf(NamedTuple):
    """A scalar and its path, in `text` as rules read it. `open` says that it is unknown and may be a list or a map."""

    path: Path
    text: str
    value: Value
    open: bool


def leaves(data: Data, schema: Property | None = None) -> list[Leaf]:
    """The scalars of the data in order, with the types of the schema if it has any."""
    result: list[Leaf] = []
    _leaves(data, schema, (), "", result)
    return result


def _leaves(
    data: Data, schema: Property | None, path: Path, text: str, result: list[Leaf], member: bool = False
) -> None:
    """A `member` is an item of a list with the schema."""
    if (type(data) is str and (schema is None or schema.kind in _TEXTS)) or isinstance(data, ResourceId):
        result.append(Leaf(path, text, data, False))
    elif isinstance(data, dict):
        parts = schema.parts if schema and (member or schema.kind == "map") else {}
        before = f"{text}." if path else ""
        for key, value in data.items():
            name = str(key)
            _leaves(value, parts.get(name), (*path, name), before + _step(name), result)
    elif isinstance(data, list):
        maps = schema is not None and bool(schema.children)
        item = schema if schema is None or maps else schema.item
        before = f"{text}." if path else ""
        for index, value in enumerate(data):
            _leaves(value, item, (*path, index), f"{before}{index}", result, maps)
    else:
        scalar = schema is not None and schema.kind in EMPTY
        if schema is not None and scalar:
            value = coerce(schema.kind, schema.default if data is None else data)
        else:
            value = from_python(data)
        if not isinstance(value, Unknown):
            result.append(Leaf(path, text, value, False))
        else:
            result.append(Leaf(path, text, value, not (scalar or (schema is None and value.scalar))))


def coerce(kind: str, data: Data) -> Value:
    """Heat's value of the data for a property of a scalar kind (heat/engine/properties.py:258-348). An integer in a
    string property becomes a text; ``"8080"`` and ``"true"`` become a number and a boolean if Heat requires these; a
    null in a template becomes false. A null of another kind stays null, though Heat sends 0 or an empty text: services
    treat that as missing, and so must rules. A list or map becomes JSON text."""
    if isinstance(data, ResourceId) or (isinstance(data, str) and kind in ("string", "any")):
        return data
    if type(data) is int and kind in ("integer", "number"):
        return number(data)
    if isinstance(data, list | dict):
        return as_text(data)
    value = from_python(data)
    try:
        match kind, value:
            case "integer" | "string", Boolean(truth=truth):
                return int(truth) if kind == "integer" else str(truth)
            case "integer", (int() | Decimal() | str()) as whole:
                return int(whole)
            case "number", str(text):
                return from_python(read_number(text))
            case "string", int(whole):
                return str(whole)
            case "boolean", None:
                return FALSE
            case "boolean", str(text) if text.lower() in ("true", "false"):
                return boolean(text.lower() == "true")
    except ValueError:
        pass
    return value


def as_text(data: Data) -> str | Unknown:
    """A list or map as JSON text with sorted keys; unknown if any part is."""
    unknowns = [leaf.value for leaf in leaves(data) if isinstance(leaf.value, Unknown)]
    text = json.dumps(_writable(data), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if not unknowns:
        return text
    unread = any(unknown.unread for unknown in unknowns)
    source = Expression("json", freeze(data, {}), "", f"json({text})")
    return Unknown(source, unread=unread, of=bases(unknowns), place=unknowns[0].place)


def path_text(path: Path) -> str:
    r"""The path as rules read it: ``networks.0.port``, with a dot in a key as ``\.`` and a backslash as ``\\``."""
    return ".".join(map(_step, path))


def _step(step: str | int) -> str:
    text = str(step)
    return text.replace("\\", r"\\").replace(".", r"\.") if "." in text or "\\" in text else text


def read_number(data: Data) -> int | float:
    """As Heat reads a number (heat/engine/constraints.py:173). Errors: ValueError, TypeError."""
    try:
        return int(data)  # type: ignore[call-overload, no-any-return]
    except ValueError:
        return float(data)  # type: ignore[arg-type]


def _writable(data: Data) -> object:
    match data:
        case dict():
            return {str(key): _writable(value) for key, value in data.items()}
        case list():
            return [_writable(value) for value in data]
        case ResourceId():
            return data.path
        case Unknown():
            return {"$unknown": data.expression}
        case Boolean():
            return data.truth
        case None | bool() | int() | float() | str():
            return data
    return str(data)
