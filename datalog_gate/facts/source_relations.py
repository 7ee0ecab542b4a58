"""Rows about the source of a template before functions are resolved.

Every branch of an `if` is read, taken or not, and every named condition at each of its uses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache

from datalog_gate.base.expression import phrase
from datalog_gate.base.values import ResourceId, Unknown, Value
from datalog_gate.facts.tables import FunctionUse, LocatedRow, StackContext
from datalog_gate.stack.model import Data, Path, Resource, Stack, Template
from datalog_gate.stack.property_values import path_text

_PARTS = ("properties", "metadata", "deletion_policy", "update_policy", "depends_on", "external_id", "condition")
_CONNECTIVES = frozenset({"and", "or", "not", "Fn::And", "Fn::Or", "Fn::Not"})
_LOGIC = _CONNECTIVES | {"equals", "Fn::Equals"}
"""Functions that are plain data outside conditions."""
_OF_TEXT = frozenset({"str_replace", "str_replace_strict", "str_replace_vstrict", "list_join"})
_OF_TEXT |= {"Fn::Replace", "Fn::Join", "Fn::Base64"}
"""Functions that compose texts."""
_PLACEHOLDER = "$"
"""Stands in a text for the result of another function."""
_MOST_WORK = 10**8
"""The maximum number of characters searched for all keys that are replaced in a text."""
_CONTAINERS = (dict, list)


@lru_cache(maxsize=32)
def _value_functions(functions: frozenset[str]) -> frozenset[str]:
    """The functions of a template version that work everywhere."""
    return functions - _LOGIC


def _uses(resource: Resource, context: StackContext) -> Sequence[FunctionUse]:
    uses = context.function_uses.get(resource.name)
    if uses is None:
        uses = context.function_uses[resource.name] = tuple(_find_uses(resource, context))
    return uses


def _find_uses(resource: Resource, context: StackContext) -> Iterator[FunctionUse]:
    template = context.stack.template
    if template is None:
        return
    for part, data in resource.written(_PARTS, template.functions).items():
        if part == "condition":
            yield from _condition(data, template, (part,), ".condition", set())
        else:
            yield from _calls(data, (part,), template, None)


def _calls(data: Data, place: Path, template: Template, outermost: str | None = "") -> list[FunctionUse]:
    """The calls in data at a place. `outermost` is the path of the outermost surrounding call, or None."""
    calls: list[FunctionUse] = []  # one list for all levels takes half the time of generators within generators
    _add_calls(calls, data, place, template, outermost)
    return calls


def _add_calls(calls: list[FunctionUse], data: Data, place: Path, template: Template, outermost: str | None) -> None:
    # most data is strings: testing for them first saves time
    if isinstance(data, dict):
        if len(data) == 1:
            [(function, arguments)] = data.items()
            if function in _value_functions(template.functions):
                if outermost is None:
                    outermost = path_text(place[1:] if place[0] == "properties" else ("", *place))
                calls.append(FunctionUse(outermost, place, function, arguments))
                if function in ("if", "Fn::If") and isinstance(arguments, list) and arguments:
                    calls += _condition(arguments[0], template, (*place, function, 0), outermost, set())
        for key, value in data.items():
            if type(value) is not str and isinstance(value, _CONTAINERS):
                _add_calls(calls, value, (*place, str(key)), template, outermost)
    elif isinstance(data, list):
        for at, item in enumerate(data):
            if type(item) is not str and isinstance(item, _CONTAINERS):
                _add_calls(calls, item, (*place, at), template, outermost)


def _condition(data: Data, template: Template, place: Path, outermost: str, visited: set[str]) -> Iterator[FunctionUse]:
    """The calls in a condition and in the conditions it names, at the path of the name."""
    if isinstance(data, str) and data in template.conditions and data not in visited:
        visited.add(data)
        yield from _condition(template.conditions[data], template, place, outermost, visited)
    elif isinstance(data, dict) and len(data) == 1:
        [(function, arguments)] = data.items()
        if function in template.functions:
            yield FunctionUse(outermost, place, function, arguments)
        if function in _CONNECTIVES & template.functions:
            for part in arguments if isinstance(arguments, list) else [arguments]:
                yield from _condition(part, template, place, outermost, visited)
        elif function in template.functions:
            yield from _calls(arguments, place, template, outermost)


def _functions(resource: Resource, context: StackContext) -> Iterator[LocatedRow]:
    for use in _uses(resource, context):
        yield (resource.id, use.path, use.function), use.place, None


def _nested_functions(resource: Resource, context: StackContext) -> Iterator[LocatedRow]:
    for use in _uses(resource, context):
        if isinstance(use.arguments, _CONTAINERS) and (depth := _depth(use.function, use.arguments)):
            yield (resource.id, use.path, use.function, 1 + depth), use.place, None


def _depth(function: str, data: Data) -> int:
    parts = list(data.values()) if isinstance(data, dict) else data if isinstance(data, list) else []
    below = max((_depth(function, part) for part in parts), default=0)
    return below + (isinstance(data, dict) and len(data) == 1 and function in data)


def _attributes(resource: Resource, context: StackContext) -> Iterator[LocatedRow]:
    for use in _uses(resource, context):
        if use.function in ("get_attr", "Fn::GetAtt"):
            steps = use.arguments.split(".", 1) if isinstance(use.arguments, str) else use.arguments
            name, attribute = (*steps, None, None)[:2] if isinstance(steps, list) else (steps, None)
            within = context.stack.template.stack if context.stack.template else ""
            target = ResourceId(f"{within}/{name}") if isinstance(name, str) else _computed(use, name, resource)
            yield (resource.id, use.path, target, attribute and _name(use, attribute, resource)), use.place, None


def _parameters(resource: Resource, context: StackContext) -> Iterator[LocatedRow]:
    resources = context.stack.template.resources if context.stack.template else ()
    for use in _uses(resource, context):
        if (name := _parameter(use.function, use.arguments, resources)) is not None:
            yield (resource.id, use.path, _name(use, name, resource)), use.place, None


def _parameter(function: str, arguments: Data, resources: Collection[str]) -> Data:
    """The parameter that a function reads, if any. `Ref` reads one if no resource has the name."""
    name = arguments[0] if isinstance(arguments, list) and arguments else arguments
    names_resource = isinstance(name, str) and name in resources
    return name if function == "get_param" or (function == "Ref" and not names_resource) else None


def used_parameters(stack: Stack) -> Iterator[LocatedRow]:
    """The rows of ``heat:used_parameter``. Group members belong to the template of the group."""
    template = stack.template
    if template is None or template.stack != stack.id:
        return
    definitions: list[Data] = [*template.resources.values(), *template.outputs.values()]
    calls = _calls(definitions, (), template)
    for condition in template.conditions.values():
        calls += _condition(condition, template, (), "", set())
    for _, _, function, arguments in calls:
        name = _parameter(function, arguments, template.resources)
        if isinstance(name, str):
            yield (stack.id, name), (), None
        elif name is not None:
            unread = Unknown(phrase(f"name {json.dumps(name, default=str)} of {function} in {stack.id}"), unread=True)
            yield (stack.id, unread), (), None


def _files(resource: Resource, context: StackContext) -> Iterator[LocatedRow]:
    for use in _uses(resource, context):
        if use.function == "get_file":
            yield (resource.id, use.path, _name(use, use.arguments, resource)), use.place, None


def _texts(resource: Resource, context: StackContext) -> Iterator[LocatedRow]:
    for use in _uses(resource, context):
        if use.function in _OF_TEXT and use.place[0] == "properties" and use.path == path_text(use.place[1:]):
            text = _text({use.function: use.arguments})
            if text.strip(f"{_PLACEHOLDER}\n"):
                yield (resource.id, use.path, text), use.place, None


def _text(data: Data) -> str:
    """The text that a function composes, with `_PLACEHOLDER` for results of other functions. Replacement values are
    appended at the end, so that the text is never longer than the template's."""
    match data:
        case str():
            return data
        case {"list_join": [str(between), *lists]} | {"Fn::Join": [str(between), *lists]}:
            items = [item for part in lists for item in (part if isinstance(part, list) else [part])]
            return between.join(map(_text, items))
        case {"Fn::Base64": content}:
            return _text(content)
        case (
            {"str_replace": {"template": template, "params": dict(values)}}
            | {"str_replace_strict": {"template": template, "params": dict(values)}}
            | {"str_replace_vstrict": {"template": template, "params": dict(values)}}
            | {"Fn::Replace": [dict(values), template]}
        ):
            text = _text(template)
            if len(values) * len(text) > _MOST_WORK:
                return _PLACEHOLDER
            for key in sorted(filter(None, map(str, values)), key=len, reverse=True):
                text = text.replace(key, _PLACEHOLDER)
            return "\n".join((text, *map(_text, values.values())))
    return _PLACEHOLDER


def _name(use: FunctionUse, name: Data, resource: Resource) -> Value:
    return name if isinstance(name, str) else _computed(use, name, resource)


def _computed(use: FunctionUse, name: Data, resource: Resource) -> Unknown:
    """A name that is the result of a function: Heat knows it, but it is not in the text."""
    return Unknown(phrase(f"name {json.dumps(name, default=str)} of {use.function} in {resource.id.path}"), unread=True)


SOURCE_ROWS: dict[str, Callable[[Resource, StackContext], Iterator[LocatedRow]]] = {
    "heat:attribute": _attributes,
    "heat:function": _functions,
    "heat:nested_function": _nested_functions,
    "heat:text": _texts,
    "heat:uses_parameter": _parameters,
    "heat:uses_file": _files,
}
