"""Proved fixes as differences of template lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from datalog_gate.base.diagnostics import Span, printable
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass
from datalog_gate.base.secrecy import masked
from datalog_gate.explain.template_change import TemplateChange
from datalog_gate.pages.source_lines import SourceTexts
from datalog_gate.stack.model import Data, Path
from datalog_gate.template.document import read_document

LONGEST = 300
"""The maximum number of characters of a line."""
LARGEST = 100_000
"""The maximum number of characters of a template whose fixes are shown as lines: it is read again for each."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line that a fix removes or adds."""

    sign: str
    """``-`` or ``+``."""
    number: int
    text: str


class FixDiffs:
    """Shows changes of templates as lines, except lines with secrets."""

    def __init__(self, sources: SourceTexts) -> None:
        self._sources = sources
        self._leaves: dict[str, Mapping[Path, Data]] = {}

    def find(self, change: TemplateChange) -> tuple[DiffLine, ...]:
        """The lines of a change of one property; empty if no change of one line sets just this value."""
        place = change.place
        if (
            place is None
            or not place.line
            or not change.path
            or change.limited
            or (place.file, place.line) in self._sources.hidden
        ):
            return ()
        text = self._sources.texts.get(place.file, "")
        rows = text.splitlines()
        if len(text) > LARGEST or place.line > len(rows):
            return ()
        row = rows[place.line - 1]
        if masked(row, self._sources.secrets) != row:
            return ()
        before = self._leaves.setdefault(place.file, _read_leaves(text))
        for after in _write(row, place, str(change.path[-1]), _write_scalar(change.value)):
            written = _read_leaves("\n".join([*rows[: place.line - 1], *after, *rows[place.line :]]))
            if _sets_only(before, written, change):
                kept = row in after
                removed = [] if kept else [DiffLine("-", place.line, _cut(row))]
                added = [(at, line) for at, line in enumerate(after, start=place.line) if line != row]
                return (*removed, *(DiffLine("+", at, _cut(line)) for at, line in added))
        return ()


def _write(row: str, place: Span, key: str, scalar: str) -> Iterator[tuple[str, ...]]:
    """Lines to try instead of a row: with another value at the place, or with one more key in the mapping there."""
    start = place.column - 1
    if place.line == place.end_line:
        yield (f"{row[:start]}{scalar}{row[place.end_column - 1 :]}",)
    if row[start : start + 1] == "{":
        yield (f"{row[: start + 1]}{key}: {scalar}, {row[start + 1 :]}",)
    else:
        yield f"{row[:start]}{key}: {scalar}", f"{' ' * start}{row[start:]}"


def _sets_only(before: Mapping[Path, Data], after: Mapping[Path, Data], change: TemplateChange) -> bool:
    """Whether the data differ only by the change: the new value, instead of what was there."""
    end = change.path[1:]
    added = [path for path in after if path not in before or before[path] != after[path]]
    if len(added) != 1 or added[0][-len(end) :] != end or change.resource.name not in added[0]:
        return False
    [path] = added
    removed = (old for old in before if old not in after)
    return after[path] == change.value and all(old[: len(path)] == path for old in removed)


def _read_leaves(text: str) -> Mapping[Path, Data]:
    """The scalars of a document by path; none if it can't be read."""
    try:
        return dict(_list_leaves(read_document(text, "").data, ()))
    except InputError:
        return {}


def _list_leaves(data: Data, path: Path) -> Iterator[tuple[Path, Data]]:
    if isinstance(data, dict | list) and data:
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _list_leaves(value, (*path, key))
    else:
        yield path, data


def _write_scalar(value: Data) -> str:
    """A value in YAML, without quotes where none are needed."""
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w.-]*|[0-9]+(\.[0-9]+){3}(/[0-9]+)?", value)
    return str(value) if plain else json.dumps(value, ensure_ascii=False)


def _cut(row: str) -> str:
    return printable(row.replace("\t", " "))[:LONGEST]
