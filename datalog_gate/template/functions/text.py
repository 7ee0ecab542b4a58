"""The functions of templates that make or split texts.

The values are those that Heat computes (heat/engine/{hot,cfn}/functions.py). No result is longer than `MAX_TEXT`
characters. Errors: those of `arguments`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable

from datalog_gate.base.unknown import leaves
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
)

MAX_TEXT = 16_000_000
MAX_ITEMS = 500_000


def _str_replace(strict: bool = False, empty: bool = True, nested: bool = True) -> Callable[[Data], Data]:
    def apply(arguments: Data) -> Data:
        if not isinstance(arguments, dict) or not {"template", "params"} <= arguments.keys():
            expect("a map of `template` and `params`")
        return _replace(arguments["template"], arguments["params"], strict, empty, nested)

    return apply


def _fn_replace(arguments: Data) -> Data:
    params, template = items_of(arguments, 2, "[{name: value}, text]")
    return _replace(template, params, nested=False)


def _replace(template: Data, params: Data, strict: bool = False, empty: bool = True, nested: bool = True) -> str:
    if isinstance(template, Unknown | ResourceId) or isinstance(params, Unknown):
        raise Undecided
    if not isinstance(template, str) or not isinstance(params, dict) or not all(isinstance(key, str) for key in params):
        expect("a text as `template` and a map as `params`")
    if "" in params:
        expect("params whose names are not empty")
    if not nested and any(isinstance(value, dict | list) for value in params.values()):
        expect("params that are texts, numbers or booleans")
    if len(template) * len(params) > MAX_TEXT * 8:
        raise TooLarge("searches too much text")
    if strict and (missing := sorted(key for key in params if key not in template)):
        raise BadFunction(f"has params that the template does not name: {', '.join(missing)}")
    texts = {}
    for key in sorted(sorted(params), key=len, reverse=True):
        if not empty:
            all_known(params[key])
        if key in template or not empty:
            all_known(params[key])
            texts[key] = _text(params[key])
            if not empty and (params[key] is None or params[key] in ("", [], {})):
                raise BadFunction(f"has no value for `{key}`")
    pieces, length = [template], len(template)
    used = set()
    for key, value in texts.items():  # longer names first; what was put in is not searched again
        split: list[str] = []
        for index, piece in enumerate(pieces):
            parts = piece.split(key) if index % 2 == 0 else [piece]
            length += (len(parts) - 1) * len(value)
            bounded(max(length, len(split) + len(parts)))
            split += [part for pair in zip(parts, itertools.repeat(value)) for part in pair][:-1]
            if len(parts) > 1:
                used.add(key)
        pieces = split
    if strict and (missing := sorted(set(params) - used)):
        raise BadFunction(f"has params that the template does not name: {', '.join(missing)}")
    return "".join(pieces)


def _list_join(arguments: Data) -> Data:
    form = "[separator, list of texts, ...]"
    if not isinstance(arguments, list) or len(arguments) < 2:
        expect(form)
    items = [item for part in arguments[1:] if part for item in list_of(part, form)]
    return _joined(arguments[0], items, (bool, int, float), form)


def _join(arguments: Data) -> Data:
    form = "[separator, list of texts]"
    separator, items = items_of(arguments, 2, form)
    return _joined(separator, [] if items is None else list_of(items, form), (bool, int, float, dict, list), form)


def _joined(separator: Data, items: list[Data], wrong: tuple[type, ...], form: str) -> str:
    all_known([separator, items])
    if not isinstance(separator, str) or any(isinstance(item, wrong) for item in items):
        expect(form)
    texts = [_text(item) for item in items]
    bounded(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _str_split(arguments: Data) -> Data:
    form = "[separator, text, optional index]"
    if not isinstance(arguments, list) or len(arguments) < 2:
        expect(form)
    all_known(arguments[:3])
    separator, text, *index = arguments
    if text is None:
        return None
    if not isinstance(separator, str | None) or separator == "" or not isinstance(text, str):
        expect(form)
    if separator and text.count(separator) > MAX_ITEMS:
        raise TooLarge(f"gives more than {MAX_ITEMS} items")
    parts: list[Data] = [*text.split(separator)]
    try:
        return parts[int(index[0])] if index else parts
    except (ValueError, IndexError, TypeError):
        raise BadFunction(f"takes an index from 0 to {len(parts) - 1}") from None


def _fn_split(arguments: Data) -> Data:
    form = "[separator, text]"
    if None in items_of(arguments, 2, form):
        expect(form)
    return _str_split(arguments)


def _digest(arguments: Data) -> Data:
    form = "[algorithm, text]"
    algorithm, text = items_of(arguments, 2, form)
    all_known(arguments)
    if not isinstance(algorithm, str) or not isinstance(text, str):
        expect(form)
    try:
        return hashlib.new(algorithm, text.encode("latin-1"), usedforsecurity=False).hexdigest()
    except (ValueError, TypeError):  # no such algorithm, one without a fixed length, or a text beyond latin-1
        raise BadFunction(f"can't digest this text with {algorithm}") from None


def _make_url(arguments: Data) -> Data:
    from urllib.parse import quote, urlencode, urlunsplit

    all_known(arguments)
    names = ("scheme", "username", "password", "host", "port", "path", "query", "fragment")
    if not isinstance(arguments, dict) or arguments.keys() - set(names):
        expect(f"a map of {', '.join(names)}")
    query, port = arguments.get("query", {}), arguments.get("port", "")
    part = {name: value for name in names if isinstance(value := arguments.get(name, ""), str)}
    if len(part | {"port": "", "query": ""}) < len(names) or not isinstance(query, dict) or ":" in part["scheme"]:
        expect("texts, a map as `query`, and a scheme without a colon")
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
    all_known(arguments)
    return arguments if isinstance(arguments, str) else expect("a text")  # Heat encodes it later, and so not here


def _text(value: Data) -> str:
    """What Heat writes for a value inside a text: collections as JSON."""
    if isinstance(value, dict | list):
        bounded(sum(len(leaf) if isinstance(leaf, str) else 8 for leaf in leaves(value)))
        return json.dumps(value, sort_keys=True)
    return "" if value is None else str(value)


def bounded(length: int) -> None:
    """Errors: TooLarge for a text of more than `MAX_TEXT` characters."""
    if length > MAX_TEXT:
        raise TooLarge(f"gives more than {MAX_TEXT} characters")


TEXTS: dict[str, Callable[[Data], Data]] = {
    "str_replace": _str_replace(),
    "str_replace_strict": _str_replace(strict=True),
    "str_replace_vstrict": _str_replace(strict=True, empty=False),
    "str_split": _str_split,
    "list_join": _list_join,
    "digest": _digest,
    "make_url": _make_url,
    "Fn::Join": _join,
    "Fn::Split": _fn_split,
    "Fn::Replace": _fn_replace,
    "Fn::Base64": _fn_base64,
}
OLDER_TEXTS = {"list_join": ("2015-10-15", _join), "str_replace": ("2015-10-15", _str_replace(nested=False))}
"""What those functions were before the version of that date."""
