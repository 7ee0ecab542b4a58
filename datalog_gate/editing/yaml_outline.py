"""The keys and values of YAML that is being written.

It accepts text that the document reader refuses, and may take a line of a multi-line text for a key. So it is used only
to find places and names, never to judge.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import PurePath

from datalog_gate.base.records import dataclass, replace
from datalog_gate.editing.answers import Completion, TextRange, fitting

Path = tuple[str | int, ...]
_KEY = re.compile(r"""(?:"([^"\n]*)"|'([^'\n]*)'|([^\s#{}\[\],"'&*!|>%@`-][^\n]*?|-[^\s][^\n]*?))[ \t]*:(?=\s|$)""")
_SCALAR = re.compile(r"""[ \t]*(?:[&!][^\s]*[ \t]+)*("(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?|(?:(?![ \t]\#)[^\n])*)""")
_FLOW_SCALAR = re.compile(
    r"""[ \t]*("(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?|(?:[^\s,\[\]{}:]|:(?=[^\s,\[\]{}])|[ \t]+(?=[^\s,\[\]{}:\#]))+)"""
)
_COLON = re.compile(r"[ \t]*:")
_WORD = re.compile(r"""[^\s,\[\]{}"']*""")
_MARK = "\ue000"
"""Stands for the word at the cursor while its slot is searched."""


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A key of a mapping, or a member of a list, with its scalar if there is one."""

    path: Path
    start: int
    end: int
    """The end of the key; for a member, start and end are both at its dash or value."""
    value: str = ""
    value_start: int = -1
    """The start of its scalar; -1 without one."""
    value_end: int = -1
    column: int = -1
    """The column of a key on its own line; -1 within brackets."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a word: as a key below the path, as its value, or either."""

    path: Path
    is_key: bool
    is_value: bool
    start: int
    end: int


@lru_cache(maxsize=32)
def read_outline(text: str) -> tuple[OutlineEntry, ...]:
    """The entries of a text in order."""
    return tuple(_Outline(text).read())


def slot_at(text: str, offset: int) -> Slot:
    """The slot at the cursor, with the word there."""
    start = offset
    while start and _WORD.fullmatch(text[start - 1]):
        start -= 1
    word = _WORD.match(text, offset)
    end = word.end() if word else offset
    while end > offset and text[end - 1] == ":":
        end -= 1
    marked = text[:start] + _MARK + text[end:]
    for entry in read_outline(marked):
        if entry.start <= start < entry.end:
            return Slot(entry.path[:-1], True, False, start, end)
        if entry.value_start <= start < max(entry.value_end, entry.value_start + 1) and entry.value_start >= 0:
            return Slot(entry.path, isinstance(entry.path[-1], int), True, start, end)
    return Slot((), True, False, start, end)


def fit_slot(
    slot: Slot, path: PurePath, text: str, offset: int, offered: Iterable[Completion]
) -> tuple[TextRange, list[Completion]]:
    """The completions that fit a slot, without existing keys, and the word that they replace. Each inserts what the
    text around it leaves out: a colon, and the quotes of JSON."""
    entries = read_outline(text) if slot.is_key else ()
    existing = {entry.path[-1] for entry in entries if entry.path[:-1] == slot.path and entry.start != slot.start}
    is_quoted = text[slot.start - 1 : slot.start] in ("'", '"')
    is_plain = is_quoted or bool(_COLON.match(text, slot.end))
    is_json = text.lstrip()[:1] == "{" and not is_quoted

    def fit(completion: Completion) -> Completion:
        label, end = completion.label, "" if is_plain else completion.text.removeprefix(completion.label)
        quote = '"' if is_json and (completion.insert or label not in ("true", "false")) else ""
        return replace(completion, insert=f"{quote}{label}{quote}{end}")

    fits = map(fit, (completion for completion in offered if completion.label not in existing))
    return TextRange(str(path), slot.start, slot.end), fitting(fits, text[slot.start : offset])


def entry_at(text: str, offset: int) -> tuple[OutlineEntry, bool] | None:
    """The entry whose key or value contains the offset, and whether it is the value."""
    for entry in read_outline(text):
        if entry.start <= offset <= entry.end and entry.end > entry.start:
            return entry, False
        if 0 <= entry.value_start <= offset <= entry.value_end:
            return entry, True
    return None


class _Outline:
    def __init__(self, text: str) -> None:
        self.text = text
        self.open: list[tuple[int, bool, Path]] = []
        """The column of each open key or dash, whether it is a dash, and its path."""
        self.counts = Counter[Path]()
        self.entries: list[OutlineEntry] = []

    def read(self) -> list[OutlineEntry]:
        at = 0
        hidden = -1
        while at < len(self.text):
            line_end = self._line_end(at)
            content = at + len(self.text[at:line_end]) - len(self.text[at:line_end].lstrip(" "))
            if hidden >= 0 and (content - at > hidden or content == line_end):
                at = line_end + 1
                continue
            hidden = -1
            if content < line_end and self.text[content] not in "#\t" and not self._is_marker(at):
                line = at
                at, hidden = self._line(line, content, line_end)
            at = self._line_end(at) + 1
        return self.entries

    def _line(self, line: int, at: int, end: int) -> tuple[int, int]:
        """Read a line of block style. Return its end, and the column of a text in the lines below."""
        while self.text[at] == "-" and (at + 1 >= end or self.text[at + 1] in " \t"):
            path = self._item(at - line)
            inner = at + 1 + len(self.text[at + 1 : end]) - len(self.text[at + 1 : end].lstrip(" \t"))
            self.open.append((at - line, True, path))
            if inner >= end or self.text[inner] == "#":
                self.entries.append(OutlineEntry(path, at, at, column=at - line))
                return end, -1
            if self.text[inner] == "-" or _KEY.match(self.text, inner, end):
                self.entries.append(OutlineEntry(path, at, at, column=at - line))
                at = inner
                continue
            return self._value(OutlineEntry(path, at, at, column=at - line), inner, end, at - line)
        column = at - line
        while self.open and self.open[-1][0] >= column:
            self.open.pop()
        parent = self.open[-1][2] if self.open else ()
        key = _KEY.match(self.text, at, end)
        if key is None:
            if self.text[at] in "{[":
                return self._flow(at, parent, column), -1
            word = _SCALAR.match(self.text, at, end)
            assert word
            stop = at + len(self.text[at : word.end()].rstrip())
            self.entries.append(OutlineEntry((*parent, self.text[at:stop]), at, stop, column=column))
            return end, -1
        name = next(part for part in key.groups() if part is not None)
        part = next(number for number in (1, 2, 3) if key[number] is not None)
        path = (*parent, name)
        self.counts[path] = 0
        self.open.append((column, False, path))
        entry = OutlineEntry(path, *key.span(part), column=column)
        return self._value(entry, key.end(), end, column)

    def _value(self, entry: OutlineEntry, at: int, end: int, column: int) -> tuple[int, int]:
        start = at + len(self.text[at:end]) - len(self.text[at:end].lstrip(" \t"))
        if start < end and self.text[start] in "{[":
            self.entries.append(entry)
            return self._flow(start, entry.path, column), -1
        scalar = _SCALAR.match(self.text, at, end)
        assert scalar
        value = scalar[1].rstrip()
        if value[:1] in ("|", ">") and value:
            self.entries.append(entry)
            return end, column
        if value and value[0] != "#":
            self.entries.append(_with_value(entry, value, scalar.start(1)))
        else:
            self.entries.append(entry)
        return end, -1

    def _item(self, column: int) -> Path:
        while self.open and (self.open[-1][0] > column or (self.open[-1][0] == column and self.open[-1][1])):
            self.open.pop()
        parent = self.open[-1][2] if self.open else ()
        self.counts[parent] += 1
        path = (*parent, self.counts[parent] - 1)
        self.counts[path] = 0
        return path

    def _flow(self, at: int, path: Path, column: int) -> int:
        """Read the content of brackets. It ends with them, or at a line that is not indented more than their owner."""
        levels: list[tuple[str, Path]] = []
        key: OutlineEntry | None = None
        index: list[int] = []
        while at < len(self.text):
            sign = self.text[at]
            if sign == "\n":
                below = self._line_end(at + 1)
                line = self.text[at + 1 : below]
                if line.strip() and len(line) - len(line.lstrip(" ")) <= column and line.lstrip()[0] not in "]}":
                    return at
                at += 1
            elif sign == "#" and self.text[at - 1] in " \t\n":
                at = self._line_end(at)
            elif sign in "{[":
                inner = path if not levels else key.path if key else (*levels[-1][1], index[-1])
                if levels and key is None:
                    self.entries.append(OutlineEntry(inner, at, at))
                elif key:
                    self.entries.append(key)
                levels.append((sign, inner))
                index.append(0)
                key = None
                at += 1
            elif sign in "}],":
                if key:
                    self.entries.append(key)
                    key = None
                at += 1
                if sign == "," and index:
                    index[-1] += 1
                elif sign != ",":
                    levels.pop()
                    index.pop()
                    if not levels:
                        return at
            elif (scalar := _FLOW_SCALAR.match(self.text, at)) and scalar[1]:
                text, start, at = scalar[1].rstrip(), scalar.start(1), scalar.end()
                if key:
                    self.entries.append(_with_value(key, text, start))
                    key = None
                elif levels[-1][0] == "{":
                    quoted = text[0] in "\"'"
                    name = _unquoted(text)
                    key = OutlineEntry((*levels[-1][1], name), start + quoted, start + quoted + len(name))
                else:
                    self.entries.append(
                        _with_value(OutlineEntry((*levels[-1][1], index[-1]), start, start), text, start)
                    )
            else:
                at += 1
        if key:
            self.entries.append(key)
        return at

    def _line_end(self, at: int) -> int:
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def _is_marker(self, at: int) -> bool:
        return self.text.startswith(("---", "...", "%"), at)


def _with_value(entry: OutlineEntry, text: str, start: int) -> OutlineEntry:
    quoted = text[0] in "\"'"
    value = _unquoted(text)
    return OutlineEntry(
        entry.path, entry.start, entry.end, value, start + quoted, start + quoted + len(value), entry.column
    )


def _unquoted(text: str) -> str:
    if text[:1] in ("'", '"'):
        return text[1:-1] if len(text) > 1 and text[-1] == text[0] else text[1:]
    return text
