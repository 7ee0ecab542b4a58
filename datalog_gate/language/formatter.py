"""Formatter of rule files: prints them with the author's comments.

A comment at the end of a line stays after the item before it. Any other comment is on a line before the next item.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from datalog_gate.base.diagnostics import NOWHERE, Span
from datalog_gate.base.errors import RulesError
from datalog_gate.base.records import dataclass
from datalog_gate.language.ast import Module
from datalog_gate.language.lexer import Source, Token
from datalog_gate.language.parser import parse
from datalog_gate.language.printer import LayoutItem, groups, lines, statement_items


def format_text(text: str, file: str = "<text>", rewrite: Callable[[Module], Module] | None = None) -> str:
    """The formatted text of the module, or of what `rewrite` makes of it. Formatting it again changes nothing. Errors:
    RulesError with all syntax errors."""
    module, diagnostics = parse(text, file, "")
    if diagnostics:
        raise RulesError(diagnostics, {file: text})
    module = rewrite(module) if rewrite else module
    source = Source(text, file)
    statements = [statement_items(statement) for statement in module.statements]
    items = [item for statement in statements for item in statement]
    end = LayoutItem((), Span(file, len(text) + 2, 1, len(text) + 2, 1))
    _attach(source, [*items, end])
    for annotated in (statement[-1] for statement in statements if len(statement) > 1):
        annotated.leading = list(filter(None, annotated.leading))
    written = [line for item in [*items, end] for line in _lines(item)]
    result = "".join(f"{line}\n" for line in written).lstrip("\n")
    if parse(result, file, "") != (module, ()) or _comments(Source(result, file)) != _comments(source):
        raise AssertionError(f"formatting changes what {file} says")
    return result


def _lines(item: LayoutItem) -> list[str]:
    written = lines(item.doc) if item.doc else []
    if item.trailing:
        written[-1] += f"  {' '.join(item.trailing)}"
    return [*item.leading, *written]


def _comments(source: Source) -> list[str]:
    return [_cleaned(comment) for comment in source.comments]


def _cleaned(comment: Token) -> str:
    return comment.text.rstrip().replace("\r\n", "\n")


@dataclass(slots=True)
class _Slot:
    """A place for comments before or after an item. Slots are numbered in text order."""

    comments: list[str]
    trailing: bool
    number: int = -1

    def accepts(self) -> bool:
        """Whether the slot has room for another comment: a line ends with the first comment that reaches its end."""
        last = self.comments[-1] if self.trailing and self.comments else "/**/"
        return last.startswith("/*") and len(last.splitlines()) == 1


class _Anchor(NamedTuple):
    """The beginning of an item, with its statement and the slots around it."""

    place: tuple[int, int]
    statement: int
    before: _Slot
    after: _Slot


def _attach(source: Source, items: Sequence[LayoutItem]) -> None:
    """Assign comments to items, and empty lines to what follows. The last item stands for the end of the text."""
    anchors: list[_Anchor] = []
    slots: list[_Slot] = []
    for statement, item in enumerate(items):
        _add_anchors(item, statement, None, None, anchors, slots)
    places = [anchor.place for anchor in anchors]
    ends = {anchor.statement: anchor.after for anchor in reversed(anchors)}
    starts = {_place(item.span): item for item in items}
    tokens = source.tokens[:-1]
    at, number, end_line = 0, 0, 0  # the number of tokens before, the last slot, the last line that is not empty
    for thing in sorted([*tokens, *source.comments], key=lambda token: token.start):
        span = source.span(thing.start, thing.end)
        apart = 0 < end_line < span.line - 1
        end_line = span.end_line
        if thing.kind != "comment":
            at += 1
            if apart and _place(span) in starts:
                starts[_place(span)].leading.append("")
            continue
        following = source.span(tokens[at].start, tokens[at].end) if at < len(tokens) else items[-1].span
        ends_line = at and source.span(tokens[at - 1].start, tokens[at - 1].end).end_line == span.line
        nearest = bisect_right(places, _place(span))
        last, coming = anchors[nearest - 1], anchors[nearest]
        if ends_line and following.line > span.end_line:
            slot = ends[last.statement] if _place(following) == coming.place in starts else last.after
        elif _place(following) == coming.place or coming.statement == last.statement:
            slot = coming.before
        else:
            slot = last.after
        number = max(number, slot.number)
        while not slots[number].accepts():
            number += 1
        if apart and slots[number] is coming.before and coming.place in starts:
            slots[number].comments.append("")
        slots[number].comments.append(_cleaned(thing))


def _add_anchors(
    item: LayoutItem,
    statement: int,
    before: _Slot | None,
    after: _Slot | None,
    anchors: list[_Anchor],
    slots: list[_Slot],
) -> None:
    """Add the anchors and slots of an item and its parts. At the beginning or end of another item, comments belong to
    the latter: they go `before` or `after` it."""
    if before is None:
        before = _Slot(item.leading, False, len(slots))
        slots.append(before)
    own = after or _Slot(item.trailing, True)
    if item.span is not NOWHERE:
        anchors.append(_Anchor(_place(item.span), statement, before, own))
    for group in groups(item):
        for inner in group.items:
            first, last = inner is group.items[0], inner is group.items[-1]
            _add_anchors(inner, statement, before if first else None, own if last else None, anchors, slots)
    if after is None:
        own.number = len(slots)
        slots.append(own)


def _place(span: Span) -> tuple[int, int]:
    return span.line, span.column
