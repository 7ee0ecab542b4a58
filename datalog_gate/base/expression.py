"""Expressions: the functions that unknown values result from.

An expression is a function with its resolved arguments and the stack that they refer to. Expressions are compared by
structure and printed in YAML's flow style: ``{get_attr: [db, ip]} in web``. Nothing reads the text back. In arguments,
a hidden parameter is its expression, never its value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from hashlib import sha256
from typing import NamedTuple

LONGEST = 200
"""The maximum length of an expression's text without its stack. Longer ones are cut and end with a digest."""
DIGEST = 32
"""The number of characters of the digest."""
CUT = "...#"
"""The mark before the digest."""
CONTENT = "content of"
"""The function of the expression for what a template holds."""
QUOTE = '"'
_WORD = re.compile(r"[A-Za-z_](?:[\w.%/:-]*[\w.%/-])?", re.ASCII)
_NO_WORDS = {"true", "false", "null", "yes", "no", "on", "off"}


class Expression:
    """A function over frozen arguments. Two are equal if function, arguments and stack are.

    Arguments are plain data with tuples for lists, `Entries` for maps, and `Expression` for what is unknown or hidden
    and for references to resources. Other expressions than template functions have words as their function, and an
    explicit `text`: ``lower(?'{get_param: name} in web')``. `identity` is the structure as a short text.
    """

    __slots__ = ("_text", "arguments", "function", "identity", "stack")

    def __init__(self, function: str, arguments: Frozen, stack: str = "", text: str | None = None) -> None:
        self.function = function
        self.arguments = arguments
        self.stack = stack
        self._text = text
        identity = repr((function, arguments, stack))
        if len(identity) > LONGEST:  # hashing and comparing must not follow long chains of expressions
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
        """The expression as users read it, with the stack at its end."""
        if self._text is None:
            self._text = cut(f"{{{self.function}: {_flow(self.arguments, self.stack)}}}", self.stack)
        return self._text

    @property
    def templates(self) -> tuple[str, ...]:
        """The unread templates of a `content`; empty for other expressions."""
        names = self.arguments if self.function == CONTENT and isinstance(self.arguments, tuple) else ()
        return tuple(name for name in names if isinstance(name, str))

    def walk(self) -> Iterator[Expression]:
        """Yield this expression and all nested ones, each once."""
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
    """A map, as pairs of key and value in a fixed order."""

    pairs: tuple[tuple[Frozen, Frozen], ...]


class Masked(NamedTuple):
    """A text that contains hidden values: its pieces, with an expression for each hidden value."""

    pieces: tuple[str | Expression, ...]


Frozen = None | bool | int | float | Decimal | str | Expression | Entries | Masked | tuple["Frozen", ...]
Masks = Mapping[str, Expression]
"""Texts of hidden values, each with the expression that stands for it."""


def phrase(words: str) -> Expression:
    """An expression in words, for values that come from no template function: ``the members of crowd``."""
    return Expression("", words, "", words)


def content(*templates: str) -> Expression:
    """The expression for what unread templates hold, named by their addresses or by the paths of their resources."""
    named = templates if len(templates) < 4 else (*templates[:2], f"{len(templates) - 2} more")
    names = " and ".join(filter(None, [", ".join(named[:-1]), named[-1]]))
    verb = "hold" if templates[1:] else "holds"
    return Expression(CONTENT, templates, "", f"what {names} {verb}")


def cut(body: str, stack: str) -> str:
    if len(body) > LONGEST:
        digest = sha256(body.encode(errors="surrogatepass")).hexdigest()[:DIGEST]
        body = f"{body[: LONGEST - 40]}{CUT}{digest}"
    return f"{body} in {stack}"


def _flow(data: Frozen, stack: str) -> str:
    """The arguments in YAML's flow style. Expressions of another stack end with its name."""
    match data:
        case str():
            plain = _WORD.fullmatch(data) and data.lower() not in _NO_WORDS
            return data if plain else json.dumps(data)
        case Expression():
            return data.text.removesuffix(f" in {stack}")
        case Entries(pairs):
            texts = sorted((_flow(key, ""), _flow(value, stack)) for key, value in pairs)
            if len(texts) == 1:  # quoted, so that data is not mistaken for a function
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
