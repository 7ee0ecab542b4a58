"""Changes of a template: values, grants, and allowed values of parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import replace
from datalog_gate.base.unknown import leaves
from datalog_gate.base.values import ResourceId, Unknown, Value, show, to_json
from datalog_gate.facts.stack_relations import POLICY
from datalog_gate.stack.model import Data, Path, Resource, Stack
from datalog_gate.stack.property_values import coerce, path_text
from datalog_gate.template.reader import read_assuming
from datalog_gate.template.tree import Steps


class TemplateChange(NamedTuple):
    """A changed or new resource of the stack `home`, with a description, the current place of the value, and the number
    of findings that it fixes. The `value` is plain data for the property at the path; a new resource has no path, and
    the place of the resource that it is for. An example is a value that its user replaces. If a parameter without a
    value is `limited`, the resource stays: the path is that of the parameter, and the value are its allowed values."""

    home: str
    resource: Resource
    text: str
    place: Span | None
    settled: int = 0
    path: Path = ()
    value: Data = None
    is_example: bool = False
    limited: Unknown | None = None


def apply_change(stack: Stack, change: TemplateChange) -> Stack:
    """The stack with the change. Errors: InputError if Heat would not build it."""
    if change.limited is None:
        return _with_resource(stack, change.home, change.resource)
    changed = read_assuming(stack, {change.limited: change.limited}, Steps())
    return replace(changed, live=stack.live, source=stack.source)


def _with_resource(stack: Stack, home: str, resource: Resource) -> Stack:
    """The stack with this resource replaced, or added, in the stack `home`."""
    if stack.id == home:
        others = tuple(resource if other.id == resource.id else other for other in stack.resources)
        return replace(stack, resources=others if resource in others else (*others, resource), source=None)
    resources = tuple(
        replace(other, nested=_with_resource(other.nested, home, resource)) if other.nested else other
        for other in stack.resources
    )
    return replace(stack, resources=resources, source=None)


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
