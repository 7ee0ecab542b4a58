"""The resources that most of a large template is: a type that nests nothing, and properties without any function but
references (layer 2).

In: the scope of a template. Out: these resources, as `resources.read_resource` would read them, in a third of the time.
One with other functions is begun, and finished when its turn comes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import count

from datalog_gate.facts.stack import Data, Resource
from datalog_gate.template.document import MAX_DEPTH
from datalog_gate.template.environment import TEMPLATE_ENDINGS
from datalog_gate.template.nesting import NESTING, Where, names_of
from datalog_gate.template.scope import OMITTED, SCALARS, Scope
from datalog_gate.values import ResourceId

_NOTHING: dict[str, str] = {}
"""What most resources require."""


def simple_resources(scope: Scope) -> dict[str, Resource]:
    """The simple resources of a template by name. Errors: InputError beyond the bounds of the tree."""
    if not scope.dialect.hot or scope.registry.types or scope.registry.resources:
        return {}
    names, veiled = names_of(scope.dialect.hot), bool(scope.hidden.paths)
    base, new = f"{scope.id}/", tuple.__new__
    stops = scope.dialect.functions | scope.dialect.removed
    plain: dict[str, str] = {}
    found: dict[str, Resource] = {}
    position: dict[str, int] = {}
    left: list[str] = []
    work = 0
    ordered = True

    document, hidden, given = scope.document, scope.hidden, scope.given

    def defined(name: str) -> Where:  # not through the scope, which holds the resources: a circle is freed late
        return Where(document, ("resources", name), names, hidden, given)

    def above(one: str, other: str) -> bool:
        if not position:
            position.update(zip(scope.definitions, count()))
        return position[one] < position[other]

    for name, definition in scope.definitions.items():
        if type(definition) is not dict or len(definition) != 2 or "/" in name:
            continue
        said, properties = definition.get("type"), definition.get("properties")
        if type(said) is not str or type(properties) is not dict:
            continue
        kind = plain.get(said)  # one text for all resources of the type
        if kind is None:
            if said in NESTING or said.endswith(TEMPLATE_ENDINGS):
                continue
            kind = plain[said] = said
        parts = len(properties)
        if parts == 1 and not stops.isdisjoint(properties):
            continue
        resolved, requires = properties, _NOTHING
        for key, value in properties.items():
            if type(value) in SCALARS:
                continue
            target = value.get("get_resource") if type(value) is dict and len(value) == 1 else None
            before = found.get(target) if type(target) is str else None
            if type(target) is str and (other := before.id if before else scope.sure(target)):
                ordered = ordered and (before is not None or above(target, name))
                if requires is _NOTHING:
                    resolved, requires = properties.copy(), {}
                requires[target] = "reference"
                resolved[key] = other
            elif (more := _parts(value, stops, MAX_DEPTH - 4)) is not None:
                parts += more
            else:
                left.append(key)
        work += parts
        own = new(ResourceId, (base + name,))  # as `ResourceId` makes one, in two thirds of the time
        if left:
            scope.begun[name] = Resource(own, name, kind, kind, resolved, requires, veiled, defined), left
            left = []
        else:
            found[name] = Resource(own, name, kind, kind, resolved, requires, veiled, defined)
    scope.ordered = ordered
    scope.tree.spend(work)
    scope.tree.count(len(found) + len(scope.begun), document.below(("resources",)))
    return found


def finished(scope: Scope, one: Resource, left: Container[str]) -> Resource:
    """The resource that was begun, with the properties that were left."""
    properties = dict(one.properties)
    for key, value in one.properties.items():
        if key in left:
            value = scope.part(value, ("resources", one.name, "properties", key))
            if value is OMITTED:
                del properties[key]
            else:
                properties[key] = value
        elif isinstance(value, ResourceId):
            scope.requires.setdefault(value.name, "reference")  # what needs it first says why
    one.properties, one.requires = properties, scope.requires
    one.veiled = bool(scope.hidden.paths)
    return one


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
