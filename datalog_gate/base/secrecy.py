"""The masks of hidden values, and of texts that hold them.

A hidden value is marked (`Unknown.hidden`), and a `FactSet` marks known values that come from a hidden parameter.
Whatever prints a value, a text or a message masks it with these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

MASK = "***"
"""Shown instead of a hidden value."""
HEAT_MASK = "******"
"""Shown by Heat instead (heat/engine/service.py:1410-1427), and written to the log."""
T = TypeVar("T")


def masked(text: str, secrets: Iterable[str], mask: str = MASK, words: bool = False) -> str:
    """The text with its secrets masked; with `words` only where they are whole words."""
    return "".join(pieces(text, secrets, lambda _: mask, words))


def pieces(text: str, secrets: Iterable[str], mask: Callable[[str], T], words: bool = False) -> list[str | T]:
    """The text in pieces, with `mask(secret)` in place of each secret in it, the longest first."""
    occurring = sorted((secret for secret in secrets if secret in text), key=len, reverse=True)
    return _split(text, occurring, mask, words)


def _split(text: str, secrets: list[str], mask: Callable[[str], T], words: bool) -> list[str | T]:
    if not secrets:
        return [text]
    secret, *others = secrets
    parts = re.split(rf"(?<!\w){re.escape(secret)}(?!\w)", text) if words else text.split(secret)
    covered: list[str | T] = []
    for number, part in enumerate(parts):
        covered += [mask(secret)] if number else []
        covered += _split(part, others, mask, words) if part else []
    return covered
