"""Catalogue files of an operator, in the format of the shipped data.

They add the resource types of a provider's plugin, or of another Heat release printed by `contrib/harvest.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Never

from datalog_gate.base.diagnostics import Diagnostic, Span, closest
from datalog_gate.base.errors import InputError
from datalog_gate.schema import cloud
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import Property, ResourceType
from datalog_gate.schema.relations import FIXED
from datalog_gate.schema.resource_types import SCALARS, SOURCES, type_of

RELATION = re.compile(r"[a-z][a-z0-9_]*(:[a-z][a-z0-9_]*)+")
MAX_DEPTH = 20
KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "any": (object,),
    "list": (list,),
    "map": (dict,),
}
"""The kinds of properties, with their types in JSON."""
OF_TYPE: dict[str, type] = {
    **dict.fromkeys(("properties", "attributes", "moved", "attribute_status", "update_policy"), dict),
    "relation": str,
    "status": list,
    **dict.fromkeys(("creates_users", "any_attribute", "snapshot"), bool),
}
OF_PROPERTY: dict[str, type] = {
    **dict.fromkeys(("kind", "pattern", "custom"), str),
    **dict.fromkeys(("required", "update_allowed", "immutable", "implemented"), bool),
    **dict.fromkeys(("allowed", "length", "range", "modulo", "status"), list),
    **dict.fromkeys(("children", "item"), dict),
    "default": object,
}


def read_catalogue(files: Iterable[tuple[str, str]]) -> Catalogue:
    """The catalogue of the shipped types and those of the files, given as name and text; later files override earlier
    ones. A file with the source openstack-heat replaces all shipped types of Heat. Errors: InputError."""
    sources: tuple[str, ...] = SOURCES
    given: dict[str, ResourceType] = {}
    problems: list[Diagnostic] = []
    texts: dict[str, str] = {}
    places: dict[str, Span] = {}
    for file, text in files:
        texts[file] = text
        source, types, wrong = _read_types(file, text)
        problems += wrong
        if source.startswith("openstack-heat"):
            sources = SOURCES[1:]
        given |= types
        places |= {name: _place(file, text, (name, "relation")) for name in types}
    plain = Catalogue(sources=sources)
    for name, resource_type in given.items():
        if other := _other_owner(resource_type, given, plain):
            message = f"{resource_type.relation} is the relation of {other}"
            problems.append(Diagnostic("bad-catalogue", message, places[name]))
    if problems:
        raise InputError(problems, texts)
    return Catalogue(given, sources)


def _other_owner(resource_type: ResourceType, given: Mapping[str, ResourceType], plain: Catalogue) -> str | None:
    if resource_type.relation in FIXED or cloud.relation(resource_type.relation):
        return "the gate"
    owner = plain.owner(resource_type.relation)
    if owner and owner not in given:
        return owner
    others = (other for other in given.values() if other.relation == resource_type.relation)
    return next((other.name for other in others if other != resource_type), None)


class _MistakeError(Exception):
    """A wrong value at a path of the file."""

    def __init__(self, path: tuple[str, ...], message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.path, self.suggestion = path, suggestion


def _read_types(file: str, text: str) -> tuple[str, dict[str, ResourceType], list[Diagnostic]]:
    """The source of a file, its types, and the first error in each type."""
    start = _place(file, text, ())
    try:
        data = json.loads(text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        span = Span(file, error.lineno, error.colno, error.lineno, error.colno + 1)
        return "", {}, [Diagnostic("bad-catalogue", f"this is not JSON: {error.msg}", span)]
    except RecursionError:
        return "", {}, [Diagnostic("bad-catalogue", "it is too deep", start)]
    except ValueError as error:
        return "", {}, [Diagnostic("bad-catalogue", str(error), start)]
    if not isinstance(data, dict) or not data.keys() - {"source"}:
        return "", {}, [Diagnostic("bad-catalogue", "a catalogue is an object of resource types by name", start)]
    source = str(data.pop("source", ""))
    types, problems = {}, []
    for name, described in data.items():
        try:
            _check_type((name,), described)
            types[name] = type_of(name, {"attributes": {}, **described})
            _check_moved(types[name])
        except _MistakeError as error:
            message, span = f"{'.'.join(error.path)} {error}", _place(file, text, error.path)
            problems.append(Diagnostic("bad-catalogue", message, span, error.suggestion))
    return source, types, problems


def _place(file: str, text: str, path: tuple[str, ...]) -> Span:
    """The place of the last key of a path, or of the nearest key above it."""
    at = end = 0
    for key in path:
        if match := re.compile(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:").search(text, end):
            at, end = match.start(), match.end()
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return Span(file, line, column, line, column + 1)


def _check_type(path: tuple[str, ...], data: Any) -> None:
    _check_keys(path, data, OF_TYPE, ("relation", "properties"))
    if not RELATION.fullmatch(data["relation"]):
        raise _MistakeError((*path, "relation"), "is not the name of a relation", "such as acme:load_balancer")
    for name, schema in data["properties"].items():
        _check_property((*path, "properties", name), schema)
    for name, schema in data.get("update_policy", {}).items():
        _check_property((*path, "update_policy", name), schema)
    for name, echoed in data.get("attributes", {}).items():
        if echoed is not None and not (isinstance(echoed, str) and echoed in data["properties"]):
            raise _MistakeError(
                (*path, "attributes", name), "does not name a property", "write null, or the property that it returns"
            )
    for source, target in data.get("moved", {}).items():
        if target is not None and not isinstance(target, str):
            raise _MistakeError((*path, "moved", source), "is neither null nor the path of a property")


def _check_property(path: tuple[str, ...], data: Any, named: bool = True) -> None:
    if len(path) > MAX_DEPTH:
        raise _MistakeError(path, "is too deep")
    if named and (not path[-1] or path[-1].startswith("_") or "." in path[-1]):
        raise _MistakeError(path, "is not a valid property name: it is empty, begins with _ or has a dot")
    _check_keys(path, data, OF_PROPERTY, ("kind",))
    kind, default = data["kind"], data.get("default")
    if kind not in KINDS:
        raise _MistakeError((*path, "kind"), f"is not one of {', '.join(KINDS)}")
    if default is not None and not _has_type(default, KINDS[kind]):
        raise _MistakeError((*path, "default"), f"is not of the kind {kind}")
    if not all(_has_type(child, (str, int, float, bool)) for child in data.get("allowed", ())):
        raise _MistakeError((*path, "allowed"), "is not a list of scalars")
    if ("children" in data and kind in SCALARS) or ("item" in data and (kind != "list" or "children" in data)):
        raise _MistakeError(
            path,
            "can't have these children or this item: a list has either, a map may have children, a scalar has neither",
        )
    for name, child in data.get("children", {}).items():
        _check_property((*path, "children", name), child)
    if "item" in data:
        _check_property((*path, "item"), data["item"], False)


def _check_keys(path: tuple[str, ...], data: Any, kinds: Mapping[str, type], needed: Iterable[str]) -> None:
    if not isinstance(data, dict):
        raise _MistakeError(path, "is not an object")
    for key, value in data.items():
        if key not in kinds:
            near = closest(key, kinds)
            raise _MistakeError((*path, key), "is not allowed here", f"did you mean {near}?" if near else None)
        if not _has_type(value, (kinds[key],)):
            names = {dict: "an object", str: "a string", bool: "a boolean"}
            raise _MistakeError((*path, key), f"is not {names.get(kinds[key], 'a list')}")
    for key in needed:
        if key not in data:
            raise _MistakeError(path, f"has no `{key}`")


def _check_moved(kind: ResourceType) -> None:
    for source, target in kind.moved:
        for way in (source, target or source):
            if not _leads_to_property(way, kind.properties):
                raise _MistakeError(
                    (kind.name, "moved", ".".join(source)), f"does not lead to a property: {'.'.join(way)}"
                )


def _leads_to_property(way: tuple[str, ...], properties: tuple[Property, ...]) -> bool:
    schema = next((candidate for candidate in properties if candidate.name == way[0]), None)
    if schema is None or not way[1:]:
        return schema is not None
    return schema.kind == "map" if not schema.children else _leads_to_property(way[1:], schema.children)


def _has_type(value: object, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds or object in kinds)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} is written twice")
    return data


def _refuse_constant(text: str) -> Never:
    raise ValueError(f"{text} is not a number")
