"""From nested groups of text to lines (layer 1).

In: a `Group`, as the printer makes it of a statement, its items perhaps with comments. Out: its lines. A group stands
on one line if it fits and holds no comment; else its items are filled into lines, and a line break that the author
wrote between two of them stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from datalog_gate.base.diagnostics import Span
from datalog_gate.language.ast import NOWHERE

WIDTH: Final = 120
"""How long a line is at most, if what stands on it can be broken; comments do not count."""


@dataclass(slots=True)
class Item:
    """A piece of a group, `span` where its author wrote it. `leading` comments stand on lines before it, `trailing`
    ones after it on its line; an empty text among the leading is an empty line."""

    doc: Doc
    span: Span = NOWHERE
    before: str = ""
    after: str = ""
    leading: list[str] = field(default_factory=list)
    trailing: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Group:
    """Items with blanks or line breaks between them. Lines after the first begin below the first item; those of a
    `hanging` group, which always breaks after its first item, are indented by two blanks."""

    opening: str
    items: list[Item]
    closing: str
    hanging: bool = False

    @property
    def commented(self) -> bool:
        """Whether a comment stands inside."""
        return any(
            item.leading or item.trailing or any(inner.commented for inner in groups(item)) for item in self.items
        )


Doc = tuple[str | Group, ...]
"""Pieces of text without blanks between them."""


def groups(item: Item) -> list[Group]:
    """The groups that an item holds."""
    return [part for part in item.doc if isinstance(part, Group)]


def flat(doc: Doc) -> str:
    """The text on one line, without its comments."""
    return "".join(part if isinstance(part, str) else _flat(part) for part in doc)


def lines(doc: Doc) -> list[str]:
    """The text with its comments on as many lines as it needs."""
    writer = _Writer()
    writer.doc(doc, 0)
    return writer.lines


def _flat(group: Group) -> str:
    items = " ".join(f"{item.before}{flat(item.doc)}{item.after}" for item in group.items)
    return f"{group.opening}{items}{group.closing}"


class _Writer:
    """The lines so far; what is added goes to the last."""

    def __init__(self) -> None:
        self.lines = [""]

    def doc(self, doc: Doc, tail: int) -> None:
        """Write the parts; `tail` characters more must fit on their last line."""
        for at, part in enumerate(doc):
            if isinstance(part, str):
                self.lines[-1] += part
            else:
                self.group(part, len(flat(doc[at + 1 :])) + tail)

    def group(self, group: Group, tail: int) -> None:
        text = _flat(group)
        if self.fits(text, tail) and not group.commented:
            self.lines[-1] += text
            return
        self.lines[-1] += group.opening
        indent = "  " if group.hanging else " " * len(self.lines[-1])
        previous: Item | None = None
        full = False  # whether nothing more may stand on the line
        for item in group.items:
            rest = len(item.after) if item is not group.items[-1] else len(group.closing) + tail
            if previous:
                apart = item.span.line > previous.span.end_line or bool(item.leading)
                if full or apart or not self.fits(f" {item.before}{flat(item.doc)}", rest):
                    self.lines.append(indent)
                else:
                    self.lines[-1] += " "
            for comment in item.leading:
                self.comment(comment)
                self.lines.append(indent)
            first = len(self.lines)
            self.lines[-1] += item.before
            self.doc(item.doc, rest)
            self.lines[-1] += item.after
            full = len(self.lines) > first or bool(item.trailing) or (group.hanging and previous is None)
            for at, comment in enumerate(item.trailing):
                self.comment(f" {comment}" if at else f"  {comment}")
            previous = item
        self.lines[-1] += group.closing

    def fits(self, text: str, tail: int) -> bool:
        return len(self.lines[-1]) + len(text) + tail <= WIDTH

    def comment(self, text: str) -> None:
        first, *others = text.split("\n")
        self.lines[-1] += first
        self.lines += others
