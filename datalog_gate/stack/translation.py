"""Properties that Heat moves before it uses them: old names and shorthands.

Source: heat/engine/translation.py:210-320.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass, replace
from datalog_gate.base.unknown import derived
from datalog_gate.base.values import Unknown
from datalog_gate.schema.declaration import Property, ResourceType
from datalog_gate.stack.model import Data, Path, Resource

Way = tuple[str, ...]


def to_move(properties: Collection[Mapping[str, Data]], said: Container[str], kind: ResourceType | None) -> bool:
    """Whether the type moves values in these properties of its resources, whose names are `said`."""
    return kind is not None and any(source[0] in said and _hold(properties, source) for source, _ in kind.moved)


def as_heat_reads(resource: Resource, kind: ResourceType | None) -> Resource:
    """The resource with its properties moved as its type specifies."""
    if not kind or not to_move((resource.properties,), resource.properties, kind):
        return resource
    origins: dict[Path, Path] = {}
    data: Data = dict(resource.properties)
    for source, target in kind.moved:
        data = _moved(data, source, target, kind.properties, (), origins)
    assert isinstance(data, dict)

    return replace(resource, properties=data, defined=lambda _: _Moved(resource, origins))


@dataclass(frozen=True, slots=True)
class _Moved:
    """The definition of a resource whose properties were moved; `origins` has their original places."""

    resource: Resource
    origins: Mapping[Path, Path]

    def __call__(self, path: Path) -> Span | None:
        for end in range(len(path), 1, -1):
            if path[0] == "properties" and path[1:end] in self.origins:
                return self.resource.locate(("properties", *self.origins[path[1:end]], *path[end:]))
        return self.resource.locate(path)

    def key_place(self, path: Path) -> Span | None:
        return self.resource.locate_key(path)

    def hides(self, path: Path, partly: bool) -> bool:
        if path[:1] != ("properties",):
            return self.resource.hides(path, partly)
        way = path[1:]
        olds = [(*old, *way[len(new) :]) for new, old in self.origins.items() if way[: len(new)] == new]
        olds += [old for new, old in self.origins.items() if partly and new[: len(way)] == way]
        return any(self.resource.hides(("properties", *old), partly) for old in (way, *olds))

    def written(self, keys: Sequence[str], functions: frozenset[str]) -> Mapping[str, Data]:
        return self.resource.written(keys, functions)


def _hold(properties: Collection[Mapping[str, Data]], way: Way) -> bool:
    """Whether any of the properties, or of the list members on the way, has a value there. It is called for every
    resource, so it handles all at once, step by step."""
    first, *further = way
    data = [part[first] for part in properties if first in part]
    for step in further:
        below: list[Data] = []
        for part in data:
            if isinstance(part, dict):
                if step in part:
                    below.append(part[step])
            elif isinstance(part, list):
                data += part
            elif isinstance(part, Unknown):
                return True
        data = below
    return bool(data)


def _moved(
    data: Data, source: Way, target: Way | None, schema: tuple[Property, ...], path: Path, origins: dict[Path, Path]
) -> Data:
    """The data with the value at the source moved to the target; `origins` maps the new path to the old one."""
    if isinstance(data, list):
        return [_moved(part, source, target, schema, (*path, at), origins) for at, part in enumerate(data)]
    first, *rest = source
    if not isinstance(data, dict) or first not in data:
        return data
    kinds = {property_.name: property_ for property_ in schema}
    if rest and (target is None or first == target[0]):
        further = None if target is None else target[1:]
        children = kinds[first].children
        return {**data, first: _moved(data[first], tuple(rest), further, children, (*path, first), origins)}
    left = data if rest else {key: value for key, value in data.items() if key != first}
    if target is None:
        return left
    value = _under(data, source)
    old = left.get(target[0])
    if kinds[target[0]].kind == "list" and kinds[first].kind != "list":
        if not value or not isinstance(old, list | None):
            return left if value else data
        at: Path = (*path, target[0], len(old or []))
        origins[at] = (*path, *source)
        return {**left, target[0]: [*(old or []), {target[1]: value} if target[1:] else value]}
    if value is None and (path or isinstance(old, list | Unknown)):
        return left
    origins[(*path, *target)] = (*path, *source)
    return {**left, target[0]: value}


def _under(data: Data, way: Way) -> Data:
    for at, step in enumerate(way):
        if isinstance(data, Unknown):
            return replace(data, source=derived(f"{'.'.join(way[at:])} of ", data))
        data = data.get(step) if isinstance(data, dict) else None
    return data
