"""A place in the tokens of a rule file, and the steps that every construct of the grammar takes there (layer 1).

In: a text. Out: its tokens one by one, lists of things with commas between them, and refusals of the token in hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from datalog_gate.base.diagnostics import Span, slip
from datalog_gate.language.lexer import RESERVED, STATEMENTS, Refused, Source, Token

MAX_NESTING: Final = 25
"""How deep parentheses and aggregates stand in each other at most."""

_BEGINNINGS = frozenset({"name", "string", "number", "(", "not", "true", "false", "null", "@"})
"""What a condition, an argument or a statement can begin with, but for a minus."""
_T = TypeVar("_T")


class Cursor:
    """The tokens of a text from the one at `index` on. What a method does not find it refuses with `Refused`."""

    def __init__(self, text: str, file: str, line: int = 1, column: int = 1) -> None:
        self.source = Source(text, file, line, column)
        self.tokens = self.source.tokens
        self.index = 0
        self.nesting = 0
        self.closings = _closings(self.tokens)

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.index]

    def peek(self) -> Token:
        """The token after the next."""
        return self.tokens[min(self.index + 1, len(self.tokens) - 1)]

    def advance(self) -> Token:
        """Take the next token, which is not the end."""
        self.index += 1
        return self.tokens[self.index - 1]

    def take(self, kind: str) -> bool:
        """Take the next token if it is of this kind."""
        if self.tokens[self.index].kind != kind:
            return False
        self.index += 1
        return True

    def expect(self, kind: str, expected: str) -> Token:
        if self.token.kind != kind:
            raise self.unexpected(f"found {{found}}, expected {expected}")
        return self.advance()

    def word(self, expected: str, quoted: bool) -> str:
        """Any word, reserved or not, or a string if it may be `quoted`."""
        token = self.token
        if quoted and token.kind == "string":
            return self.source.string(self.advance())
        if token.kind.startswith("bad") or not token.text.isidentifier():
            advice = f'write it in quotes, `"{token.text[:80]}"`' if quoted and token.kind == "name" else None
            raise self.unexpected(f"found {{found}}, expected {expected}", advice)
        return self.advance().text

    def sequence(self, item: Callable[[], _T], close: str) -> tuple[_T, ...]:
        """Items with commas between them, up to the closing sign."""
        if self.take(close):
            return ()
        items = self.items(item)
        if not self.take(close):
            raise self.unexpected(f"found {{found}}, expected `,` or `{close}`", self.unclosed(close))
        return items

    def items(self, item: Callable[[], _T]) -> tuple[_T, ...]:
        """Items with commas between them, at least one."""
        found = [item()]
        while self.take(","):
            found.append(item())
        return tuple(found)

    def enter(self) -> int:
        """Take an opening sign; where it stands."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.source.refused(self.token, f"nested deeper than {MAX_NESTING}", code="too-large")
        return self.advance().start

    def leave(self, close: str, expected: str) -> None:
        if not self.take(close):
            raise self.unexpected(f"found {{found}}, expected {expected}", self.unclosed(close))
        self.nesting -= 1

    def after_closing(self) -> str:
        """The kind of the token after the one that closes the next, a parenthesis; empty if nothing closes it."""
        closing = self.closings.get(self.index)
        return "" if closing is None else self.tokens[closing + 1].kind

    def since(self, start: int) -> Span:
        """The place from an offset up to the last token taken."""
        return self.source.span(start, self.tokens[self.index - 1].end)

    def forgotten(self, sign: str) -> str | None:
        """The advice to write a sign before the next token, if that begins something; or the word that was meant before
        it."""
        if near := slip(self.tokens[self.index - 1].text, RESERVED | STATEMENTS):
            return f"did you mean `{near}`?"
        token = self.token
        begins = token.kind in _BEGINNINGS and len(token.text) <= 80 and token.text.isprintable()
        return f"write `{sign}` before `{token.text}`" if begins else None

    def unclosed(self, close: str) -> str | None:
        """The advice to close what is open before the next token, if that can't stand inside, or to write a comma."""
        if self.token.kind in (":-", "."):
            return f"write `{close}` before `{self.token.text}`"
        return self.forgotten(",")

    def unexpected(self, message: str, suggestion: str | None = None) -> Refused:
        """The refusal of the next token."""
        return self.source.unexpected(self.token, message, suggestion)


def _closings(tokens: list[Token]) -> dict[int, int]:
    """Where each parenthesis closes, by the index of its token; one that does not is left out."""
    open_at: list[int] = []
    closings = {}
    for index, token in enumerate(tokens):
        if token.kind == "(":
            open_at.append(index)
        elif token.kind == ")" and open_at:
            closings[open_at.pop()] = index
    return closings
