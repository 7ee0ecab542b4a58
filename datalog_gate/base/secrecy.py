"""The masks of hidden values, and of texts that hold them.

A value that is hidden says so itself (`Unknown.hidden`), and a `FactSet` marks the known values that came from a hidden
parameter. Whatever prints a value, a text or a message masks it with these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

MASK = "***"
"""What is shown in place of a hidden value."""
HEAT_MASK = "******"
"""What Heat shows there (heat/engine/service.py:1410-1427), and so does the log."""
T = TypeVar("T")


def masked(text: str, secrets: Iterable[str], mask: str = MASK, words: bool = False) -> str:
    """The text with a mask for each of the secrets in it; with `words` only for those that stand in it as words."""
    return "".join(pieces(text, secrets, lambda _: mask, words))


def pieces(text: str, secrets: Iterable[str], mask: Callable[[str], T], words: bool = False) -> list[str | T]:
    """The text in pieces, with what `mask` gives for each of the secrets in it, the longest first."""
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
