"""What Heat hides or deprecates, of all that a stack uses.

Source: heat/engine/support.py. Each is a warning, since Heat accepts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from datalog_gate.base.diagnostics import Diagnostic, Span, in_order
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.schema.declaration import Property, ResourceType, Status
from datalog_gate.stack.model import Data, Path, Stack
from datalog_gate.validation.properties import format_path


def find_deprecated(stack: Stack, catalogue: Catalogue) -> tuple[Diagnostic, ...]:
    """The types, properties and attributes in the stack and those that it nests which Heat hides or deprecates, each
    with what replaces it if Heat moves its value there, else with Heat's own advice."""
    parts = (part for part in stack.walk() if not part.hidden & {()})
    return in_order(warning for part in parts for warning in _find_in_stack(part, catalogue))


def _find_in_stack(stack: Stack, catalogue: Catalogue) -> Iterator[Diagnostic]:
    for resource in stack.resources:
        kind = catalogue.type(resource.type)
        if kind is None or resource.external or resource.hides(("type",), True):
            continue
        yield from _warn(kind.status, f"the type {kind.name}", resource.locate(("type",)))
        for path, part in _find_parts(kind, resource.properties, ()):
            if resource.hides(("properties", *path[:-1]), False):
                continue
            names = tuple(step for step in path if isinstance(step, str))
            target = dict(kind.moved).get(names)
            words = f"write `{target[-1] if target[:-1] == names[:-1] else format_path(target)}`" if target else None
            place = resource.locate_key(("properties", *path))
            yield from _warn(part.status, f"`{format_path(path)}` of {kind.name}", place, words)
    template, named = stack.template, stack.named
    for path, (name, keys) in template.attributes.items() if template and template.stack == stack.id else ():
        owner = named.get(name)
        kind = catalogue.type(owner.type) if owner else None
        if kind and keys:
            status = kind.attribute_status.get(str(keys[0]), ())
            yield from _warn(status, f"the attribute `{keys[0]}` of {kind.name}", stack.locate((*path, 1)))


def _find_parts(
    owner: ResourceType | Property, data: Mapping[str, Data], path: Path
) -> Iterator[tuple[Path, Property]]:
    """The properties that are given, at any depth, with their paths."""
    for name, value in data.items():
        part = owner.parts.get(name)
        if part is None:
            continue
        yield (*path, name), part
        members = enumerate(value) if isinstance(value, list) else [(None, value)]
        for step, member in members if part.children else ():
            if isinstance(member, dict):
                yield from _find_parts(part, member, (*path, name) if step is None else (*path, name, step))


def _warn(status: Status, subject: str, place: Span | None, advice: str | None = None) -> Iterator[Diagnostic]:
    match status:
        case ["hidden" | "deprecated" as word, since, *notes]:
            message = f"{subject} is {word}{f' since Heat {since}' if since else ''}"
            advice = advice or next((f"Heat says: {note}" for note in notes), None)
            yield Diagnostic("deprecated", message, place, advice, "warning")
