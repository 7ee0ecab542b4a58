"""The masks of hidden values, and of texts that hold them.

A hidden value is marked (`Unknown.hidden`), and a `FactSet` marks known values that come from a hidden parameter.
Whatever prints a value, a text or a message masks it with these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar
from urllib.parse import unquote

MASK = "***"
"""Shown instead of a hidden value."""
HEAT_MASK = "******"
"""Shown by Heat instead (heat/engine/service.py:1410-1427), and written to the log."""
_PASSWORD_OPTION = re.compile(r"(?i)password=([^\s&'\"]+)")
_PASSWORD = re.compile(r"(://[^\s/:@]*:)(?!PASSWORD@)\S+(?=@)|((?<=password=)[^\s&'\"]+)", re.IGNORECASE)
T = TypeVar("T")


def masked(text: str, secrets: Iterable[str], mask: str = MASK) -> str:
    """The text with its secrets masked."""
    return "".join(pieces(text, secrets, lambda _: mask))


def mask_urls(text: str) -> str:
    """The text without the passwords of URLs in it."""
    return _PASSWORD.sub(lambda found: (found[1] or "") + MASK, text)


def find_url_secrets(url: str) -> set[str]:
    """The password of a URL, and its parts, since a driver may split it in the wrong place."""
    password = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    parts = {password, unquote(password), *re.split("[@:/?#]", password), *_PASSWORD_OPTION.findall(url)}
    return {part for part in parts if len(part) > 2}


def pieces(text: str, secrets: Iterable[str], mask: Callable[[str], T]) -> list[str | T]:
    """The text in pieces, with `mask(secret)` in place of each secret in it, the longest first."""
    occurring = sorted((secret for secret in secrets if secret in text), key=len, reverse=True)
    return _split(text, occurring, mask)


def _split(text: str, secrets: list[str], mask: Callable[[str], T]) -> list[str | T]:
    if not secrets:
        return [text]
    secret, *others = secrets
    masked_parts: list[str | T] = []
    for number, part in enumerate(text.split(secret)):
        masked_parts += [mask(secret)] if number else []
        masked_parts += _split(part, others, mask) if part else []
    return masked_parts
