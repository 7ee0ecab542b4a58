"""Expressions: what an unknown value is the result of.

An expression is a function with its resolved arguments and the stack in which they have their meaning. It is compared
by this structure and printed in one way, as YAML's flow form: ``{get_attr: [db, ip]} in web``. Nothing reads the text
back. Values of hidden parameters stand in the arguments as the parameter's expression, never as their text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from hashlib import sha256
from typing import NamedTuple

LONGEST = 200
"""Characters of an expression's text without its stack; what is longer is cut and has a digest."""
DIGEST = 32
"""Characters of a digest."""
CUT = "...#"
"""What stands before it."""
QUOTE = '"'
_WORD = re.compile(r"[A-Za-z_](?:[\w.%/:-]*[\w.%/-])?", re.ASCII)
_NO_WORDS = {"true", "false", "null", "yes", "no", "on", "off"}


class Expression:
    """A function over frozen arguments; two are equal if function, arguments and stack are.

    Arguments are plain data with tuples for lists, `Entries` for maps, and `Expression` for what is unknown or hidden
    and for references to resources. An expression that is no function of a template has words for a function, and its
    `text` is given: ``lower(?'{get_param: name} in web')``. `identity` is the structure as a short text.
    """

    __slots__ = ("_text", "arguments", "function", "identity", "stack")

    def __init__(self, function: str, arguments: Frozen, stack: str = "", text: str | None = None) -> None:
        self.function = function
        self.arguments = arguments
        self.stack = stack
        self._text = text
        identity = repr((function, arguments, stack))
        if len(identity) > LONGEST:  # so that neither hashing nor comparing follows long chains of expressions
            identity = sha256(identity.encode()).hexdigest()[:DIGEST]
        self.identity = identity

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Expression) and self.identity == other.identity)

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"<{self.identity}>"

    @property
    def text(self) -> str:
        """The expression as users read it, the stack at its end."""
        if self._text is None:
            self._text = cut(f"{{{self.function}: {_flow(self.arguments, self.stack)}}}", self.stack)
        return self._text

    def walk(self) -> Iterator[Expression]:
        """This expression and every one within, each once."""
        seen: set[Expression] = set()
        pending: list[Frozen] = [self]
        while pending:
            match pending.pop():
                case Expression() as part if part not in seen:
                    seen.add(part)
                    yield part
                    pending.append(part.arguments)
                case Entries(pairs) | Masked(pairs) | tuple(pairs):
                    pending.extend(pairs)


class Entries(NamedTuple):
    """A map: its pairs of key and value, in one order."""

    pairs: tuple[tuple[Frozen, Frozen], ...]


class Masked(NamedTuple):
    """A text in which hidden values stand: its pieces, where an expression stands for each of these."""

    pieces: tuple[str | Expression, ...]


Frozen = None | bool | int | float | Decimal | str | Expression | Entries | Masked | tuple["Frozen", ...]
Masks = Mapping[str, Expression]
"""Texts of hidden values, each with the expression that stands for it."""


def phrase(words: str) -> Expression:
    """What is no function of a template, in words: ``the members of crowd``."""
    return Expression("", words, "", words)


def cut(body: str, stack: str) -> str:
    if len(body) > LONGEST:
        digest = sha256(body.encode(errors="surrogatepass")).hexdigest()[:DIGEST]
        body = f"{body[: LONGEST - 40]}{CUT}{digest}"
    return f"{body} in {stack}"


def _flow(data: Frozen, stack: str) -> str:
    """The arguments in YAML's flow form; what belongs to another stack than the expression carries its own."""
    match data:
        case str():
            plain = _WORD.fullmatch(data) and data.lower() not in _NO_WORDS
            return data if plain else json.dumps(data)
        case Expression():
            return data.text.removesuffix(f" in {stack}")
        case Entries(pairs):
            texts = sorted((_flow(key, ""), _flow(value, stack)) for key, value in pairs)
            if len(texts) == 1:  # in quotes, or data that looks like a function would be written like its value
                [(key, value)] = texts
                return f"{{{key if key[0] == QUOTE else json.dumps(key)}: {value}}}"
            return "{" + ", ".join(f"{key}: {value}" for key, value in texts) + "}"
        case Masked(pieces):
            return " + ".join([_flow(piece, stack) for piece in pieces])
        case tuple():
            return "[" + ", ".join([_flow(item, stack) for item in data]) + "]"
        case None | bool():
            return json.dumps(data)
    return str(data)
