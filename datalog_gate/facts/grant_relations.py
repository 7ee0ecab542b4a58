"""Rows of grants: the relations ``gate:grant*``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.facts.tables import LocatedRow, StackContext, entries, wildcard
from datalog_gate.schema.relations import FIXED
from datalog_gate.stack.model import Data, Path, Resource
from datalog_gate.stack.property_values import leaves, typed

POLICY = "DatalogGate::Policy"


def _grant(resource: Resource, _context: StackContext) -> Iterator[LocatedRow]:
    service, expires = (typed("string", resource.properties.get(name)) for name in ("service", "expires"))
    yield (resource.id, service, expires), ("properties",), None


def _options(resource: Resource, _context: StackContext) -> Iterator[LocatedRow]:
    path = ("properties", "options")
    yield from entries(FIXED["gate:grant_option"], (resource.id,), leaves(resource.properties.get("options")), path)


def _scope(resource: Resource, context: StackContext) -> Iterator[LocatedRow]:
    """The resources that the scope names. A name without a resource gives no row, an unknown name a wildcard."""
    scope = resource.properties.get("scope")
    path = ("properties", "scope")
    if scope is None:
        scope = [resource.id for resource in default_scope(context.own.named)]
    names: list[tuple[Path, Data]] = [(path, scope)] if isinstance(scope, Unknown) else []
    if isinstance(scope, list):
        names = [((*path, index), name) for index, name in enumerate(scope)]
    for place, name in names:
        if isinstance(name, Unknown):
            yield wildcard(FIXED["gate:grant_scope"], (resource.id,), place, name)
        elif target := find_addressed(name, context.own.named):
            yield (resource.id, target.id), place, target.maybe


def default_scope(named: Mapping[str, Resource]) -> list[Resource]:
    """The scope of a grant that names none: all resources but grants and what any grant requires."""
    outside = find_required(named, [name for name, resource in named.items() if resource.type == POLICY])
    return [resource for name, resource in named.items() if name not in outside]


def find_addressed(name: Data, named: Mapping[str, Resource]) -> Resource | None:
    """Find a resource of the stack by name or reference. ``tr.srv``, a resource within `tr`, addresses `tr`."""
    if isinstance(name, ResourceId):
        own = named.get(name.name)
        return own if own and own.id == name else None
    text = str(name)
    return named.get(text) or named.get(text.partition(".")[0])


def find_required(named: Mapping[str, Resource], names: Iterable[str]) -> set[str]:
    """Find these names and those of all resources that they require, directly or not."""
    names_required: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in names_required and name in named:
            names_required.add(name)
            waiting.extend(named[name].requires)
    return names_required


GRANT_ROWS: dict[str, Callable[[Resource, StackContext], Iterator[LocatedRow]]] = {
    "gate:grant": _grant,
    "gate:grant_option": _options,
    "gate:grant_scope": _scope,
}
