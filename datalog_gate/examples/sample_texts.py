"""Texts that a pattern matches, short ones."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice, product
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

MOST = 12
"""The maximum number of samples of a part of a pattern."""
LETTERS = "a1-_A.:/ @"
"""The letters that are tried for a class of letters."""
FLAGS = re.compile(r"^\(\?[a-z]+\)")


@lru_cache(maxsize=256)
def sample_pattern(pattern: str) -> tuple[str, ...]:
    """Texts that the pattern probably matches, the shortest first; none for syntax that Python does not know. RE2
    decides."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = parser.parse(FLAGS.sub("", pattern).replace("\\z", "\\Z"))
    except (re.error, RecursionError):
        return ()
    texts = islice(_sequence(list(parsed)), MOST * MOST)
    printable = [text for text in dict.fromkeys(texts) if text.isprintable()]
    return tuple(sorted(printable, key=lambda text: (" " in text, len(text)))[:MOST])


def _sequence(parts: Sequence[tuple[Any, Any]]) -> Iterator[str]:
    choices = [list(islice(_part(str(kind), value), MOST)) for kind, value in parts]
    yield from map("".join, product(*choices))


def _part(kind: str, value: Any) -> Iterator[str]:
    match kind:
        case "LITERAL":
            yield chr(value)
        case "NOT_LITERAL":
            yield from (letter for letter in LETTERS if ord(letter) != value)
        case "ANY":
            yield from LETTERS
        case "IN":
            yield from _class(value)
        case "BRANCH":
            for branch in value[1]:
                yield from islice(_sequence(list(branch)), 4)
        case "SUBPATTERN":
            yield from _sequence(list(value[3]))
        case "MAX_REPEAT" | "MIN_REPEAT":
            yield from _repeated(*value)
        case _:
            yield ""


def _repeated(least: int, most: int, body: Any) -> Iterator[str]:
    for times in (least, least + 1, least + 2):
        if times <= most:
            yield from (text * times for text in islice(_sequence(list(body)), 3))


def _class(items: Sequence[tuple[Any, Any]]) -> Iterator[str]:
    first = str(items[0][0])
    pattern = {"NEGATE": "[^"}.get(first, "[") + "".join(_item(str(kind), value) for kind, value in items) + "]"
    yield from (letter for letter in LETTERS if re.fullmatch(pattern, letter))
    yield from (chr(value) for kind, value in items if str(kind) == "LITERAL" and first != "NEGATE")
    yield from (chr(value[0]) for kind, value in items if str(kind) == "RANGE" and first != "NEGATE")


def _item(kind: str, value: Any) -> str:
    match kind:
        case "LITERAL":
            return re.escape(chr(value))
        case "RANGE":
            return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
        case "CATEGORY":
            letter = str(value).rpartition("_")[2][0].lower()  # CATEGORY_DIGIT, CATEGORY_NOT_SPACE
            return f"\\{letter.upper() if '_NOT_' in str(value) else letter}"
    return ""
