"""Dependencies between the resources of a template: reading order and circles.

Neither function recurses, however long a chain of resources is.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import chain

from datalog_gate.stack.model import Data, Resource

MAX_CIRCLES = 20
_PASSES = 3
"""How often those that need none of the others are left out before what remains is searched: mostly nothing does."""


def in_order(definitions: Mapping[str, Data], start: str, done: Container[str]) -> list[str]:
    """The resources that the reading of `start` leads to by their attributes, each after those that it reads itself;
    none that is `done`."""
    order: list[str] = []
    seen: set[str] = set()
    pending = [(start, False)]
    while pending:
        name, left = pending.pop()
        if left:
            order.append(name)
        elif name not in seen:
            seen.add(name)
            pending.append((name, True))
            named = (other for other in _mentioned(definitions[name]) if other in definitions and other not in done)
            pending += [(other, False) for other in named if other not in seen]
    return order


def _mentioned(definition: Data) -> list[str]:
    """The names that stand where an attribute's resource stands."""
    names, pending = [], [definition]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            for key in ("get_attr", "Fn::GetAtt"):
                named = part.get(key)
                first = named[0] if isinstance(named, list) and named else named
                if isinstance(first, str):
                    names.append(first.split(".", 1)[0] if isinstance(named, str) else first)
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    return names


def circles(read: Mapping[str, Resource]) -> list[list[str]]:
    """Resources that require each other: the first circles as names, each with its first one again at the end."""
    before: set[str] = set()
    for name, resource in read.items():
        if resource.requires and not before.issuperset(resource.requires):
            break
        before.add(name)
    else:  # as people write: each requires what stands above it
        return []
    waiting = {name: resource.requires for name, resource in read.items() if resource.requires}
    if waiting.keys().isdisjoint(chain.from_iterable(waiting.values())):
        return []
    for _ in range(_PASSES):
        waiting = {name: required for name, required in waiting.items() if not waiting.keys().isdisjoint(required)}
    found: list[list[str]] = []
    done: set[str] = set()
    for start in waiting:
        path: dict[str, None] = {}
        pending: list[tuple[str, bool]] = [(start, False)]
        while pending:
            name, left = pending.pop()
            if left:
                del path[name]
                done.add(name)
            elif name in path:
                if len(found) < MAX_CIRCLES:
                    found.append([*list(path)[list(path).index(name) :], name])
            elif name not in done:
                path[name] = None
                pending.append((name, True))
                pending += [(required, False) for required in waiting[name] if required in waiting]
    return found
