"""How an unknown is written: equal text, equal value (layer 2).

In: a function with its resolved arguments. Out: `Unknown` values. The text is YAML's flow form, maps sorted by key,
then `` in `` and the stack of the first unknown within; a part of another stack carries its own. So a value has the
same text wherever in the tree it was computed. Values of hidden parameters are written as the parameter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import FALSE, TRUE, ResourceId, Unknown, bases
from datalog_gate.stack.model import Data

LONGEST = 200
QUOTE = '"'
UNREAD = ("yaql", "Fn::GetAZs")
"""Functions that Heat may compute where this reader does not: what they give, a user can choose."""
TEXTS = ("str_replace", "str_replace_strict", "str_replace_vstrict", "list_join", "digest", "Fn::Join", "Fn::Replace")
"""Functions that give a text, whatever they get."""
LOGIC = ("equals", "not", "and", "or", "Fn::Equals", "Fn::Not", "Fn::And", "Fn::Or")
"""Functions that give a truth value, whatever they get."""
_WORD = re.compile(r"[A-Za-z_](?:[\w.%/:-]*[\w.%/-])?", re.ASCII)
_NO_WORDS = {"true", "false", "null", "yes", "no", "on", "off"}

Secrets = Mapping[str, str]
"""Texts of hidden values, each with the expression that stands for it."""


def unknown(function: str, arguments: Data, stack: str, secrets: Secrets, place: Span | None) -> Unknown:
    """The value of `function` over resolved `arguments`, of which some are unknown, in the stack of that id."""
    within = [leaf for leaf in leaves(arguments) if isinstance(leaf, Unknown | ResourceId)]
    home = next(map(_expression, within), f" in {stack}").rpartition(" in ")[2]
    unknowns = [leaf for leaf in within if isinstance(leaf, Unknown)]
    return Unknown(
        _cut(f"{{{function}: {_flow(arguments, home, secrets)}}}", home),
        place,
        unread=function in UNREAD or any(unknown.unread for unknown in unknowns),
        scalar=function in TEXTS,
        of=bases(unknowns),
        domain=(FALSE, TRUE) if function in LOGIC else (),
    )


def as_text(resource: ResourceId) -> Unknown:
    """A resource's reference where a text is made of it: nobody knows the text yet."""
    stack, _, name = resource.path.rpartition("/")
    return Unknown(f"{{get_resource: {_text(name, stack, {})}}} in {stack}")


def of_member(leaf: Unknown, variable: str, index: str) -> Unknown:
    """The unknown that a group's definition holds, as its member `index` sees it."""
    body, _, home = leaf.expression.rpartition(" in ")
    if variable in body:
        return replace(leaf, expression=_cut(body.replace(variable, index), home))
    return replace(leaf, expression=_cut(f"{body} at {index}", home)) if "...#" in body else leaf


def leaves(data: Data, keys: bool = False) -> Iterator[Data]:
    """Every scalar of the data, in order; with `keys` also the keys of maps."""
    pending = [data]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            pending.extend(reversed(one.values()))
            pending.extend(one if keys else ())
        elif isinstance(one, list):
            pending.extend(reversed(one))
        else:
            yield one


def undecided(data: Data) -> bool:
    """Whether something in the data is not known; a resource's reference counts as known."""
    return any(isinstance(leaf, Unknown) for leaf in leaves(data))


def _cut(body: str, home: str) -> str:
    if len(body) <= LONGEST:
        return f"{body} in {home}"
    digest = sha256(body.encode(errors="surrogatepass")).hexdigest()[:32]
    return f"{body[: LONGEST - 40]}...#{digest} in {home}"


def _expression(leaf: Unknown | ResourceId) -> str:
    return as_text(leaf).expression if isinstance(leaf, ResourceId) else leaf.expression


def _flow(data: Data, home: str, secrets: Secrets) -> str:
    match data:
        case str():
            return _text(data, home, secrets)
        case Unknown() | ResourceId():
            return _expression(data).removesuffix(f" in {home}")
        case dict():
            pairs = sorted((_flow(key, "", secrets), _flow(value, home, secrets)) for key, value in data.items())
            if len(pairs) == 1:  # in quotes, or data that looks like a function would be written like its value
                [(key, value)] = pairs
                return f"{{{key if key[0] == QUOTE else json.dumps(key)}: {value}}}"
            return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        case list():
            return "[" + ", ".join([_flow(item, home, secrets) for item in data]) + "]"
        case None | bool():
            return json.dumps(data)
        case _:
            return secrets.get(str(data), str(data)).removesuffix(f" in {home}")


def _text(text: str, home: str, secrets: Secrets) -> str:
    for secret in sorted(secrets, key=len, reverse=True) if secrets else ():
        if secret in text:
            name = secrets[secret].removesuffix(f" in {home}")
            pieces = [piece for part in text.split(secret) for piece in (name, part and _text(part, home, secrets))]
            return " + ".join(piece for piece in pieces[1:] if piece)
    plain = _WORD.fullmatch(text) and text.lower() not in _NO_WORDS
    return text if plain else json.dumps(text)
