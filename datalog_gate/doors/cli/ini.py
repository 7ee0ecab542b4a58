"""A file of sections with options (layer 6), such as heat.conf and api-paste.ini, with the line of each.

In: a path. Out: its text by sections, as written: nothing is interpolated, and a later option of a name counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from datalog_gate.base.diagnostics import Span
from datalog_gate.files.templates import read_text


@dataclass(frozen=True, slots=True)
class Section:
    """The options of a section with their lines, and where it begins."""

    place: Span
    options: dict[str, str] = field(default_factory=dict)
    places: dict[str, Span] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ini:
    """A file's sections by name."""

    file: str
    sections: Mapping[str, Section]

    def get(self, section: str, option: str) -> str:
        """The text of an option, empty if it is not there."""
        found = self.sections.get(section)
        return found.options.get(option, "") if found else ""

    def place(self, section: str, option: str = "") -> Span:
        """Where an option stands, or else its section, or else the file."""
        found = self.sections.get(section)
        return found.places.get(option, found.place) if found else _at(self.file, 1)


def read_ini(path: Path) -> Ini:
    """The sections of a file. Errors: InputError if it can't be read; what is no option is passed over, as whoever
    reads the file for its service complains of it."""
    sections: dict[str, Section] = {}
    inside, last = Section(_at(str(path), 1)), ""
    for number, line in enumerate(read_text(path).splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        if line[0].isspace() and last:
            inside.options[last] = f"{inside.options[last]} {text}".strip()
        elif text[0] == "[" and "]" in text:
            inside, last = sections.setdefault(text[1 : text.rindex("]")].strip(), Section(_at(str(path), number))), ""
        else:
            at = min((text.find(one) for one in "=:" if one in text), default=len(text))
            last = text[:at].strip()
            inside.options[last], inside.places[last] = text[at + 1 :].strip(), _at(str(path), number)
    return Ini(str(path), sections)


def _at(file: str, line: int) -> Span:
    return Span(file, line, 1, line, 1)
