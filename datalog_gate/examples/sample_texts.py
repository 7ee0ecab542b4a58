"""Short texts that patterns match, or that tell patterns apart."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, product
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from datalog_gate.engine.builtins import EvaluationError, holds

MOST, MOST_CHOICES, MOST_REPEATED, MOST_SAMPLES = 12, 40, 6, 200
"""The maximum numbers of samples of a pattern, of a part of it, of what is repeated, and of those that are varied."""
VARIED = "a1-"
"""The letters that are written in place of others."""
LETTERS = "a1-_A.:/ @"
"""The letters that are tried for a class of letters."""
FLAGS = re.compile(r"^\(\?[a-z]+\)")


@lru_cache(maxsize=256)
def sample_pattern(pattern: str) -> tuple[str, ...]:
    """Texts that the pattern probably matches, the shortest first; none for syntax that Python does not know. RE2
    decides."""
    return tuple(sorted(_list_samples(pattern), key=_order)[:MOST])


@lru_cache(maxsize=256)
def tell_apart(matched: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """Texts that all of some patterns match, and none of the others: samples of them all, and what differs from these
    in one letter."""
    samples = [sample for pattern in (*matched, *others) for sample in _list_samples(pattern)]
    texts = dict.fromkeys(text for sample in samples for text in (sample, *_vary(sample)))
    found = (
        text
        for text in sorted(texts, key=_order)
        if all(holds("matches", (text, pattern), False) for pattern in matched)
        and not any(holds("matches", (text, pattern), False) for pattern in others)
    )
    try:
        return tuple(islice(found, MOST))
    except EvaluationError:  # RE2 does not know a pattern, or it is too long
        return ()


def _vary(text: str) -> Iterator[str]:
    """The text with a letter less, twice, changed, or more at an end."""
    for at, letter in enumerate(text):
        before, after = text[:at], text[at + 1 :]
        yield from (before + other + after for other in ("", letter * 2, *VARIED, letter.swapcase()))
    yield from (varied for letter in VARIED for varied in (letter + text, text + letter))


def _order(text: str) -> tuple[bool, int]:
    return " " in text, len(text)


def _list_samples(pattern: str) -> list[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = parser.parse(FLAGS.sub("", pattern).replace("\\z", "\\Z"))
    except (re.error, RecursionError):
        return []
    return [text for text in _take(_sequence(list(parsed)), MOST_SAMPLES) if text.isprintable()]


def _take(texts: Iterable[str], most: int) -> list[str]:
    return list(dict.fromkeys(islice(texts, 4 * most)))[:most]


def _sequence(parts: Sequence[tuple[Any, Any]]) -> Iterator[str]:
    choices = [_take(_part(str(kind), value), MOST_CHOICES) for kind, value in parts]
    usual = [choice[:1] for choice in choices]
    for at, choice in enumerate(choices):
        yield from map("".join, product(*usual[:at], choice, *usual[at + 1 :]))
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
                yield from _take(_sequence(list(branch)), MOST)
        case "SUBPATTERN":
            yield from _sequence(list(value[3]))
        case "MAX_REPEAT" | "MIN_REPEAT":
            yield from _repeated(*value)
        case _:
            yield ""


def _repeated(least: int, most: int, body: Any) -> Iterator[str]:
    for times in (least, least + 1, least + 2, most):
        if times <= most and (times == least or times <= MOST):
            yield from (text * times for text in _take(_sequence(list(body)), MOST_REPEATED))


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
