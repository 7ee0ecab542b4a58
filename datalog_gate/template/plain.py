"""The fast path for plain resources.

Most resources of a large template are plain.

A plain resource is of a type that nests nothing, and its properties call no function but `get_resource`. The fast path
makes of it what `resources.read_resource` would make, in a quarter of the time. A resource with other functions in some
properties is begun here, and finished when its turn comes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import count

from datalog_gate.base.values import ResourceId
from datalog_gate.stack.model import Alike, Data, Resource, Simple
from datalog_gate.template.document import MAX_DEPTH
from datalog_gate.template.environment import TEMPLATE_ENDINGS
from datalog_gate.template.nesting import NESTING, Where, names_of
from datalog_gate.template.resolver import OMITTED, SCALARS, Scope


def simple_resources(scope: Scope) -> Simple:
    """The simple resources of a template. Errors: InputError beyond the bounds of the tree."""
    if not scope.dialect.hot or scope.registry.types or scope.registry.resources or scope.hidden.paths:
        return Simple()
    if "/" in "".join(scope.definitions):  # which is wrong, and an id does not tell such a name
        return Simple()
    names = names_of(scope.dialect.hot)
    base, new = f"{scope.id}/", tuple.__new__
    stops = scope.dialect.functions | scope.dialect.removed
    types: dict[str, Alike] = {}
    found: dict[str, ResourceId] = {}
    position: dict[str, int] = {}
    left: list[str] = []
    work = 0
    ordered = True

    document, hidden, given = scope.document, scope.hidden, scope.given

    def defined(name: str) -> Where:  # not through the scope, which holds the resources: a circle is freed late
        return Where(document, ("resources", name), names, hidden, given)

    def above(name: str, other: str) -> bool:
        if not position:
            position.update(zip(scope.definitions, count()))
        return position[name] < position[other]

    for name, definition in scope.definitions.items():
        if type(definition) is not dict or len(definition) != 2:
            continue
        kind, properties = definition.get("type"), definition.get("properties")
        if type(kind) is not str or type(properties) is not dict:
            continue
        alike = types.get(kind)
        if alike is None:
            if kind in NESTING or kind.endswith(TEMPLATE_ENDINGS):
                continue
            alike = types[kind] = Alike()
        parts = len(properties)
        if parts == 1 and not stops.isdisjoint(properties):
            continue
        resolved = properties
        for key, value in properties.items():
            if type(value) in SCALARS:
                continue
            target = value.get("get_resource") if type(value) is dict and len(value) == 1 else None
            before = found.get(target) if type(target) is str else None
            if type(target) is str and (other := before or scope.sure(target)):
                ordered = ordered and (before is not None or above(target, name))
                if resolved is properties:
                    resolved = properties.copy()
                resolved[key] = other
            elif (more := _parts(value, stops, MAX_DEPTH - 4)) is not None:
                parts += more
            else:
                left.append(key)
        work += parts
        own = new(ResourceId, (base + name,))  # as `ResourceId` makes one, in two thirds of the time
        if left:
            scope.begun[name] = Resource(own, name, kind, kind, resolved, {}, False, defined), left
            left = []
            continue
        found[name] = own
        alike.ids.append(own)
        alike.properties[name] = resolved
    scope.ordered = ordered
    scope.tree.spend(work)
    scope.tree.count(len(found) + len(scope.begun), document.below(("resources",)))
    return Simple({kind: alike for kind, alike in types.items() if alike.ids}, found, defined)


def finished(scope: Scope, resource: Resource, left: Container[str]) -> Resource:
    """The resource that was begun, with the properties that were left."""
    properties = dict(resource.properties)
    for key, value in resource.properties.items():
        if key in left:
            value = scope.part(value, ("resources", resource.name, "properties", key))
            if value is OMITTED:
                del properties[key]
            else:
                properties[key] = value
        elif isinstance(value, ResourceId):
            scope.requires.setdefault(value.name, "reference")  # what needs it first says why
    resource.properties, resource.requires = properties, scope.requires
    resource.veiled = bool(scope.hidden.paths)
    return resource


def _parts(data: Data, stops: frozenset[str], depth: int) -> int | None:
    """How many parts plain data has; None for data that is not plain, or too deep."""
    values: Iterable[Data]
    if type(data) is dict:
        if len(data) == 1 and not stops.isdisjoint(data):
            return None
        values = data.values()
    elif type(data) is list:
        values = data
    else:
        return None
    parts = len(data)
    for value in values:
        if type(value) not in SCALARS:
            more = _parts(value, stops, depth - 1) if depth else None
            if more is None:
                return None
            parts += more
    return parts
