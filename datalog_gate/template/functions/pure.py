"""The functions of templates that depend only on their arguments.

They compute the same values as Heat (heat/engine/{hot,cfn}/functions.py). No text is longer than `MAX_TEXT` characters.
Those whose work is more than their arguments and their result spend steps of the reading.
Errors: BadFunction, with the correct form of the arguments; Undecided if the value depends on an unknown.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Never

from datalog_gate.base.unknown import leaves, undecided
from datalog_gate.base.values import ResourceId, Unknown
from datalog_gate.stack.model import Data
from datalog_gate.template.document import Spend, steps_of

MAX_TEXT = 16_000_000
MAX_ITEMS = 500_000
MAX_PAIRS = 100_000
"""The maximum number of compared pairs, since comparing all values takes quadratic time."""
_SEARCHED = 400
"""The characters of a text that a search of it looks at in one step."""
_PART_OF_ID = re.compile("[0-9a-f-]*")
"""What may be replaced in the id of a resource, which is a UUID as a rule."""
_FIRST_MARK, _MARKS = 0xF0000, 0x1FFFE
"""The first character for private use beyond the usual ones, and how many follow."""


class BadFunction(Exception):  # noqa: N818 - not every wrong argument is an error of ours
    """Invalid arguments of a function: the correct form, or what is wrong with the `part` of them that is at `{}`."""

    def __init__(self, message: str, part: object = None) -> None:
        super().__init__(message)
        self.part = part


class TooLarge(BadFunction):
    """A result beyond all limits."""


class Undecided(Exception):  # noqa: N818 - an answer, not an error
    """The value is unknown. `unknown`, if given, is the only unknown that it depends on."""


def function(name: str, date: str, spend: Spend) -> Callable[[Data], Data] | None:
    """The function in the version of HOT with that date; None if it needs more than its arguments."""
    end, older = OLDER.get(name, ("", _stay_undecided))
    compute = older if date < end else FUNCTIONS.get(name)
    return partial(compute, spend=spend) if compute and name in _SPENDING else compute


def same(left: Data, right: Data) -> bool | None:
    """Whether two values are equal; None if that is not known."""
    if isinstance(left, Unknown | ResourceId) or isinstance(right, Unknown | ResourceId):
        return True if left == right else None  # another resource may be equal, or a text equal to its reference
    match left, right:
        case dict(), dict() if left.keys() == right.keys():
            pairs = [(value, right[key]) for key, value in left.items()]
        case list(), list() if len(left) == len(right):
            pairs = [*zip(left, right, strict=True)]
        case _:
            return bool(left == right)
    truths = [same(*pair) for pair in pairs]
    return False if False in truths else None if None in truths else True


def select(data: Data, steps: list[Data], parse: bool = False) -> Data:
    """The part at the steps, or if `parse` at texts. Errors: LookupError, TypeError, ValueError, Undecided."""
    for step in steps:
        if isinstance(data, Unknown | ResourceId) or isinstance(step, Unknown | ResourceId):
            raise Undecided
        if not isinstance(data, dict | list | str) or not isinstance(step, str | int):
            raise LookupError(step)
        data = data[int(step) if parse and not isinstance(data, dict) else step]  # type: ignore[index]
    return data


def repeat(arguments: Data, date: str, write: Callable[[str, Data], Data], spend: Spend) -> Data:
    """The function `repeat` in the version of HOT with that date: maps came with 2016-10-14, `permutations` with
    2017-09-01. `write` returns the text for a function over partly unknown arguments."""
    form = "`for_each`, a map of lists, and `template`"
    if not isinstance(arguments, dict) or not {"for_each", "template"} <= arguments.keys():
        _expect(form)
    each, template = _expect_map(arguments["for_each"], form), arguments["template"]
    permute = arguments.get("permutations", True) if date >= "2017-09-01" else True
    if not isinstance(permute, bool) or not each or not all(isinstance(key, str) for key in each):
        _expect(form)
    maps = permute and date >= "2016-10-14"
    lists = [
        list(items) if isinstance(items, dict) and maps else _expect_list(items, form)
        for items in each.values()
        if items is not None
    ]
    if not permute and len({len(items) for items in lists}) > 1:
        raise BadFunction("takes lists of one length where permutations is false")
    if len(lists) < len(each):  # a missing list has no item to combine with
        return []
    count = math.prod(map(len, lists)) if permute else len(lists[0])
    size = sum(len(leaf) if isinstance(leaf, str) else 1 for leaf in leaves(template))
    if count > MAX_ITEMS or size * count > MAX_TEXT:
        raise TooLarge(f"gives more than {MAX_ITEMS} items")
    combinations = itertools.product(*lists) if permute else zip(*lists, strict=True)
    names = [str(name) for name in each]
    return [_fill(template, dict(zip(names, values, strict=True)), write, spend) for values in combinations]


def _fill(template: Data, values: Mapping[str, Data], write: Callable[[str, Data], Data], spend: Spend) -> Data:
    spend(2 + 2 * len(values))
    match template:
        case dict():
            return {
                _fill(key, values, write, spend): _fill(value, values, write, spend) for key, value in template.items()
            }
        case list():
            return [_fill(item, values, write, spend) for item in template]
        case Unknown():
            return write("str_replace", {"template": template, "params": dict(values)})
        case str() if template in values and isinstance(values[template], Unknown | ResourceId):
            return values[template]
        case str() | ResourceId():
            if any(not isinstance(value, str | Unknown | ResourceId) for value in values.values()):
                raise BadFunction("takes lists of texts in `for_each`")
            if isinstance(template, ResourceId):
                in_id = any(map(_PART_OF_ID.fullmatch, values))
                return write("str_replace", {"template": template, "params": dict(values)}) if in_id else template
            if any(key in template for key, value in values.items() if not isinstance(value, str)):
                return write("str_replace", {"template": template, "params": dict(values)})
            for key, value in values.items():
                if isinstance(value, str):
                    _check_length(length := len(template) + template.count(key) * len(value))
                    spend(length // _SEARCHED)
                    template = template.replace(key, value)
    return template


def _expect(form: str) -> Never:
    raise BadFunction(f"takes {form}")


def require_known(data: Data) -> None:
    """Check that a value can be converted to text: a reference is known, but its text is not. Errors: Undecided."""
    if any(isinstance(leaf, Unknown | ResourceId) for leaf in leaves(data)):
        raise Undecided


def _expect_items(arguments: Data, count: int, form: str) -> list[Data]:
    if not isinstance(arguments, list) or len(arguments) != count:
        _expect(form)
    return arguments


def _expect_list(value: Data, form: str) -> list[Data]:
    if isinstance(value, Unknown | ResourceId):
        raise Undecided
    return value if isinstance(value, list) else _expect(form)


def _expect_map(value: Data, form: str) -> Mapping[Data, Data]:
    """An argument as a map; null means an empty one."""
    if isinstance(value, Unknown | ResourceId):
        raise Undecided
    if value is not None and not isinstance(value, dict):
        _expect(form)
    return value or {}


def _check_length(length: int) -> None:
    if length > MAX_TEXT:
        raise TooLarge(f"gives more than {MAX_TEXT} characters")


def _str_replace(arguments: Data, spend: Spend, strict: bool = False, empty: bool = True, nested: bool = True) -> Data:
    if not isinstance(arguments, dict) or not {"template", "params"} <= arguments.keys():
        _expect("a map of `template` and `params`")
    return _replace(arguments["template"], arguments["params"], spend, strict, empty, nested)


def _fn_replace(arguments: Data, spend: Spend) -> Data:
    params, template = _expect_items(arguments, 2, "[{name: value}, text]")
    return _replace(template, params, spend, nested=False)


def _replace(
    template: Data, params: Data, spend: Spend, strict: bool = False, empty: bool = True, nested: bool = True
) -> str:
    if isinstance(template, Unknown | ResourceId) or isinstance(params, Unknown):
        raise Undecided
    if not isinstance(template, str) or not isinstance(params, dict) or not all(isinstance(key, str) for key in params):
        _expect("a text as `template` and a map as `params`")
    if "" in params:
        _expect("params whose names are not empty")
    if not nested and any(isinstance(value, dict | list) for value in params.values()):
        _expect("params that are texts, numbers or booleans")
    if len(template) * len(params) > MAX_TEXT * 8 or len(params) > _MARKS // 2:
        raise TooLarge("searches too much text")
    spend(len(params) * (4 + len(template) // _SEARCHED))
    if strict and (missing := sorted(key for key in params if key not in template)):
        raise BadFunction("has params that the template does not name: {}", ", ".join(missing))
    texts = {}
    for key in sorted(sorted(params), key=len, reverse=True):
        if key in template or not empty:
            require_known(params[key])
            texts[key] = _text(params[key])
            if not empty and (params[key] is None or params[key] in ("", [], {})):
                raise BadFunction("has no value for `{}`", key)
    taken, length = set("".join((template, *texts))), len(template)
    marks = (mark for mark in map(chr, range(_FIRST_MARK, _FIRST_MARK + _MARKS)) if mark not in taken)
    inserted: dict[str, str] = {}
    used = set()
    for (key, value), mark in zip(texts.items(), marks, strict=False):  # longer names first
        if found := template.count(key):
            used.add(key)
            length += found * len(value)
            _check_length(length)
            template = template.replace(key, mark)  # so that inserted texts are not searched
            inserted[mark] = value
    if strict and (missing := sorted(set(params) - used)):
        raise BadFunction("has params that the template does not name: {}", ", ".join(missing))
    return re.sub(f"[{''.join(inserted)}]", lambda mark: inserted[mark[0]], template) if inserted else template


def _list_join(arguments: Data) -> Data:
    form = "[separator, list of texts, ...]"
    if not isinstance(arguments, list) or len(arguments) < 2:
        _expect(form)
    items = [item for part in arguments[1:] if part for item in _expect_list(part, form)]
    return _join_texts(arguments[0], items, (bool, int, float), form)


def _join(arguments: Data) -> Data:
    form = "[separator, list of texts]"
    separator, items = _expect_items(arguments, 2, form)
    items = [] if items is None else _expect_list(items, form)
    return _join_texts(separator, items, (bool, int, float, dict, list), form)


def _join_texts(separator: Data, items: list[Data], wrong: tuple[type, ...], form: str) -> str:
    require_known([separator, items])
    if not isinstance(separator, str) or any(isinstance(item, wrong) for item in items):
        _expect(form)
    texts = [_text(item) for item in items]
    _check_length(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _str_split(arguments: Data) -> Data:
    form = "[separator, text, optional index]"
    if not isinstance(arguments, list) or len(arguments) < 2:
        _expect(form)
    require_known(arguments[:3])
    separator, text, *index = arguments
    if text is None:
        return None
    if not isinstance(separator, str | None) or separator == "" or not isinstance(text, str):
        _expect(form)
    if separator and text.count(separator) > MAX_ITEMS:
        raise TooLarge(f"gives more than {MAX_ITEMS} items")
    parts: list[Data] = [*text.split(separator)]
    try:
        return parts[int(index[0])] if index else parts
    except (ValueError, IndexError, TypeError):
        raise BadFunction("takes an index from 0 to {}", len(parts) - 1) from None


def _fn_split(arguments: Data) -> Data:
    form = "[separator, text]"
    if None in _expect_items(arguments, 2, form):
        _expect(form)
    return _str_split(arguments)


def _digest(arguments: Data) -> Data:
    form = "[algorithm, text]"
    algorithm, text = _expect_items(arguments, 2, form)
    require_known(arguments)
    if not isinstance(algorithm, str) or not isinstance(text, str):
        _expect(form)
    try:
        return hashlib.new(algorithm, text.encode("latin-1"), usedforsecurity=False).hexdigest()
    except (ValueError, TypeError):  # no such algorithm, one without a fixed length, or a text beyond latin-1
        raise BadFunction("can't digest this text with {}", algorithm) from None


def _make_url(arguments: Data) -> Data:
    from urllib.parse import quote, urlencode, urlunsplit

    require_known(arguments)
    names = ("scheme", "username", "password", "host", "port", "path", "query", "fragment")
    if not isinstance(arguments, dict) or arguments.keys() - set(names):
        _expect(f"a map of {', '.join(names)}")
    query, port = arguments.get("query", {}), arguments.get("port", "")
    part = {name: value for name in names if isinstance(value := arguments.get(name, ""), str)}
    if len(part | {"port": "", "query": ""}) < len(names) or not isinstance(query, dict) or ":" in part["scheme"]:
        _expect("texts, a map as `query`, and a scheme without a colon")
    try:
        if "port" in arguments and not 0 < int(port) <= 65535:
            raise ValueError
    except (ValueError, TypeError):
        raise BadFunction("takes a port from 1 to 65535") from None
    user, password = quote(part["username"], safe=""), quote(part["password"], safe="")
    host = part["host"][1:-1] if part["host"].startswith("[") and part["host"].endswith("]") else part["host"]
    host = f"[{quote(host, safe=':')}]" if ":" in host else quote(host, safe=":")
    login = f"{user}{password and ':' + password}@" if user or password else ""
    location = login + host + (f":{port}" if port else "")
    searched = urlencode({str(key): value for key, value in query.items()}).replace("%2F", "/")
    return urlunsplit((part["scheme"], location, quote(part["path"]), searched, quote(part["fragment"])))


def _fn_base64(arguments: Data) -> Data:
    require_known(arguments)
    return arguments if isinstance(arguments, str) else _expect("a text")  # Heat encodes it later, not here


def _list_concat(arguments: Data) -> list[Data]:
    form = "a list of lists"
    return [item for part in _expect_list(arguments, form) if part is not None for item in _expect_list(part, form)]


def _list_concat_unique(arguments: Data, spend: Spend) -> Data:
    if undecided(items := _list_concat(arguments)):
        raise Undecided
    number = sum(isinstance(item, dict | list) for item in items)
    _check_pairs(number, number)
    spend(number * number // 32)
    unique: list[Data] = []
    seen, nested = set(), list[Data]()
    for item in items:
        if isinstance(item, dict | list):
            if item in nested:
                continue
            nested.append(item)
        elif item in seen:
            continue
        else:
            seen.add(item)
        unique.append(item)
    return unique


def _check_pairs(left: int, right: int) -> None:
    if left * right > MAX_PAIRS:
        raise TooLarge(f"compares more than {MAX_PAIRS} pairs of values")


def _map_merge(arguments: Data) -> Data:
    merged: dict[Data, Data] = {}
    for part in _expect_list(arguments, "a list of maps"):
        merged.update(_expect_map(part, "a list of maps"))
    return merged


def _map_replace(arguments: Data) -> Data:
    form = "[map, {keys: map, values: map}]"
    source, changes = (_expect_map(item, form) for item in _expect_items(arguments, 2, form))
    if changes.keys() - {"keys", "values"}:
        _expect(form)
    keys, values = (_expect_map(changes.get(name), form) for name in ("keys", "values"))
    if undecided(keys) or (values and any(isinstance(value, Unknown | ResourceId) for value in source.values())):
        raise Undecided
    result: dict[Data, Data] = {}
    for key, value in source.items():
        name = key if keys.get(key) is None else keys[key]
        if isinstance(name, dict | list):
            _expect(form)
        if name != key and (name in source or name in result):
            raise BadFunction("gives the key `{}` twice", name)
        result[name] = value if isinstance(value, dict | list) else values.get(value, value)
    return result


def _filter(arguments: Data, spend: Spend) -> Data:
    form = "[values to leave out, list]"
    values, items = _expect_items(arguments, 2, form)
    if not items:
        return items
    items, values = _expect_list(items, form), _expect_list(values or [], form)
    if not any(isinstance(value, dict | list | Unknown | ResourceId) for value in (*values, *items)):
        left_out = set(values)
        return [item for item in items if item not in left_out]
    _check_pairs(len(values), len(items))
    spend(2 * len(values) * steps_of(items))
    kept = []
    for item in items:
        truths = [same(item, value) for value in values]
        if True not in truths:
            if None in truths:
                raise Undecided
            kept.append(item)
    return kept


def _contains(arguments: Data) -> Data:
    value, items = _expect_items(arguments, 2, "[value, list]")
    if isinstance(items, str) and isinstance(value, str):
        return value in items
    truths = [same(value, item) for item in _expect_list(items, "[value, list]")]
    if True not in truths and None in truths:
        raise Undecided
    return True in truths


def _fn_select(arguments: Data) -> Data:
    index, items = _expect_items(arguments, 2, "[index, list or map]")
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
    return "" if items in ("", None) else _expect("[index, list or map], also as JSON")


def _member_list_to_map(arguments: Data) -> Data:
    form = "[name of keys, name of values, list of `.member.N.name=text`]"
    key, value, items = _expect_items(arguments, 3, form)
    require_known(arguments)
    texts = _expect_list(items, form)
    if not all(isinstance(name, str) for name in (key, value)) or not all("=" in str(text) for text in texts):
        _expect(form)
    members: dict[int, dict[str, Data]] = {}
    for name, text in dict(str(item).split("=", 1) for item in texts).items():
        if named := re.match(r"\.member\.([0-9]{1,9})\.(.*)", name):
            members.setdefault(int(named[1]), {})[named[2]] = text
    return {member[key]: member[value] for _, member in sorted(members.items()) if key in member and value in member}


def _stay_undecided(_arguments: Data) -> Data:
    raise Undecided


def _text(value: Data) -> str:
    """The text that Heat writes for a value inside a text: collections as JSON."""
    if isinstance(value, dict | list):
        _check_length(sum(len(leaf) if isinstance(leaf, str) else 8 for leaf in leaves(value)))
        try:
            return json.dumps(value, sort_keys=True)
        except TypeError:
            raise BadFunction("writes no map whose keys are texts and others") from None
    return "" if value is None else str(value)


FUNCTIONS: dict[str, Callable[..., Data]] = {
    "str_replace": _str_replace,
    "str_replace_strict": partial(_str_replace, strict=True),
    "str_replace_vstrict": partial(_str_replace, strict=True, empty=False),
    "str_split": _str_split,
    "list_join": _list_join,
    "digest": _digest,
    "make_url": _make_url,
    "list_concat": _list_concat,
    "list_concat_unique": _list_concat_unique,
    "map_merge": _map_merge,
    "map_replace": _map_replace,
    "filter": _filter,
    "contains": _contains,
    "Fn::Join": _join,
    "Fn::Split": _fn_split,
    "Fn::Replace": _fn_replace,
    "Fn::Base64": _fn_base64,
    "Fn::Select": _fn_select,
    "Fn::MemberListToMap": _member_list_to_map,
    "Fn::GetAZs": _stay_undecided,
}
OLDER: dict[str, tuple[str, Callable[..., Data]]] = {
    "list_join": ("2015-10-15", _join),
    "str_replace": ("2015-10-15", partial(_str_replace, nested=False)),
}
"""The functions before the version with that date."""
_SPENDING = {"str_replace", "str_replace_strict", "str_replace_vstrict", "Fn::Replace", "filter", "list_concat_unique"}
