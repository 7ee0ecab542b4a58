"""What a path into the properties of a type means: ``networks.0.port``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from datalog_gate.base.diagnostics import closest, list_some, suggest_name
from datalog_gate.base.values import NO_KIND, Kind
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import Property, ResourceType
from datalog_gate.schema.resource_types import SCALARS, member_of

STEP = re.compile(r"(?:\\.|[^.\\])+")
"""A step of a path: a dot in a key is written ``\\.``."""


class PathMeaning(NamedTuple):
    """What a path means in a type: the kinds of its value, or why it leads nowhere, with what to write instead. How far
    the path leads, in steps, tells which of several types the author may have meant."""

    steps: int
    kinds: Kind = NO_KIND
    problem: str = ""
    suggestion: str | None = None


def read_path(path: str, types: Sequence[ResourceType], whole: bool, others: Collection[str]) -> PathMeaning:
    """The best meaning of the path in any of the types. `whole` says that it may name a whole list or map. `others` are
    the properties of all types, for when the type is not known."""
    steps = [step.replace("\\.", ".") for step in STEP.findall(path)]
    meanings = [_in_type(steps, kind, whole) for kind in types]
    good = [meaning.kinds for meaning in meanings if not meaning.problem]
    if good:
        kinds = NO_KIND
        for given in good:
            kinds |= given
        return PathMeaning(len(steps), kinds)
    if meanings:
        return max(meanings, key=lambda meaning: meaning.steps)
    first = steps[0] if steps else path
    return PathMeaning(0, problem=f"no type has a property {first}", suggestion=_first_step(first, steps[1:], others))


@lru_cache(maxsize=4)
def types_by_property(catalogue: Catalogue) -> Mapping[str, Sequence[ResourceType]]:
    """All resource types by the names of their properties."""
    by_property: dict[str, list[ResourceType]] = {}
    for kind in filter(None, map(catalogue.type, catalogue.types())):
        for schema in kind.properties:
            by_property.setdefault(schema.name, []).append(kind)
    return by_property


def _in_type(steps: Sequence[str], kind: ResourceType, whole: bool) -> PathMeaning:
    schemas = {schema.name: schema for schema in kind.properties}
    first = steps[0] if steps else ""
    if first not in schemas:
        suggestion = _first_step(first, steps[1:], schemas)
        return PathMeaning(0, problem=f"{kind.name} has no property {first}", suggestion=suggestion)
    schema, member = schemas[first], False
    for at, step in enumerate(steps[1:], 1):
        written = ".".join(steps[:at])
        if schema.kind == "list" and not member:
            if not step.isdecimal():
                rest = ".".join(steps[at:])
                suggestion = f"write the index of a member, {written}.0.{rest}"
                if step in ("*", "_"):
                    suggestion = f"read {kind.relation}.{first}(_id=...), which has a row for each member"
                return PathMeaning(at, problem=f"{written} is a list", suggestion=suggestion)
            if schema.children:
                member = True
                continue
            schema = schema.item or Property("_value", "any")
        elif schema.kind == "any" or (schema.kind == "map" and not schema.children):
            return PathMeaning(len(steps), Kind.ANY)
        elif schema.kind in SCALARS:
            return PathMeaning(at, problem=f"{written} is a {schema.kind}: nothing is below it", suggestion=None)
        elif step not in schema.parts:
            advice = suggest_name(closest(step, schema.parts), "it has " + list_some(schema.parts))
            return PathMeaning(at, problem=f"{written} has no {step}", suggestion=advice)
        else:
            schema, member = schema.parts[step], False
    if schema.kind in SCALARS:
        return PathMeaning(len(steps), SCALARS[schema.kind] | Kind.NULL)
    is_list = schema.kind == "list" and not member
    return PathMeaning(len(steps), Kind.ANY) if whole else _in_middle(steps, schema, is_list)


def _in_middle(steps: Sequence[str], schema: Property, is_list: bool) -> PathMeaning:
    """What a path to a list or a map means where a scalar is wanted."""
    written, parts, index = ".".join(steps), sorted(schema.parts), ".0" if is_list else ""
    if not parts and (schema.kind != "list" or member_of(schema).kind == "any"):
        return PathMeaning(len(steps), Kind.ANY)
    below = f"{written}{index}" + (f".{parts[0]}" if parts else "")
    what = "list" if index else "map"
    return PathMeaning(len(steps), problem=f"{written} is a {what}", suggestion=f"write a path below it, like {below}")


def _first_step(first: str, rest: Sequence[str], names: Collection[str]) -> str | None:
    if first in ("properties", "Properties") and rest and rest[0] in names:
        return f"leave {first} out: {'.'.join(rest)}"
    head = re.split(r"[\[/]", first)[0]
    if head != first and head in names:
        inner = re.sub(r"[\[\]/]+", ".", first).strip(".")
        return f"write {'.'.join((inner, *rest))}"
    return suggest_name(closest(first, names))
