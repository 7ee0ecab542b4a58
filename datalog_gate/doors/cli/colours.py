"""Colours of findings, on terminals only."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TextIO

RED, GREEN, YELLOW, MAGENTA, CYAN = 31, 32, 33, 35, 36
WORDS = {"deny": RED, "error": RED, "warn": YELLOW, "warning": YELLOW, "undetermined": MAGENTA}
"""The colours of the first word of a finding; other words are cyan."""
Paint = Callable[[str, int], str]
"""The text in a colour."""


def choose_paint(stream: TextIO) -> Paint:
    """Colours if the stream is a terminal that supports them and `NO_COLOR` is not set, or if `FORCE_COLOR` is."""
    is_plain = not stream.isatty() or os.environ.get("TERM") == "dumb"
    if os.environ.get("NO_COLOR") or (is_plain and not os.environ.get("FORCE_COLOR")):
        return leave_plain
    return lambda text, colour: f"\x1b[1;{colour}m{text}\x1b[0m"


def leave_plain(text: str, _colour: int) -> str:
    """The text without a colour."""
    return text
