"""What the grants of a stack ask of their services (layer 6).

In: a `Stack`, the grants that unlock, and what is known of their resources. Out: a `Request` for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from datalog_gate.decision.finding import Grant
from datalog_gate.facts.grant_relations import POLICY, addressed, by_default
from datalog_gate.preflight.snapshot import parts
from datalog_gate.services.contract import Request, in_scope
from datalog_gate.stack.model import Resource, Stack


class Known(NamedTuple):
    """What is known of a grant: the id and the name of its own stack, and the uuid of its resource; each is empty
    before there is one. `replaces` is as `Request` has it."""

    stack: str = ""
    stack_name: str = ""
    uuid: str = ""
    replaces: tuple[str, ...] = ()


def requests_of(
    stack: Stack, grants: Collection[Grant], project: str, known: Callable[[str], Known] = lambda _path: Known()
) -> dict[str, Request]:
    """What each grant that unlocks its service asks, by the grant's path. `known` tells what is known of a path."""
    unlocked = {grant.grant.path: grant.service for grant in grants if grant.unlocked}
    if not unlocked:
        return {}
    options = {part.id: part.properties.get("options") for part in parts(stack) if part.id in unlocked}
    found = {}
    for home in stack.walk():
        named = {resource.name: resource for resource in home.resources}
        for grant in home.resources:
            if grant.type != POLICY or grant.id.path not in unlocked:
                continue
            about = known(grant.id.path)
            given = options[grant.id.path]
            found[grant.id.path] = Request(
                service=unlocked[grant.id.path],
                project=project,
                stack=about.stack,
                stack_name=about.stack_name,
                grant=grant.id.path,
                uuid=about.uuid,
                options=given if isinstance(given, MappingProxyType) else MappingProxyType({}),
                scope=in_scope(home, [resource.id for resource in _scope(grant, named)]),
                replaces=about.replaces,
            )
    return {path: replace(request, together=_together(request, found)) for path, request in found.items()}


def _scope(grant: Resource, named: dict[str, Resource]) -> list[Resource]:
    """The resources in scope, each once, in the order of the stack."""
    scope = grant.properties.get("scope")
    if not isinstance(scope, list):
        return by_default(named) if scope is None else []
    ids = {found.id for name in scope if (found := addressed(name, named))}
    return [resource for resource in named.values() if resource.id in ids]


def _together(request: Request, all_: dict[str, Request]) -> tuple[Request, ...]:
    return tuple(one for path, one in all_.items() if one.service == request.service and path != request.grant)
