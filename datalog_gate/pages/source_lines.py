"""The lines of files on a page, with findings marked."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass
from datalog_gate.base.secrecy import MASK, masked
from datalog_gate.base.unknown import leaves
from datalog_gate.stack.model import Stack

WHOLE = 400
"""The maximum number of lines of a file that is shown completely."""
LARGEST = 20_000
"""The maximum number of characters of such a file."""
FIRST = 60
"""The number of lines that are shown of a longer one without a finding."""
AROUND = 2
"""The number of lines around a finding that are shown of a longer one."""
LONGEST = 300
"""The maximum number of characters of a line."""
SHOWN = 3
"""The maximum number of lines that a finding shows of its place."""
NEAR = 2
"""The number of lines around a mistake that are shown."""
SHORTEST = 4
"""Shorter texts of a hidden parameter are masked only at the parameter itself."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line in three pieces, with the middle one marked."""

    number: int
    before: str
    marked: str
    after: str
    word: str
    """The class of its most severe finding, as in `drawing.WORDS`; empty if there is none."""
    findings: tuple[tuple[int, str], ...]
    """The numbers of its findings on the page, with their classes."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file, or the part of it that a page shows."""

    name: str
    lines: tuple[SourceLine, ...]
    skipped: int
    """The number of lines left out after the last."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A finding's place in a file."""

    finding: int
    """Its number on the page; -1 if only its line is there."""
    word: str
    place: Span


def mark_lines(
    name: str, text: str, marks: Sequence[Mark], secrets: Collection[str], hidden: Collection[int], whole: bool
) -> SourceFile:
    """Show a file: `whole` if it is not too long, else the lines around the marks. `secrets` and `hidden` lines are
    masked."""
    rows = text.splitlines()
    by_line: dict[int, list[Mark]] = {}
    for mark in marks:
        if 1 <= mark.place.line <= len(rows):
            by_line.setdefault(mark.place.line, []).append(mark)
    shown = {line for line, found in by_line.items() if any(mark.finding >= 0 for mark in found)}
    if whole and len(rows) <= WHOLE and len(text) <= LARGEST:
        numbers = list(range(1, len(rows) + 1))
    else:
        near = {line + step for line in shown for step in range(-AROUND, AROUND + 1)} or set(range(1, FIRST + 1))
        near |= {line + 1 for line in near if line + 2 in near}  # a gap of one line takes a line too
        numbers = [number for number in sorted(near) if 1 <= number <= len(rows)]
    lines = tuple(
        _line(number, MASK if number in hidden else rows[number - 1], by_line.get(number, ()), secrets)
        for number in numbers
    )
    return SourceFile(name, lines, len(rows) - max(numbers, default=0))


@dataclass(frozen=True, slots=True)
class SourceTexts:
    """The texts of files, and what is masked in them."""

    texts: Mapping[str, str]
    secrets: Collection[str]
    """The texts of hidden parameters."""
    hidden: Collection[tuple[str, int]]
    """Lines with their values, by file and number."""

    def show(self, place: Span | None, word: str) -> tuple[SourceLine, ...]:
        """The first lines of a finding's place, marked."""
        rows = self.texts.get(place.file, "").splitlines() if place else []
        if place is None or not 1 <= place.line <= len(rows):
            return ()
        lines = []
        for number in range(place.line, min(place.end_line, place.line + SHOWN - 1, len(rows)) + 1):
            row = MASK if (place.file, number) in self.hidden else rows[number - 1]
            lines.append(_line(number, row, [Mark(0, word, place)] if number == place.line else [], self.secrets))
        return tuple(lines)


def mark_mistakes(places: Sequence[Span | None], text: str) -> list[tuple[SourceLine, ...]]:
    """The line of each mistake with the lines around it, if it is in a template or in rules, given the places from the
    top of a file down. Those that overlap are together at the last of them. What cannot be read has no parameters that
    are known to be hidden, so defaults around mistakes are masked, and other files show only the lines of mistakes."""
    rows = text.splitlines()
    is_known = re.search(r"(?im)^\W*resources\W*:", text) or any(
        place and place.file.endswith(".dl") for place in places
    )
    near = NEAR if is_known else 0
    groups: list[list[tuple[int, Span]]] = []
    for at, place in enumerate(places):
        if place and 1 <= place.line <= len(rows):
            if not groups or place.line - near > groups[-1][-1][1].line + near:
                groups.append([])
            groups[-1].append((at, place))
    excerpts: list[tuple[SourceLine, ...]] = [()] * len(places)
    for group in groups:
        marks = {place.line: [Mark(0, "error", place)] for _, place in reversed(group)}
        (_, first), (at, last) = group[0], group[-1]
        excerpts[at] = tuple(
            _line(number, _mask_default(rows[number - 1], number in marks), marks.get(number, ()), ())
            for number in range(max(1, first.line - near), min(len(rows), last.line + near) + 1)
        )
    return excerpts


def _mask_default(row: str, marked: bool) -> str:
    secret = None if marked else re.match(r"(?i)(.*\bdefault\W*:\s*)\S", row)
    return f"{secret[1]}{MASK}" if secret else row


def _line(number: int, row: str, marks: Sequence[Mark], secrets: Collection[str]) -> SourceLine:
    start = end = 0
    if marks:
        first = marks[0].place
        start = min(first.column - 1, len(row))
        end = max(start, min(first.end_column - 1, len(row)) if first.end_line == first.line else len(row))
    cut = max(0, start - LONGEST // 2) if len(row) > LONGEST else 0
    rest = row[cut : cut + LONGEST]
    before, marked, after = rest[: start - cut], rest[start - cut : end - cut], rest[end - cut :]
    if cut:
        before = f"…{before}"
    if cut + LONGEST < len(row):
        after = f"{after}…"
    if (masked_row := masked(row, secrets)) != row:  # a piece may contain a part of it
        before, marked, after = "", "", masked_row[:LONGEST]
    return SourceLine(
        number=number,
        before=before,
        marked=marked,
        after=after,
        word=marks[0].word if marks else "",
        findings=tuple((mark.finding, mark.word) for mark in marks if mark.finding >= 0),
    )


def find_secrets(stacks: Sequence[Stack]) -> tuple[list[str], set[tuple[str, int]]]:
    """Find secrets of hidden parameters that files may contain: the texts in their values, and the lines, as file and
    number, where an environment or a default has them in any notation."""
    texts: set[str] = set()
    lines: set[tuple[str, int]] = set()
    for stack in (stack for root in stacks for stack in root.walk()):
        for parameter in (parameter for parameter in stack.parameters if parameter.hidden):
            lines_of_value = [line.strip() for leaf in leaves(parameter.value) for line in str(leaf).splitlines()]
            texts |= {line for line in lines_of_value if len(line) >= SHORTEST}
            places = [stack.locate(("parameters", parameter.name, "default"))]
            for environment in stack.environments:
                sections = ("parameters", "parameter_defaults")
                places += [environment.locate((section, parameter.name)) for section in sections]
            lines |= {(place.file, line) for place in places if place for line in range(place.line, place.end_line + 1)}
    return sorted(texts), lines
