"""The tokens of a rule file, with their roles.

It also reads invalid files, so that names can be looked up while a rule is being written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from datalog_gate.language.lexer import Source, Token

Role = Literal[
    "relation", "exported", "module", "annotation", "attribute", "column", "declared", "kind", "variable", "other"
]
Bracket = Literal["atom", "annotation", "declaration", "group", "aggregate", "list"]
_OPENING: dict[str, Bracket] = {"{": "aggregate", "[": "list"}


class Level(NamedTuple):
    """An open bracket: its sort, and the index of the token that it belongs to."""

    bracket: Bracket
    owner: int
    outer: Level | None


class RuleTokens:
    """The tokens of a text. `levels` has the innermost bracket of each token, `starts` the index of the first token of
    its statement. An annotation belongs to the rule below it."""

    def __init__(self, text: str, file: str) -> None:
        self.source = Source(text, file)
        self.tokens = self.source.tokens
        self.levels: list[Level | None] = []
        self.starts: list[int] = []
        start, level, annotation_end = 0, None, -1
        for index, token in enumerate(self.tokens):
            margin = token.kind in ("name", "@", "update") and self.source.at_margin(token)
            if margin and index - 1 != annotation_end and index > start:
                start, level = index, None
            if token.kind in (")", "}", "]") and level:
                if level.bracket == "annotation":
                    annotation_end = index
                level = level.outer
            self.levels.append(level)
            self.starts.append(start)
            if token.kind in ("(", "{", "["):
                level = Level(self._bracket(index, start), index - 1, level)
            elif token.kind == ".":
                start, level = index + 1, None
            elif (
                index
                and self.tokens[index - 1].kind == "@"
                and self.tokens[min(index + 1, len(self.tokens) - 1)].kind != "("
            ):
                annotation_end = index

    def _bracket(self, index: int, start: int) -> Bracket:
        if self.tokens[index].kind != "(":
            return _OPENING[self.tokens[index].kind]
        before = self.tokens[index - 1].kind if index else ""
        if before not in ("name", "update"):
            return "group"
        if index > 1 and self.tokens[index - 2].kind == "@":
            return "annotation"
        is_declared = self.tokens[start].text == "relation" and index > start + 1
        return "declaration" if is_declared else "atom"

    def role(self, index: int) -> Role:
        """The role of a token."""
        token, level, start = self.tokens[index], self.levels[index], self.starts[index]
        if token.kind not in ("name", "update"):
            return "other"
        before = self.tokens[index - 1].kind if index else ""
        after = self.tokens[index + 1].kind if index + 1 < len(self.tokens) else "end"
        first = self.tokens[start].text
        if before == "@":
            return "annotation"
        if after == "(":
            return "relation" if level is None or level.bracket != "declaration" else "other"
        if first in ("import", "export") and index > start and self.tokens[start + 1].kind != "(":
            return "module" if first == "import" else "exported"
        if level and level.bracket == "annotation":
            return "attribute" if after == "=" else "other"
        if level and level.bracket == "declaration":
            is_column = after == ":" or self.tokens[level.owner].text == "key"
            return "declared" if is_column else "kind"
        if level and level.bracket == "atom" and after == "=":
            return "column"
        is_statement = index == start and first in ("relation", "import", "export")
        return "other" if is_statement or after == "{" else "variable"  # an aggregate has braces

    def at(self, offset: int) -> int | None:
        """The index of the token at, or just before, the offset."""
        near = [index for index, token in enumerate(self.tokens[:-1]) if token.start <= offset <= token.end]
        names = [index for index in near if self.tokens[index].kind in ("name", "update", "string")]
        return (names or near)[-1] if near else None

    def statement(self, index: int) -> range:
        """The indexes of the tokens of a statement."""
        start = self.starts[index]
        end = next((at for at in range(index, len(self.tokens)) if self.starts[at] != start), len(self.tokens) - 1)
        return range(start, end)

    def named(self, *roles: Role) -> Iterator[tuple[int, Token]]:
        """The tokens with one of these roles."""
        return ((index, token) for index, token in enumerate(self.tokens) if self.role(index) in roles)

    def variables(self, index: int, of_head: bool = False) -> list[str]:
        """The variables of a token's statement, or only of its head, in order."""
        statement = self.statement(index)
        body = next((at for at in statement if self.tokens[at].kind == ":-" and of_head), statement.stop)
        names = (self.tokens[at].text for at in range(statement.start, body) if self.role(at) == "variable")
        return list(dict.fromkeys(name for name in names if name != "_"))
