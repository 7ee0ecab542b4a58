"""Answers to an editor, with offsets in texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from datalog_gate.base.diagnostics import Advice, Severity

CompletionKind = Literal["relation", "builtin", "column", "variable", "keyword", "module", "type", "property", "value"]

SHORTEST = 3
"""The minimum length of a word that is searched for inside names."""


@dataclass(frozen=True, slots=True, order=True)
class TextRange:
    """A stretch of a file; the end is exclusive."""

    file: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TextEdit:
    """A replacement for a stretch of a file."""

    range: TextRange
    text: str


@dataclass(frozen=True, slots=True)
class TextProblem:
    """A problem to underline: a diagnostic, or a finding about a template."""

    range: TextRange
    severity: Severity
    code: str
    message: str
    help: str = ""
    """The suggestion, or the hint of the policy."""
    index: int | None = None
    """For a finding: its number in the decision."""
    url: str = ""
    """For a finding: the page that its policy names."""

    @property
    def advice(self) -> Advice:
        """The help with what it suggests as code, if anything."""
        return self.help if isinstance(self.help, Advice) else Advice(self.help)

    @property
    def text(self) -> str:
        """The message, with the help on its own line."""
        return f"{self.message}\n{self.help}" if self.help else self.message


@dataclass(frozen=True, slots=True)
class Action:
    """An edit that fixes a problem. It was tried before it is offered."""

    title: str
    edits: tuple[TextEdit, ...]
    problem: TextProblem


@dataclass(frozen=True, slots=True)
class Completion:
    """A text that may replace the word at the cursor."""

    label: str
    kind: CompletionKind
    detail: str = ""
    documentation: str = ""
    insert: str = ""
    """The text to insert, if it is not the label."""

    @property
    def text(self) -> str:
        return self.insert or self.label


def fitting(offered: Iterable[Completion], word: str) -> list[Completion]:
    """The completions that begin with a word, then those that contain it, the shortest first."""
    written = word.lower()
    unique = dict.fromkeys(completion for completion in offered if completion.text != word)
    places = {completion: completion.label.lower().find(written) for completion in unique}
    within = [completion for completion, place in places.items() if place > 0 and len(word) >= SHORTEST]
    begin = [completion for completion, place in places.items() if place == 0]
    return [*begin, *sorted(within, key=lambda completion: len(completion.label))]


@dataclass(frozen=True, slots=True)
class Hover:
    """The description of the thing in a range, in Markdown."""

    range: TextRange
    text: str


@dataclass(frozen=True, slots=True)
class CallHelp:
    """The call that is being written. The parameters stand in its label."""

    label: str
    parameters: tuple[str, ...]
    active: int
    """The parameter at the cursor."""
    documentation: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """An entry of a file's outline."""

    name: str
    detail: str
    range: TextRange
    """The whole entry; the name is inside."""
    name_range: TextRange


@dataclass(frozen=True, slots=True)
class Lens:
    """A line above which cases can be run: those of a policy, or the one with a name."""

    range: TextRange
    title: str
    file: str
    """The test file."""
    policy: str = ""
    case: str = ""
