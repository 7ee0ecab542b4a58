"""What an editor is told, in offsets of texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]
CompletionKind = Literal["relation", "builtin", "column", "variable", "keyword", "module", "type", "property", "value"]

SHORTEST = 3
"""How long a word is that is looked for within names."""


@dataclass(frozen=True, slots=True, order=True)
class TextRange:
    """A stretch of a file, its end exclusive."""

    file: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TextEdit:
    """A new text for a stretch of a file."""

    range: TextRange
    text: str


@dataclass(frozen=True, slots=True)
class TextProblem:
    """Something to underline: a diagnostic of a text, or a finding about a template."""

    range: TextRange
    severity: Severity
    code: str
    message: str
    help: str = ""
    """What to write, or the hint of the policy."""
    index: int | None = None
    """Of a finding: its number among those of the decision."""

    @property
    def text(self) -> str:
        """The message with the help on a line of its own."""
        return f"{self.message}\n{self.help}" if self.help else self.message


@dataclass(frozen=True, slots=True)
class Action:
    """An edit that settles a problem; it was tried before it is offered."""

    title: str
    edits: tuple[TextEdit, ...]
    problem: TextProblem


@dataclass(frozen=True, slots=True)
class Completion:
    """A text that may stand at the cursor in the place of the word there."""

    label: str
    kind: CompletionKind
    detail: str = ""
    documentation: str = ""
    insert: str = ""
    """What is inserted, where that is not the label."""

    @property
    def text(self) -> str:
        return self.insert or self.label


def fitting(offered: Iterable[Completion], word: str) -> list[Completion]:
    """Those that begin with a word, then those that have it within, the shortest first."""
    written = word.lower()
    unique = dict.fromkeys(completion for completion in offered if completion.text != word)
    places = {completion: completion.label.lower().find(written) for completion in unique}
    within = [completion for completion, place in places.items() if place > 0 and len(word) >= SHORTEST]
    begin = [completion for completion, place in places.items() if place == 0]
    return [*begin, *sorted(within, key=lambda completion: len(completion.label))]


@dataclass(frozen=True, slots=True)
class Hover:
    """What is known of the thing in a range, in Markdown."""

    range: TextRange
    text: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """An entry of a file's outline."""

    name: str
    detail: str
    range: TextRange
    """All of it, its name within."""
    name_range: TextRange


@dataclass(frozen=True, slots=True)
class Lens:
    """A line above which cases can be run: those of one policy, or the one of a name."""

    range: TextRange
    title: str
    file: str
    """The test file."""
    policy: str = ""
    case: str = ""
