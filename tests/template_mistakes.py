"""Templates, and mistakes that people make, put into their data."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.declaration import Property

T = TypeVar("T")
Data = Any
WRONG_TEXTS = {
    "ip_addr": "10.0.0.300",
    "net_cidr": "10.0.0.300/24",
    "ip_or_cidr": "10.0.0.0/33",
    "mac_addr": "fa:16:3e:00:00",
    "cron_expression": "* * * *",
    "timezone": "Europe/Zuerich2",
    "dns_name": "a_b.example.com",
    "rel_dns_name": "web.example.com.",
    "dns_domain": "example.com",
    "json_string": "{a: 1}",
    "expiration": "2001-01-01T00:00:00",
}
"""A text that each custom constraint refuses which needs no service."""


_PROJECT = Path(__file__).parents[1]
_CORPUS = Path(os.environ.get("DATALOG_GATE_SHARED", _PROJECT.parent / "shared")) / "corpus/templates"

Case = tuple[Path, list[Path], Path]
"""A template, its environments, and the folder that may be read."""


def find_fixtures() -> list[Case]:
    folders = sorted((_PROJECT / "fixtures/stacks").iterdir())
    return [(next(folder.glob("template.*")), sorted(folder.glob("env.yaml")), folder) for folder in folders]


def find_corpus() -> list[Case]:
    lines = (_CORPUS / "manifest.jsonl").read_text().splitlines() if _CORPUS.is_dir() else []
    roots = [json.loads(line) for line in lines]
    return [(_CORPUS / root["root"], [_CORPUS / env for env in root["envs"]], _CORPUS) for root in roots]


class Place(NamedTuple):
    """A property in a template: the map that holds it, and its declaration."""

    holder: dict[str, Data]
    declared: Property
    depth: int

    @property
    def written(self) -> bool:
        return self.declared.name in self.holder

    def put(self, value: Data) -> None:
        self.holder[self.declared.name] = value


def put_mistake(kind: str, body: Mapping[str, Data], chance: random.Random) -> Data:
    """The template's data with a mistake of a kind in it; None where it can't have one."""
    changed = copy.deepcopy(dict(body))
    return changed if MISTAKES[kind](changed, chance) else None


def misspell(word: str, chance: random.Random) -> str:
    """The word with a letter dropped, doubled or swapped with the next."""
    at = chance.randrange(1, max(2, len(word) - 1))
    match chance.randrange(3):
        case 0:
            return word[:at] + word[at + 1 :]
        case 1:
            return word[:at] + word[at] + word[at:]
    swapped = word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]
    return swapped if swapped != word else word[:at] + word[at + 1 :]


def _resources(body: Data) -> dict[str, dict[str, Data]]:
    found = body.get("resources") or body.get("Resources") or {}
    return {name: part for name, part in found.items() if isinstance(part, dict)}


def _type(resource: Data) -> Data:
    return resource.get("type", resource.get("Type"))


def _places(body: Data) -> Iterator[Place]:
    """The properties that resources of known types have or might have."""
    for resource in _resources(body).values():
        kind = SHIPPED.type(str(_type(resource)))
        properties = resource.setdefault("Properties" if "Type" in resource else "properties", {})
        if kind and isinstance(properties, dict):
            yield from _below(properties, kind.properties, 0)


def _below(holder: dict[str, Data], schema: tuple[Property, ...], depth: int) -> Iterator[Place]:
    for declared in schema:
        yield Place(holder, declared, depth)
        value = holder.get(declared.name)
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict) and declared.children and not _is_call(part):
                yield from _below(part, declared.children, depth + 1)


def _is_call(data: Data) -> bool:
    return (
        isinstance(data, dict)
        and len(data) == 1
        and (next(iter(data)).startswith(("get_", "Fn::", "Ref", "str_", "if")))
    )


Mistake = Callable[[Data, random.Random], bool]


def _in_one(things: Iterable[T], chance: random.Random, change: Callable[[T], Data]) -> bool:
    """Change one of the things. Return whether there is any, and `change` does not say False."""
    listed = list(things)
    return bool(listed) and change(chance.choice(listed)) is not False


def _at(choose: Callable[[Place], bool], value: Callable[[Place], Data]) -> Mistake:
    """A mistake: a value in a property, rather in one that is written."""

    def put(body: Data, chance: random.Random) -> bool:
        places = [place for place in _places(body) if choose(place)]
        written = [place for place in places if place.written]
        return _in_one(written or places, chance, lambda place: place.put(value(place)))

    return put


def _of_kind(kind: str, value: Data) -> Mistake:
    return _at(lambda place: place.declared.kind == kind, lambda _: value)


def _at_depth(
    depth: int, choose: Callable[[Place], bool], change: Callable[[dict[str, Data], str, random.Random], None]
) -> Mistake:
    """A mistake in the map that holds a property of that name: of a resource, depth 0, or within one, depth 1."""
    return lambda body, chance: _in_one(
        (place for place in _places(body) if min(place.depth, 1) == depth and choose(place)),
        chance,
        lambda place: change(place.holder, place.declared.name, chance),
    )


def _rename(depth: int, rename: Callable[[str, random.Random], str]) -> Mistake:
    def put(holder: dict[str, Data], name: str, chance: random.Random) -> None:
        holder[rename(name, chance)] = holder.pop(name)

    return _at_depth(depth, lambda place: place.written, put)


def _add(depth: int) -> Mistake:
    return _at_depth(depth, lambda _: True, lambda holder, _name, _chance: holder.update(colour="blue"))


def _drop_required(depth: int) -> Mistake:
    def drop(holder: dict[str, Data], name: str, _chance: random.Random) -> None:
        del holder[name]

    return _at_depth(depth, lambda place: place.written and place.declared.required, drop)


def _of_resource(change: Callable[[dict[str, Data], str, random.Random], Data]) -> Mistake:
    return lambda body, chance: _in_one(
        sorted(_resources(body)), chance, lambda name: change(_resources(body)[name], name, chance)
    )


def _retype(change: Callable[[str, random.Random], str]) -> Mistake:
    def put(resource: dict[str, Data], _name: str, chance: random.Random) -> Data:
        key = "Type" if "Type" in resource else "type"
        if not isinstance(resource.get(key), str) or not SHIPPED.type(resource[key]):
            return False
        resource[key] = change(resource[key], chance)
        return True

    return _of_resource(put)


def _calls(data: Data, names: tuple[str, ...]) -> Iterator[dict[str, Data]]:
    if isinstance(data, dict):
        if len(data) == 1 and next(iter(data)) in names:
            yield data
        for part in data.values():
            yield from _calls(part, names)
    elif isinstance(data, list):
        for part in data:
            yield from _calls(part, names)


def _of_call(section: str, names: tuple[str, ...], change: Callable[[dict[str, Data], random.Random], Data]) -> Mistake:
    """A mistake in a call of one of the functions in a section."""
    return lambda body, chance: _in_one(
        _calls(body.get(section, body.get(section.capitalize())), names), chance, lambda call: change(call, chance)
    )


def _misspell_attribute(call: dict[str, Data], chance: random.Random) -> bool:
    [(name, arguments)] = call.items()
    if isinstance(arguments, list) and len(arguments) > 1 and isinstance(arguments[1], str):
        call[name] = [arguments[0], misspell(arguments[1], chance), *arguments[2:]]
        return True
    return False


def _name_nothing(call: dict[str, Data], _chance: random.Random) -> None:
    [(name, arguments)] = call.items()
    call[name] = ["nothing_there", *arguments[1:]] if isinstance(arguments, list) else "nothing_there"


def _misspell_function(call: dict[str, Data], chance: random.Random) -> None:
    [(name, arguments)] = call.items()
    del call[name]
    call[misspell(name, chance)] = arguments


def _section(change: Callable[[Data, random.Random], bool]) -> Mistake:
    return lambda body, chance: "heat_template_version" in body and change(body, chance)


def _share_name(body: Data, chance: random.Random) -> bool:
    parameters = body.setdefault("parameters", {})
    return _in_one(
        sorted(_resources(body)), chance, lambda name: parameters.update({name: {"type": "string", "default": "x"}})
    )


def _misspell_section(body: Data, chance: random.Random) -> bool:
    name = chance.choice(sorted(body.keys() - {"heat_template_version"}))
    body[misspell(name, chance)] = body.pop(name)
    return True


def _misspell_key(resource: dict[str, Data], _name: str, chance: random.Random) -> None:
    key = chance.choice(sorted(resource))
    resource[misspell(key, chance)] = resource.pop(key)


def _set(parts: Callable[[str], dict[str, Data]]) -> Mistake:
    """A mistake in keys of a resource, whose name is given, that CFN writes in another way."""

    def put(resource: dict[str, Data], name: str, _chance: random.Random) -> bool:
        if "Type" in resource:
            return False
        resource.update(parts(name))
        return True

    return _of_resource(put)


def _parameter(change: Callable[[dict[str, Data]], None]) -> Mistake:
    return lambda body, chance: _in_one(
        sorted(body.get("parameters") or {}), chance, lambda name: change(body["parameters"][name])
    )


def _call_newer(body: Data, chance: random.Random) -> bool:
    body["heat_template_version"] = "2015-04-30"
    return _at(lambda place: place.declared.kind == "string", lambda _: {"if": [True, "a", "b"]})(body, chance)


def _out_of(place: Place) -> Data:
    low, high = place.declared.range
    return low - 1 if low is not None else high + 1  # type: ignore[operator]


def _too_long(place: Place) -> Data:
    low, high = place.declared.length
    size = high + 1 if high is not None else (low or 1) - 1
    return ["x"] * size if place.declared.kind == "list" else "x" * size


def _text_for(custom: str) -> Mistake:
    """A wrong text for a custom constraint."""

    def needs(place: Place) -> bool:
        return place.declared.custom == custom and place.declared.kind == "string"

    return _at(needs, lambda _: WRONG_TEXTS[custom])


MISTAKES: dict[str, Mistake] = {
    "type misspelt": _retype(misspell),
    "type in small letters": _retype(lambda name, _: name.lower()),
    "type of no service": _retype(lambda name, _: f"{name.rpartition('::')[0]}::Whatsoever"),
    "property misspelt": _rename(0, misspell),
    "property that is none": _add(0),
    "property with other case": _rename(0, lambda name, _: name.upper()),
    "nested property misspelt": _rename(1, misspell),
    "nested property that is none": _add(1),
    "required property left out": _drop_required(0),
    "nested required property left out": _drop_required(1),
    "list for a text": _of_kind("string", ["a", "b"]),
    "map for a text": _of_kind("string", {"a": "b"}),
    "fraction for a text": _of_kind("string", 1.5),
    "word for a whole number": _of_kind("integer", "big"),
    "fraction in a text for a whole number": _of_kind("integer", "2.5"),
    "list for a whole number": _of_kind("integer", [1]),
    "word for a number": _of_kind("number", "big"),
    "word for a boolean": _of_kind("boolean", "perhaps"),
    "number for a boolean": _of_kind("boolean", 1),
    "text for a list": _of_kind("list", "a,b"),
    "map for a list": _of_kind("list", {"a": "b"}),
    "text for a map": _of_kind("map", "a=b"),
    "list for a map": _of_kind("map", ["a"]),
    "value that is not allowed": _at(lambda place: bool(place.declared.allowed), lambda _: "whatever"),
    "number that is not allowed": _at(
        lambda place: bool(place.declared.allowed) and place.declared.kind == "integer", lambda _: 12345
    ),
    "number out of range": _at(lambda place: place.declared.range != (None, None), _out_of),
    "length out of range": _at(lambda place: place.declared.length != (None, None), _too_long),
    "text that no pattern matches": _at(lambda place: bool(place.declared.pattern), lambda _: "\N{EURO SIGN} 1\n"),
    **{f"{custom} that is none": _text_for(custom) for custom in WRONG_TEXTS},
    "attribute misspelt in an output": _of_call("outputs", ("get_attr", "Fn::GetAtt"), _misspell_attribute),
    "attribute misspelt in a resource": _of_call("resources", ("get_attr", "Fn::GetAtt"), _misspell_attribute),
    "parameter and resource of one name": _section(_share_name),
    "parameter of nothing": _of_call("resources", ("get_param",), _name_nothing),
    "parameter of nothing in an output": _of_call("outputs", ("get_param",), _name_nothing),
    "resource of nothing": _of_call("resources", ("get_resource",), _name_nothing),
    "resource of nothing in an output": _of_call("outputs", ("get_resource",), _name_nothing),
    "attribute of nothing": _of_call("resources", ("get_attr",), _name_nothing),
    "attribute of nothing in an output": _of_call("outputs", ("get_attr",), _name_nothing),
    "function misspelt": _of_call(
        "resources", ("get_param", "get_resource", "get_attr", "list_join"), _misspell_function
    ),
    "section misspelt": _section(_misspell_section),
    "key of a resource misspelt": _of_resource(_misspell_key),
    "resource that needs itself": _set(lambda name: {"depends_on": [name]}),
    "dependency on nothing": _set(lambda _: {"depends_on": "nothing_there"}),
    "deletion policy that is none": _set(lambda _: {"deletion_policy": "Keep"}),
    "condition that is none": _set(lambda _: {"condition": "nothing_there"}),
    "update policy that is none": _set(lambda _: {"update_policy": {"rolling": {}}}),
    "metadata that are no map": _set(lambda name: {"metadata": [name]}),
    "key without a value": _set(lambda name: {("metadata", "depends_on", "update_policy")[len(name) % 3]: None}),
    "parameter of no type": _parameter(lambda parameter: parameter.update(type="text")),
    "parameter with a wrong default": _parameter(lambda parameter: parameter.update(type="number", default="x")),
    "parameter with a text that is none": _parameter(
        lambda parameter: parameter.update(
            type="string", default="10.0.0.300/24", constraints=[{"custom_constraint": "net_cidr"}]
        )
    ),
    "parameter with a wrong key": _parameter(lambda parameter: parameter.update(defualt="x")),
    "function of a newer version": _section(_call_newer),
}
