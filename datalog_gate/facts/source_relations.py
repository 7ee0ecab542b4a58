"""What a template's text says of a resource before any function is resolved (layer 2).

In: a resource, or a template, whose definition is at hand as written. Out: the rows of ``heat:function``,
``heat:nested_function``, ``heat:text``, ``heat:attribute``, ``heat:uses_*`` and ``heat:used_parameter`` as `Fact`
values. Every branch of an `if` is read, taken or not, and every named condition wherever it is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache

from datalog_gate.base.values import ResourceId, Unknown, Value
from datalog_gate.facts.batch import Fact, FunctionUse, StackContext
from datalog_gate.stack.model import Data, Path, Resource, Stack, Template
from datalog_gate.stack.property_values import path_text

_PARTS = ("properties", "metadata", "deletion_policy", "update_policy", "depends_on", "external_id", "condition")
_JUNCTIONS = frozenset({"and", "or", "not", "Fn::And", "Fn::Or", "Fn::Not"})
_LOGIC = _JUNCTIONS | {"equals", "Fn::Equals"}
"""Functions that are plain data anywhere but in a condition."""
_OF_TEXT = frozenset({"str_replace", "str_replace_strict", "str_replace_vstrict", "list_join"})
_OF_TEXT |= {"Fn::Replace", "Fn::Join", "Fn::Base64"}
"""Functions that put texts together."""
_OTHERS = "$"
"""What stands in a text for what is not written there."""
_MOST = 10**8
"""How many characters are looked at, over all keys that are to be replaced in a text."""
_NESTED = (dict, list)


@lru_cache(maxsize=32)
def _plain(functions: frozenset[str]) -> frozenset[str]:
    """Of the functions of a version those that are no plain data anywhere."""
    return functions - _LOGIC


def _uses(resource: Resource, context: StackContext) -> Sequence[FunctionUse]:
    """Every use of a function in the definition."""
    uses = context.function_uses.get(resource.name)
    if uses is None:
        uses = context.function_uses[resource.name] = tuple(_found(resource, context))
    return uses


def _found(resource: Resource, context: StackContext) -> Iterator[FunctionUse]:
    template = context.stack.template
    if template is None:
        return
    text = _Text(template)
    for part, data in resource.written(_PARTS, template.functions).items():
        if part == "condition":
            for place, _, function, arguments in text.condition(data):
                yield FunctionUse(".condition", ("condition", *place), function, arguments)
            continue
        prefix: Path = () if part == "properties" else ("", part)
        for place, outermost, function, arguments in text.values(data, ()):
            yield FunctionUse(path_text((*prefix, *outermost)), (part, *place), function, arguments)


_Call = tuple[Path, Path, str, Data]
"""Where a function is, where the outermost one around it is, its name and arguments."""


class _Text:
    """Finds the functions in data of one template's text."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self.plain = _plain(template.functions)

    def values(self, data: Data, place: Path) -> list[_Call]:
        """The functions in data that is no condition."""
        found: list[_Call] = []
        self._values(data, place, None, found)
        return found

    def condition(self, data: Data) -> list[_Call]:
        """The functions of a condition, and of those that it names, which are found where they are named."""
        found: list[_Call] = []
        self._condition(data, (), (), set(), found)
        return found

    def _values(self, data: Data, place: Path, outermost: Path | None, found: list[_Call]) -> None:
        """A definition is mostly scalars, which hold nothing, and mostly texts."""
        if isinstance(data, dict):
            if len(data) == 1:
                [(call, arguments)] = data.items()
                if call in self.plain:
                    outermost = place if outermost is None else outermost
                    found.append((place, outermost, call, arguments))
                    if call in ("if", "Fn::If") and isinstance(arguments, list) and arguments:
                        self._condition(arguments[0], (*place, call, 0), outermost, set(), found)
            for key, value in data.items():
                if type(value) is not str and isinstance(value, _NESTED):
                    self._values(value, (*place, str(key)), outermost, found)
        elif isinstance(data, list):
            for at, item in enumerate(data):
                if type(item) is not str and isinstance(item, _NESTED):
                    self._values(item, (*place, at), outermost, found)

    def _condition(self, data: Data, place: Path, outermost: Path, seen: set[str], found: list[_Call]) -> None:
        if isinstance(data, str) and data in self.template.conditions and data not in seen:
            seen.add(data)
            self._condition(self.template.conditions[data], place, outermost, seen, found)
        elif isinstance(data, dict) and len(data) == 1:
            [(call, arguments)] = data.items()
            if call in _JUNCTIONS & self.template.functions:
                found.append((place, outermost, call, arguments))
                for part in arguments if isinstance(arguments, list) else [arguments]:
                    self._condition(part, place, outermost, seen, found)
            elif call in self.template.functions:
                found.append((place, outermost, call, arguments))
                self._values(arguments, place, outermost, found)


def _functions(resource: Resource, context: StackContext) -> Iterator[Fact]:
    for use in _uses(resource, context):
        yield (resource.id, use.path, use.function), use.place, None


def _nested_functions(resource: Resource, context: StackContext) -> Iterator[Fact]:
    for use in _uses(resource, context):
        if isinstance(use.arguments, _NESTED) and (below := _depth(use.function, use.arguments)):
            yield (resource.id, use.path, use.function, 1 + below), use.place, None


def _depth(function: str, data: Data) -> int:
    """How deep calls of the function stand within each other in the data."""
    parts = list(data.values()) if isinstance(data, dict) else data if isinstance(data, list) else []
    below = max((_depth(function, part) for part in parts), default=0)
    return below + (isinstance(data, dict) and len(data) == 1 and function in data)


def _attributes(resource: Resource, context: StackContext) -> Iterator[Fact]:
    for use in _uses(resource, context):
        if use.function in ("get_attr", "Fn::GetAtt"):
            steps = use.arguments.split(".", 1) if isinstance(use.arguments, str) else use.arguments
            name, attribute = (*steps, None, None)[:2] if isinstance(steps, list) else (steps, None)
            within = context.stack.template.stack if context.stack.template else ""
            target = ResourceId(f"{within}/{name}") if isinstance(name, str) else _computed(use, name, resource)
            yield (resource.id, use.path, target, attribute and _name(use, attribute, resource)), use.place, None


def _parameters(resource: Resource, context: StackContext) -> Iterator[Fact]:
    resources = context.stack.template.resources if context.stack.template else ()
    for use in _uses(resource, context):
        if (name := _parameter(use.function, use.arguments, resources)) is not None:
            yield (resource.id, use.path, _name(use, name, resource)), use.place, None


def _parameter(function: str, arguments: Data, resources: Collection[str]) -> Data:
    """What names the parameter that a function reads; None if it reads none. `Ref` names a resource, if there is one of
    that name, and else a parameter."""
    name = arguments[0] if isinstance(arguments, list) and arguments else arguments
    return name if function == "get_param" or (function == "Ref" and name not in resources) else None


def used_parameters(stack: Stack) -> Iterator[Fact]:
    """The rows of ``heat:used_parameter``. The members of a group stand in the template that holds the group."""
    template = stack.template
    if template is None or template.stack != stack.id:
        return
    text = _Text(template)
    found = [*text.values(template.resources, ()), *text.values(template.outputs, ())]
    for condition in template.conditions.values():
        found += text.condition(condition)
    for _, _, function, arguments in found:
        name = _parameter(function, arguments, template.resources)
        if isinstance(name, str):
            yield (stack.id, name), (), None
        elif name is not None:
            unread = Unknown(f"name {json.dumps(name, default=str)} of {function} in {stack.id}", unread=True)
            yield (stack.id, unread), (), None


def _files(resource: Resource, context: StackContext) -> Iterator[Fact]:
    for use in _uses(resource, context):
        if use.function == "get_file":
            yield (resource.id, use.path, _name(use, use.arguments, resource)), use.place, None


def _texts(resource: Resource, context: StackContext) -> Iterator[Fact]:
    for use in _uses(resource, context):
        if use.function in _OF_TEXT and use.place[0] == "properties" and use.path == path_text(use.place[1:]):
            text = _text({use.function: use.arguments})
            if text.strip(f"{_OTHERS}\n"):
                yield (resource.id, use.path, text), use.place, None


def _text(data: Data) -> str:
    """The text that a function makes of what stands in it, with `_OTHERS` wherever another one gives a part. What is
    put in place of keys stands below, so that a text is never longer than what is written."""
    match data:
        case str():
            return data
        case {"list_join": [str(between), *lists]} | {"Fn::Join": [str(between), *lists]}:
            return between.join(_text(one) for many in lists for one in (many if isinstance(many, list) else [many]))
        case {"Fn::Base64": coded}:
            return _text(coded)
        case (
            {"str_replace": {"template": template, "params": dict(given)}}
            | {"str_replace_strict": {"template": template, "params": dict(given)}}
            | {"str_replace_vstrict": {"template": template, "params": dict(given)}}
            | {"Fn::Replace": [dict(given), template]}
        ):
            text = _text(template)
            if len(given) * len(text) > _MOST:
                return _OTHERS
            for key in sorted(filter(None, map(str, given)), key=len, reverse=True):
                text = text.replace(key, _OTHERS)
            return "\n".join((text, *map(_text, given.values())))
    return _OTHERS


def _name(use: FunctionUse, name: Data, resource: Resource) -> Value:
    return name if isinstance(name, str) else _computed(use, name, resource)


def _computed(use: FunctionUse, name: Data, resource: Resource) -> Unknown:
    """A name that is itself the result of a function: Heat knows it, this reading of the text does not."""
    return Unknown(f"name {json.dumps(name, default=str)} of {use.function} in {resource.id.path}", unread=True)


SOURCE_ROWS: dict[str, Callable[[Resource, StackContext], Iterator[Fact]]] = {
    "heat:attribute": _attributes,
    "heat:function": _functions,
    "heat:nested_function": _nested_functions,
    "heat:text": _texts,
    "heat:uses_parameter": _parameters,
    "heat:uses_file": _files,
}
