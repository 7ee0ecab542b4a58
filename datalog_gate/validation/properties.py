"""The values of properties, checked by the catalogue as Heat checks them.

Source: heat/engine/properties.py and constraints.py. Nothing is said of what is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from datalog_gate.base.diagnostics import closest, shorten
from datalog_gate.base.records import replace
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.schema.declaration import Property, ResourceType
from datalog_gate.stack.model import Data, Path
from datalog_gate.stack.property_values import read_number
from datalog_gate.template.allowed_pattern import matches_whole
from datalog_gate.validation.texts import find_reason

KINDS = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "list": "a list",
    "map": "a map",
    "any": "any value",
}
_EMPTY: Mapping[str, Data] = {"string": "", "integer": 0, "number": 0, "boolean": False, "list": [], "map": {}}
"""What Heat takes for a null."""
MANY = 30
"""The number of names from which a suggestion does not list them all."""
_TRUTHS = {"true": True, "false": False}
_VALUE = "OS::Heat::Value"
_OF_VALUES = {
    "string": "string",
    "number": "number",
    "comma_delimited_list": "list",
    "json": "map",
    "boolean": "boolean",
}
"""The kinds of the value of an `OS::Heat::Value`, by its type."""


class Mistake(NamedTuple):
    """What is wrong in the properties of a resource. The value is apart, since it may be hidden."""

    code: str
    path: Path
    message: str
    """What is wrong; of a name follows the map that has or needs it."""
    help: str | None = None
    value: Data = None
    """The wrong value, for `{}` in the message; of a name that is none, the map with it."""
    at_once: bool = False
    """Whether Heat refuses it although the value refers to resources that do not exist yet."""
    reason: str = ""
    """The end of the message, which tells a part of the value."""
    near: str | None = None
    """What the value or name was probably meant to be."""
    section: str = "properties"
    """The key of the resource to which the path belongs."""


Moves = Mapping[Path, tuple[tuple[str, str | None], ...]]
"""By the names on the way to a map: the names in it that Heat reads under another name, which is None if it drops
them."""


def find_moves(kind: ResourceType) -> Moves:
    """The properties of a type that are moved within one map."""
    moves: dict[Path, tuple[tuple[str, str | None], ...]] = {}
    for source, target in kind.moved:
        if target is None or target[:-1] == source[:-1]:
            name = target[-1] if target else None
            moves[source[:-1]] = (*moves.get(source[:-1], ()), (source[-1], name))
    return moves


def check_properties(kind: ResourceType, properties: Mapping[str, Data], moves: Moves) -> Iterator[Mistake]:
    """The mistakes in the properties of a resource of that type."""
    if kind.name == _VALUE and isinstance(written := properties.get("type"), str):
        of_value = _OF_VALUES.get(written, "any")
        parts = [replace(part, kind=of_value) if part.name == "value" else part for part in kind.properties]
        kind = replace(kind, properties=tuple(parts))
    return _check_parts(kind, properties, (), moves)


def check_update_policy(kind: ResourceType | None, policy: Mapping[str, Data]) -> Iterator[Mistake]:
    """The mistakes in the update policy of a resource of that type; None is a template, which takes none."""
    owner = Property("", "map", children=kind.update_policy if kind else ())
    return (mistake._replace(section="update_policy") for mistake in _check_parts(owner, policy, (), {}))


def _check_parts(
    owner: ResourceType | Property, data: Mapping[str, Data], path: Path, moves: Moves
) -> Iterator[Mistake]:
    """The mistakes in the properties of a type, or in a map with a schema."""
    moved = moves.get(tuple([step for step in path if isinstance(step, str)]), ()) if moves else ()
    parts = owner.parts
    missing = [
        name
        for name in owner.needed
        if name not in data and not any(target == name and data.get(source) is not None for source, target in moved)
    ]
    for name, value in data.items():
        part = parts.get(name)
        if part is None:
            near = closest(str(name), parts)
            meant = dict(moved).get(str(near), near)
            yield _unknown((*path, name), owner, near, meant in missing)._replace(value=dict(data))
            missing = [other for other in missing if other != meant]
        elif type(value) is str and part.kind == "string" and not part.is_checked:
            continue
        elif not moved or (name, None) not in moved:
            yield from check_value(part, value, (*path, name), moves)
    for name in missing:
        advice = f"add `{name}`, {_describe(parts[name])}"
        yield Mistake("missing-property", path, f"needs the property `{name}`", advice, at_once=True)
    for source, target in moved:
        if target and _is_something(data.get(source)) and _is_something(data.get(target)):
            yield Mistake("not-allowed", (*path, source), f"is the same as `{target}`", "give one of them")


def _unknown(path: Path, owner: ResourceType | Property, near: str | None, missing: bool) -> Mistake:
    """The mistake of a name that was probably meant to be `near`; `missing` says that Heat misses that."""
    names = sorted(owner.parts)
    others = f"it has {', '.join(names)}" if 0 < len(names) < MANY else None if names else "leave it out"
    at_once = missing or isinstance(owner, ResourceType)
    return Mistake("unknown-property", path, "has no property", others, at_once=at_once, near=near)


def _describe(part: Property) -> str:
    return f"one of {', '.join(map(str, part.allowed))}" if part.allowed else KINDS[part.kind]


def _is_something(value: Data) -> bool:
    """Whether Heat knows the value, and it is not empty."""
    return bool(value) and not isinstance(value, Unknown)


def check_value(part: Property, value: Data, path: Path, moves: Moves) -> Iterator[Mistake]:
    """The mistakes in the value of a property."""
    if isinstance(value, Unknown):
        return
    if value is None:
        if part.default is not None or part.kind == "any":
            return
        value = _EMPTY[part.kind]
    read = _convert(part.kind, value)
    if read is None:
        yield Mistake("wrong-kind", path, f"takes {KINDS[part.kind]}, not {{}}", None, value, at_once=True)
        return
    if part.is_checked and not isinstance(value, ResourceId):
        yield from _check_constraints(part, read, path)
    if isinstance(read, list):
        yield from _check_items(part, read, path, moves)
    elif isinstance(read, dict) and part.children:
        yield from _check_parts(part, read, path, moves)


def _check_items(part: Property, items: list[Data], path: Path, moves: Moves) -> Iterator[Mistake]:
    for at, item in enumerate(items):
        if part.item:
            yield from check_value(part.item, item, (*path, at), moves)
        elif part.children and not isinstance(item, Unknown):
            if isinstance(item, dict | None):
                yield from _check_parts(part, item or {}, (*path, at), moves)
            else:
                yield Mistake("wrong-kind", (*path, at), "takes a map, not {}", None, item, at_once=True)


def _convert(kind: str, value: Data) -> Data:
    """Heat's value of data for a property of that kind; None if it refuses it. The id of a resource is the resource's
    name until it exists."""
    if isinstance(value, ResourceId):
        value = value.name
    match kind:
        case "string":
            return str(value) if isinstance(value, str | int) else None
        case "list":
            return value if isinstance(value, list) else None
        case "map":
            return value if isinstance(value, dict) else None
        case "boolean":
            return value if isinstance(value, bool) else _TRUTHS.get(value.lower()) if isinstance(value, str) else None
        case "integer" | "number":
            try:
                return int(value) if kind == "integer" else read_number(value)  # type: ignore[call-overload]
            except (TypeError, ValueError, OverflowError):
                return None
    return value


def _check_constraints(part: Property, value: Data, path: Path) -> Iterator[Mistake]:
    if not part.implemented:
        yield Mistake("not-allowed", path, "is not implemented in Heat", "leave it out", at_once=True)
    if part.allowed:
        allowed = part.allowed if value in part.allowed or part.kind != "string" else tuple(map(str, part.allowed))
        for step, item in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(item, Unknown | ResourceId) and item not in allowed:
                wrong = path if step is None else (*path, step)
                choices = f"one of {', '.join(map(str, part.allowed))}"
                near = closest(str(item), map(str, part.allowed))
                yield Mistake("not-allowed", wrong, "can't be {}", choices, item, near=near)
    elif part.range != (None, None) and isinstance(value, int | float):
        low, high = part.range
        if (low is not None and value < low) or (high is not None and value > high):
            yield Mistake("out-of-range", path, f"must be {_format_range(low, high)}, not {{}}", None, value)
    if part.length != (None, None) and isinstance(value, str | list | dict):
        low, high = part.length
        if len(value) < (low or 0) or (high is not None and len(value) > high):
            message = f"must have a length of {_format_range(low, high)}"
            yield Mistake("bad-length", path, message, reason=f", not {len(value)}")
    if part.pattern and isinstance(value, str) and matches_whole(part.pattern, value) is False:
        yield Mistake("bad-pattern", path, f"must match {part.pattern}, unlike {{}}", None, value)
    if part.custom and isinstance(value, str) and (reason := find_reason(part.custom, value)):
        yield Mistake("bad-text", path, "can't be {}", None, value, reason=f": it {reason}")


def _format_range(low: int | None, high: int | None) -> str:
    if high is None:
        return f"at least {low}"
    return f"at most {high}" if low is None else f"{low} to {high}"


def format_path(path: Path) -> str:
    """The path as templates write it: ``networks[0].port``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def format_value(value: Data) -> str:
    """A value as a message tells it."""
    match value:
        case dict():
            return "a map"
        case list():
            return "a list"
        case ResourceId():
            return f"the id of `{value.name}`"
        case str():
            return f"`{shorten(value, 60)}`" if value else "an empty text"
    return f"`{json.dumps(value, default=str)}`"
