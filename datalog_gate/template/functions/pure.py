"""The functions of templates that need nothing but their arguments.

The values are those that Heat computes (heat/engine/{hot,cfn}/functions.py). Functions of texts stand in `text`.
Errors: those of `arguments`.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping

from datalog_gate.base.unknown import leaves, undecided
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.stack.model import Data
from datalog_gate.template.functions.arguments import (
    BadFunction,
    TooLarge,
    Undecided,
    all_known,
    expect,
    items_of,
    list_of,
    map_of,
)
from datalog_gate.template.functions.text import MAX_ITEMS, MAX_TEXT, OLDER_TEXTS, TEXTS, bounded

MAX_PAIRS = 100_000


def same(left: Data, right: Data) -> bool | None:
    """Whether two values are equal; None if that is not known."""
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return True if left == right else None
    if isinstance(left, ResourceId) or isinstance(right, ResourceId):  # another resource, or a text like its reference
        return True if left == right else None
    match left, right:
        case dict(), dict():
            if left.keys() != right.keys():
                return False
            return every(same(value, right[key]) for key, value in left.items())
        case list(), list():
            return len(left) == len(right) and every(map(same, left, right))
    return bool(left == right)


def every(truths: Iterable[bool | None]) -> bool | None:
    """Three-valued conjunction."""
    known = list(truths)
    return False if False in known else None if None in known else True


def select(data: Data, steps: list[Data], parse: bool = False) -> Data:
    """The part of the data under the steps, also a text's character. `parse` takes texts as the numbers of a list's
    items. Errors: LookupError, TypeError or ValueError where there is none, Undecided."""
    for step in steps:
        if isinstance(data, Unknown | ResourceId) or isinstance(step, Unknown | ResourceId):
            raise Undecided
        if not isinstance(data, dict | list | str) or not isinstance(step, str | int):
            raise LookupError(step)
        data = data[int(step) if parse and not isinstance(data, dict) else step]  # type: ignore[index]
    return data


def _list_concat(arguments: Data) -> list[Data]:
    form = "a list of lists"
    return [item for part in list_of(arguments, form) if part is not None for item in list_of(part, form)]


def _list_concat_unique(arguments: Data) -> Data:
    if undecided(items := _list_concat(arguments)):
        raise Undecided
    unique: list[Data] = list(dict.fromkeys(item for item in items if not isinstance(item, dict | list)))
    nested = [item for item in items if isinstance(item, dict | list)]
    if not nested:
        return unique
    _pairs(len(items), len(nested))
    return [item for at, item in enumerate(items) if item not in items[:at]]


def _pairs(left: int, right: int) -> None:
    """Comparing everything with everything takes square time."""
    if left * right > MAX_PAIRS:
        raise TooLarge(f"compares more than {MAX_PAIRS} pairs of values")


def _map_merge(arguments: Data) -> Data:
    merged: dict[Data, Data] = {}
    for part in list_of(arguments, "a list of maps"):
        merged.update(map_of(part, "a list of maps"))
    return merged


def _map_replace(arguments: Data) -> Data:
    form = "[map, {keys: map, values: map}]"
    source, changes = (map_of(item, form) for item in items_of(arguments, 2, form))
    if changes.keys() - {"keys", "values"}:
        expect(form)
    keys, values = (map_of(changes.get(name), form) for name in ("keys", "values"))
    if undecided(keys) or (values and any(isinstance(value, Unknown | ResourceId) for value in source.values())):
        raise Undecided
    result: dict[Data, Data] = {}
    for key, value in source.items():
        name = key if keys.get(key) is None else keys[key]
        if isinstance(name, dict | list):
            expect(form)
        if name != key and (name in source or name in result):
            raise BadFunction(f"gives the key `{name}` twice")
        result[name] = value if isinstance(value, dict | list) else values.get(value, value)
    return result


def repeat(arguments: Data, date: str, write: Callable[[str, Data], Data]) -> Data:
    """The function of that name in the version of HOT of that date: maps came with 2016-10-14, `permutations` with
    2017-09-01. `write` gives what stands for a function over arguments, for texts partly unknown."""
    form = "`for_each`, a map of lists, and `template`"
    if not isinstance(arguments, dict) or not {"for_each", "template"} <= arguments.keys():
        expect(form)
    each, template = map_of(arguments["for_each"], form), arguments["template"]
    permute = arguments.get("permutations", True) if date >= "2017-09-01" else True
    if not isinstance(permute, bool) or not each or not all(isinstance(key, str) for key in each):
        expect(form)
    maps = permute and date >= "2016-10-14"
    lists = [
        list(items) if isinstance(items, dict) and maps else list_of(items, form)
        for items in each.values()
        if items is not None
    ]
    if not permute and len({len(items) for items in lists}) > 1:
        raise BadFunction("takes lists of one length where permutations is false")
    if len(lists) < len(each):  # a list that is not there has no item to combine with
        return []
    count = math.prod(map(len, lists)) if permute else len(lists[0])
    size = sum(len(leaf) if isinstance(leaf, str) else 1 for leaf in leaves(template))
    if count > MAX_ITEMS or size * count > MAX_TEXT:
        raise TooLarge(f"gives more than {MAX_ITEMS} items")
    combinations = itertools.product(*lists) if permute else zip(*lists, strict=True)
    names = [str(name) for name in each]
    return [_fill(template, dict(zip(names, values, strict=True)), write) for values in combinations]


def _fill(template: Data, values: Mapping[str, Data], write: Callable[[str, Data], Data]) -> Data:
    match template:
        case dict():
            return {_fill(key, values, write): _fill(value, values, write) for key, value in template.items()}
        case list():
            return [_fill(item, values, write) for item in template]
        case Unknown():
            return write("str_replace", {"template": template, "params": dict(values)})
        case str() if template in values and isinstance(values[template], Unknown | ResourceId):
            return values[template]
        case str():
            if any(not isinstance(value, str | Unknown | ResourceId) for value in values.values()):
                raise BadFunction("takes lists of texts in `for_each`")
            if any(key in template for key, value in values.items() if not isinstance(value, str)):
                return write("str_replace", {"template": template, "params": dict(values)})
            for key, value in values.items():
                if isinstance(value, str):
                    bounded(len(template) + template.count(key) * len(value))
                    template = template.replace(key, value)
    return template


def _filter(arguments: Data) -> Data:
    form = "[values to leave out, list]"
    values, items = items_of(arguments, 2, form)
    if not items:
        return items
    items, values = list_of(items, form), list_of(values or [], form)
    if not any(isinstance(value, dict | list | Unknown | ResourceId) for value in (*values, *items)):
        left_out = set(values)
        return [item for item in items if item not in left_out]
    _pairs(len(values), len(items))
    kept = []
    for item in items:
        found = [same(item, value) for value in values]
        if True not in found:
            if None in found:
                raise Undecided
            kept.append(item)
    return kept


def _contains(arguments: Data) -> Data:
    value, items = items_of(arguments, 2, "[value, list]")
    if isinstance(items, str) and isinstance(value, str):
        return value in items
    found = [same(value, item) for item in list_of(items, "[value, list]")]
    if True not in found and None in found:
        raise Undecided
    return True in found


def _fn_select(arguments: Data) -> Data:
    index, items = items_of(arguments, 2, "[index, list or map]")
    if isinstance(items, Unknown | ResourceId) or isinstance(index, Unknown | ResourceId):
        raise Undecided
    try:
        items = json.loads(items) if isinstance(items, str) and items else items
        if isinstance(items, dict) and isinstance(index, str):
            return items.get(index, "")
        if isinstance(items, list):
            return items[int(index)]  # type: ignore[call-overload]
    except IndexError:
        return ""
    except (ValueError, TypeError, RecursionError):
        pass
    return "" if items in ("", None) else expect("[index, list or map], also as JSON")


def _member_list_to_map(arguments: Data) -> Data:
    form = "[name of keys, name of values, list of `.member.N.name=text`]"
    key, value, items = items_of(arguments, 3, form)
    all_known(arguments)
    texts = list_of(items, form)
    if not all(isinstance(name, str) for name in (key, value)) or not all("=" in str(text) for text in texts):
        expect(form)
    members: dict[int, dict[str, Data]] = {}
    for name, text in dict(str(item).split("=", 1) for item in texts).items():
        if found := re.match(r"\.member\.([0-9]{1,9})\.(.*)", name):
            members.setdefault(int(found[1]), {})[found[2]] = text
    return {member[key]: member[value] for _, member in sorted(members.items()) if key in member and value in member}


def _never(_arguments: Data) -> Data:
    raise Undecided


FUNCTIONS: dict[str, Callable[[Data], Data]] = {
    **TEXTS,
    "list_concat": _list_concat,
    "list_concat_unique": _list_concat_unique,
    "map_merge": _map_merge,
    "map_replace": _map_replace,
    "filter": _filter,
    "contains": _contains,
    "Fn::Select": _fn_select,
    "Fn::MemberListToMap": _member_list_to_map,
    "Fn::GetAZs": _never,
}


def function(name: str, date: str) -> Callable[[Data], Data] | None:
    """The function as the version of HOT of that date has it; None for one that needs more than its arguments."""
    end, older = OLDER_TEXTS.get(name, ("", None))
    return older if date < end else FUNCTIONS.get(name)
