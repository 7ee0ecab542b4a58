"""Colours of findings, on terminals only."""

from __future__ import annotations

import os
import re
from typing import TextIO

RED, GREEN, YELLOW, MAGENTA, CYAN = 31, 32, 33, 35, 36
WORDS = {"deny": RED, "error": RED, "warn": YELLOW, "warning": YELLOW, "undetermined": MAGENTA}
"""The colours of the first word of a finding; other words are cyan."""
_FINDING = re.compile(r"^((?:\S.*?: )?)([a-z]+)(?=\[[^\]\s]+\] )", re.MULTILINE)
_UNDERLINE = re.compile(r"^( +\| *)(\^+)$", re.MULTILINE)


def coloured(text: str, stream: TextIO) -> str:
    """The text with colours, if the stream is a terminal that supports them and `NO_COLOR` is not set."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    text = _FINDING.sub(lambda match: f"{match[1]}{_paint(match[2], WORDS.get(match[2], CYAN))}", text)
    return _UNDERLINE.sub(lambda match: f"{match[1]}{_paint(match[2], GREEN)}", text)


def _paint(text: str, colour: int) -> str:
    return f"\x1b[1;{colour}m{text}\x1b[0m"
