"""Proved fixes as differences of template lines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from datalog_gate.base.diagnostics import printable
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import dataclass
from datalog_gate.base.secrecy import masked
from datalog_gate.editing.template_edits import apply_edits, write_change
from datalog_gate.explain.template_change import TemplateChange
from datalog_gate.pages.source_lines import SourceTexts

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


def find_diff(change: TemplateChange, sources: SourceTexts) -> tuple[DiffLine, ...]:
    """The lines that differ with the change; empty if it can't be written alone, or if one of them has a secret."""
    file = change.place.file if change.place else ""
    text = sources.texts.get(file, "")
    try:
        edit = next(write_change(text, file, change, only_there=True), None) if len(text) <= LARGEST else None
    except InputError:  # with the masks of secrets it may be no YAML
        return ()
    if edit is None:
        return ()
    old, new = text.splitlines(), apply_edits({file: text}, [edit])[file].splitlines()
    first = _count_equal(old, new)
    last = _count_equal(old[first:][::-1], new[first:][::-1])
    removed, added = (
        [DiffLine(sign, number, row) for number, row in enumerate(rows[first : len(rows) - last], start=first + 1)]
        for sign, rows in (("-", old), ("+", new))
    )
    if any((file, line.number) in sources.hidden for line in removed):
        return ()
    lines = (*removed, *added)
    if any(masked(line.text, sources.secrets) != line.text for line in lines):
        return ()
    return tuple(DiffLine(line.sign, line.number, _cut(line.text)) for line in lines)


def _count_equal(old: Sequence[str], new: Sequence[str]) -> int:
    """The number of first lines that are equal."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))))


def _cut(row: str) -> str:
    return printable(row.replace("\t", " "))[:LONGEST]
