"""Offsets, lines and columns of one text, as readers and editors count."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property, lru_cache

from datalog_gate.base.diagnostics import Span
from datalog_gate.editing.answers import TextRange

_EDITORS = re.compile(r"\r\n|\n|\r")
_YAML = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_RULES = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""The line endings: of the protocol, of libyaml, and of `str.splitlines`, which the lexer follows."""


class SourceText:
    """A text of a file. The positions of editors count from 0, and columns in units of UTF-16; spans count from 1, and
    columns in characters."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text

    @cached_property
    def _starts(self) -> list[int]:
        """The offsets of lines as editors count."""
        return _find_starts(self.text, _EDITORS)

    @cached_property
    def _own(self) -> list[int]:
        """The offsets of lines as spans count."""
        return _find_starts(self.text, _RULES if self.file.endswith(".dl") else _YAML)

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column of an offset, as editors count."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self._starts, offset) - 1
        return line, units(self.text[self._starts[line] : offset])

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and column as editors count. A column beyond the end of the line means its end."""
        if line >= len(self._starts):
            return len(self.text)
        start = self._starts[line]
        end = self._starts[line + 1] if line + 1 < len(self._starts) else len(self.text)
        content = self.text[start:end].rstrip("\r\n")
        if content.isascii():
            return start + min(column, len(content))
        passed = 0
        for at, character in enumerate(content):
            if passed >= column:
                return start + at
            passed += units(character)
        return start + len(content)

    def range(self, span: Span | None) -> TextRange:
        """The range of a span. Without one, or outside the text, the nearest range."""
        if span is None or not span.line:
            return TextRange(self.file, 0, 0)
        start = self._at(span.line, span.column)
        return TextRange(self.file, start, max(start, self._at(span.end_line, span.end_column)))

    def _at(self, line: int, column: int) -> int:
        if line > len(self._own):
            return len(self.text)
        return min(self._own[line - 1] + column - 1, len(self.text))


@lru_cache(maxsize=64)
def source_text(file: str, text: str) -> SourceText:
    """The text of a file. Cached, so that its lines are counted once."""
    return SourceText(file, text)


def units(text: str) -> int:
    """The length of a text in UTF-16 units."""
    return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)


def _find_starts(text: str, breaks: re.Pattern[str]) -> list[int]:
    return [0, *(match.end() for match in breaks.finditer(text))]
