"""Changes of a template: values, what hints write, grants, and allowed values."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import replace
from datalog_gate.base.unknown import leaves
from datalog_gate.base.values import ResourceId, Unknown, Value, show, to_json
from datalog_gate.explain.instruction import Instruction
from datalog_gate.facts.stack_relations import POLICY
from datalog_gate.stack.model import Data, Path, Resource, Stack
from datalog_gate.stack.property_values import coerce, path_text
from datalog_gate.template.dialect import Dialect, dialect_of
from datalog_gate.template.reader import TemplateSource, read_assuming
from datalog_gate.template.resources import Text
from datalog_gate.template.tree import Steps


class TemplateChange(NamedTuple):
    """A changed or new resource of the stack `home`, with a description, the current place of the value, and the number
    of findings that it fixes. The `value` is plain data for the property at the path; a new resource has no path, and
    the place of the resource that it is for. An example is a value that its user replaces. If a parameter without a
    value is `limited`, the resource stays: the path is that of the parameter, and the value are its allowed values. It
    also stays if the text `is_read_again`: then the value may be a function, None removes what is there, and the path
    may be that of a parameter's attribute."""

    home: str
    resource: Resource
    text: str
    place: Span | None
    settled: int = 0
    path: Path = ()
    value: Data = None
    is_example: bool = False
    limited: Unknown | None = None
    is_read_again: bool = False

    def put_in(self, data: Data) -> Data:
        """The data of a template with the change of what is written in it. Errors: InputError if it does not fit."""
        dialect = dialect_of(data) if isinstance(data, dict) else ""
        try:
            if isinstance(dialect, str) or not isinstance(data, dict):
                raise ValueError(dialect)
            path = self.find_path(dialect)
            if self.resource.name not in data[dialect.resources] and path[0] == dialect.resources:
                raise ValueError(path)
            return _put_below(data, path, self.value, dialect)
        except (KeyError, TypeError, ValueError):
            raise InputError.of("the template does not have what the change is for") from None

    def find_path(self, dialect: Dialect) -> Path:
        """The path of the change in its template."""
        section, *rest = self.path
        if section == "parameters":
            name, *attributes = rest
            return (dialect.key("parameters"), name, *(dialect.key(str(attribute)) for attribute in attributes))
        return (dialect.resources, self.resource.name, dialect.key(str(section)), *rest)


def apply_change(stack: Stack, change: TemplateChange) -> Stack:
    """The stack with the change. Errors: InputError if Heat would not build it."""
    if change.is_read_again:
        return _read_again(stack, change)
    if change.limited is None:
        return _with_change(stack, change)
    changed = read_assuming(stack, {change.limited: change.limited}, Steps())
    return replace(changed, live=stack.live, source=stack.source)


def _read_again(stack: Stack, change: TemplateChange) -> Stack:
    """The stack with the change in the text of a template. Errors: InputError."""
    source = stack.source
    if not isinstance(source, TemplateSource) or change.place is None:
        raise InputError.of("the template can't be read again")
    file, documents = change.place.file, source.documents

    def rewrite(name: str, text: Text) -> str:
        data = documents.read(text, name).data if isinstance(text, str) else text
        return json.dumps(change.put_in(data))

    changed = replace(
        source,
        text=rewrite(file, source.text) if source.file == file else source.text,
        fetched={
            key: (file, rewrite(*fetched)) if fetched and fetched[0] == file else fetched
            for key, fetched in source.fetched.items()
        },
        documents=replace(documents, parsed={**documents.parsed}, sent={**documents.sent}),
    )
    read = read_assuming(replace(stack, source=changed), {}, Steps())
    return replace(read, live=stack.live, source=changed)


def _put_below(data: Data, path: Path, value: Data, dialect: Dialect) -> Data:
    """A copy of the data with the value at the path, or without what is there for None. Maps that are missing are made.
    Errors: ValueError if the path does not exist, or is inside a function."""
    step, *rest = path
    match data, step:
        case ((dict() | None), str()) if data is None or len(data) != 1 or not dialect.functions.intersection(data):
            section = data or {}
            if rest or value is not None:
                return {**section, step: _put_below(section.get(step), tuple(rest), value, dialect) if rest else value}
            if step in section:
                return {name: part for name, part in section.items() if name != step}
        case list(), int() if step < len(data) and rest:
            return [*data[:step], _put_below(data[step], tuple(rest), value, dialect), *data[step + 1 :]]
    raise ValueError(path)


def _with_change(stack: Stack, change: TemplateChange) -> Stack:
    """The stack with the changed resource in place of its older state, or as a new one."""
    resources = tuple(_change_resource(other, change) for other in stack.resources)
    if stack.id == change.home and all(other.id != change.resource.id for other in resources):
        resources = (*resources, change.resource)
    return replace(stack, resources=resources, source=None)


def _change_resource(other: Resource, change: TemplateChange) -> Resource:
    """The resource with the change: also one whose value is written at the same place, as in another stack of the
    template."""
    if other.id == change.resource.id:
        return change.resource
    if other.nested:
        return replace(other, nested=_with_change(other.nested, change))
    if change.path and change.place and (other.type, other.locate(change.path)) == (change.resource.type, change.place):
        with suppress(ValueError):
            return replace(other, properties=_put(other.properties, change.path[1:], change.value))
    return other


def set_value(home: str, resource: Resource, path: Path, value: Value, words: str) -> TemplateChange | None:
    """The resource with the value at the path, which `words` describe; None if that makes no sense."""
    try:
        properties = _put(resource.properties, path[1:], to_json(value))
    except ValueError:
        return None
    text = f"set {path_text(path[1:])} of {resource.name} to {words or show(value)}"
    changed = replace(resource, properties=properties)
    place = resource.locate(path)
    return TemplateChange(home, changed, text, place, path=path, value=to_json(value), is_example=bool(words))


def _put(data: Data, path: Path, value: Data) -> Any:
    """A copy of the data with the value at the path. Errors: ValueError if the path does not exist, or if a minimum
    exceeds its maximum."""
    step, *rest = path
    match data, step:
        case dict(), str():
            changed = {**data, step: _put(data.get(step), tuple(rest), value) if rest else value}
            if _in_order(changed, step):
                return changed
        case list(), int() if step < len(data):
            return [*data[:step], _put(data[step], tuple(rest), value) if rest else value, *data[step + 1 :]]
    raise ValueError(path)


def _in_order(data: Mapping[str, Data], changed: str) -> bool:
    """Whether a changed minimum is at most its maximum, as in `port_range_min` and `_max`."""
    stem, _, end = changed.rpartition("_")
    if end not in ("min", "max") or not {f"{stem}_min", f"{stem}_max"} & data.keys():
        return True
    least, most = (coerce("integer", data.get(f"{stem}_{bound}")) for bound in ("min", "max"))
    return isinstance(least, int) and isinstance(most, int) and least <= most


def follow_instruction(home: Stack, resource: Resource | None, path: Path, instruction: Instruction) -> TemplateChange:
    """What a hint writes, at the path of a resource or, without one, of a parameter."""
    name = resource.name if resource else f"the parameter {path[1]}"
    where = path_text(path[1:]) if resource else f"the {path[2]}"
    text = f"remove {where} of {name}{instruction.also}"
    if instruction.text:
        text = f"set {where} of {name} to {instruction.text}"
    return TemplateChange(
        home.id,
        resource or home.resources[0],
        text,
        resource.locate_key(path) if resource else home.locate(path[:2]),
        path=path,
        value=instruction.value,
        is_read_again=True,
    )


def make_grant(home: Stack, service: str, resource: ResourceId) -> TemplateChange:
    """A grant of a service for a resource of the stack."""
    name = f"{service}_for_{resource.name}"
    properties: dict[str, Data] = {"service": service, "scope": [resource.name]}
    grant = Resource(ResourceId(f"{home.id}/{name}"), name, POLICY, POLICY, properties)
    text = f"add a resource of type {POLICY} with service: {service}, scope: [{resource.name}]"
    place = next(member.locate(()) for member in home.resources if member.id == resource)
    return TemplateChange(home.id, grant, text, place)


def limit_parameter(
    stacks: Sequence[Stack], unknown: Unknown, path: Path, passing: Collection[Value]
) -> TemplateChange | None:
    """The parameter that an unknown is the value of, with those of its values allowed that pass at the path of a
    resource; None if there are none, or if it is read elsewhere too."""
    stack = next((stack for stack in stacks if stack.id == unknown.source.stack), None)
    declared = [parameter for parameter in stack.parameters if parameter.value == unknown] if stack else []
    allowed = [value for value in unknown.domain or sorted(passing, key=show) if value in passing]
    if not (stack and declared and allowed) or unknown.hidden or not all(isinstance(value, str) for value in allowed):
        return None
    [parameter] = declared
    resources = [resource for root in stacks for part in root.walk() for resource in part.resources]
    if (parameter.type, parameter.origin) != ("string", "none") or not all(
        _is_read_only_at(resource, path[1], unknown) for resource in resources if not resource.nested
    ):
        return None
    return TemplateChange(
        stack.id,
        resources[0],
        f"allow only {', '.join(map(show, allowed))} for the parameter {parameter.name}",
        stack.locate(("parameters", parameter.name)),
        path=("parameters", parameter.name),
        value=allowed,
        limited=replace(unknown, domain=tuple(allowed)),
    )


def find_readers(stacks: Sequence[Stack], unknown: Unknown) -> set[ResourceId]:
    """The resources with a property that depends on the unknown."""
    resources = (resource for root in stacks for part in root.walk() for resource in part.resources)
    return {
        resource.id for resource in resources if not resource.nested and _depends(resource.properties.values(), unknown)
    }


def _is_read_only_at(resource: Resource, name: str | int, unknown: Unknown) -> bool:
    """Whether no other property of the resource depends on the unknown, nor whether it exists."""
    others = [value for other, value in resource.properties.items() if other != name]
    return not _depends([*others, resource.maybe], unknown)


def _depends(values: Iterable[Data], unknown: Unknown) -> bool:
    found = (leaf for value in values for leaf in leaves(value) if isinstance(leaf, Unknown))
    return any(unknown in (leaf, *leaf.of) for leaf in found)
