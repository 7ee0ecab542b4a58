"""Lexer: from the text of a rule file to tokens with places.

It never fails: the kind of an invalid token begins with ``bad``, and the parser refuses it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from decimal import Decimal
from itertools import accumulate
from typing import Final, NamedTuple

from datalog_gate.base.diagnostics import Advice, Diagnostic, Span, suggest_code
from datalog_gate.base.values import number
from datalog_gate.language.ast import Operator

RANKS: Final[dict[Operator, int]] = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "??": 3}
"""The precedence of the operators; all are left-associative."""
RESERVED: Final = frozenset({"not", "NOT", "or", "in", "true", "false", "null"})
STATEMENTS: Final = frozenset({"relation", "import", "export", "execute", "insert", "delete"})
"""The words that are reserved at the start of a statement."""
MAX_DIGITS: Final = 1000
"""The maximum number of digits of a number, below Python's limit for conversions."""

_BREAKS = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"  # as in str.splitlines, which is used to count and show lines
_QUOTED = rf"""(?:"(?>(?:[^"\\{_BREAKS}]|\\[^{_BREAKS}])*)"|'(?>(?:[^'\\{_BREAKS}]|\\[^{_BREAKS}])*)')"""
_NAME = r"[A-Za-z_][A-Za-z0-9_]*+(?>(?:[.:][A-Za-z0-9_]+)*)"
# The most common tokens come first, each with the space after it. Repeated groups are atomic, (?>(?:...)*), and not
# possessive, (?:...)*+: before Python 3.11.5 these keep what a last, failing repetition has read
# (https://github.com/python/cpython/issues/106052).
_TOKEN = re.compile(
    rf"""
    (?:
      (?P<name> (?!f["']){_NAME}(?![+-]\() )
    | (?P<sign> [][(){{}},.;+*%@-] | :- | != | <= | >= | \?\? | == | := | =< | => | <> | &&? | \|\|? | [:=<>!]
        | /(?![/*]) )
    | (?P<string> {_QUOTED} )
    | (?P<format> f{_QUOTED} )
    | (?P<comment> (?://|\#)[^{_BREAKS}]*+ | /\*(?s:.*?)\*/ )
    | (?P<number> [0-9]++(?>(?:\.[0-9]++)?(?:[eE][+-]?[0-9]{{1,6}})?)(?!\.[eE]?[0-9]|[A-Za-z0-9_]) )
    | (?P<update> {_NAME}[+-] )
    | (?P<bad_comment> /\*(?s:.*) )
    | (?P<bad_string> f?["'][^{_BREAKS}]*+ )
    | (?P<bad_number> [0-9]++(?>(?:\.?[A-Za-z0-9_]++)*) )
    | \A\ufeff | [\ {_BREAKS}\t]
    | (?P<bad_character> (?s:.) )
    )
    [\ {_BREAKS}\t]*+
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))")
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_ESCAPED = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_KINDS = {word: word for word in RESERVED} | {"NOT": "not", "!": "not", ";": "."}
_SIGNS = {"==": "=", "=<": "<=", "=>": ">=", "<>": "!=", "&&": ",", "&": ",", "and": ",", "AND": ","}
_INSTEAD: dict[str, str] = {
    **{sign: suggest_code(right, "`") for sign, right in _SIGNS.items()},
    **dict.fromkeys(("or", "OR", "||", "|"), "write `(a or b)`"),
    **dict.fromkeys("\u201c\u201d\u2018\u2019", "write a straight quote"),
    ":=": Advice("write `:-` after a head, `=` in a body", ":-", "="),
    "\\": Advice("write `not` for `\\+`", "not"),
}


class Token(NamedTuple):
    """A stretch of the text. Its kind is ``name``, ``update`` (Congress's ``p+`` before a parenthesis), ``string``,
    ``number``, ``format`` (an f-text), ``end``, one that begins with ``bad``, or the reserved word or sign itself.
    `NOT` and `!` are ``not`` too, and `;` is ``.``."""

    kind: str
    text: str
    start: int
    end: int


class Refused(Exception):  # noqa: N818 - it never leaves the package
    """A statement that can't be parsed, and why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic


def is_name(text: str) -> bool:
    """Whether a text can be the name of a relation or variable."""
    return text.isascii() and text.isidentifier() and text not in RESERVED and text != "_"


class Source:
    """A text with its tokens (the last is ``end``, right after the previous one), its comments as tokens of kind
    ``comment``, and its places. It may be a part of a file, starting at `line` and `column`."""

    __slots__ = ("_above", "_lines", "comments", "file", "tokens")

    def __init__(self, text: str, file: str, line: int = 1, column: int = 1) -> None:
        self.file = file
        self.tokens, self.comments = _tokens(text)
        self._above = line - 1
        self._lines = [1 - column, *accumulate(map(len, text.splitlines(keepends=True)[:-1]))]

    def span(self, start: int, end: int) -> Span:
        lines = self._lines
        first = last = bisect_right(lines, start)
        if first < len(lines) and end > lines[first]:
            last = bisect_right(lines, end)
        above = self._above
        start_column, end_column = start - lines[first - 1] + 1, end - lines[last - 1] + 1
        return tuple.__new__(Span, (self.file, above + first, start_column, above + last, end_column, ""))

    def at_margin(self, token: Token) -> bool:
        return self._lines[bisect_right(self._lines, token.start) - 1] == token.start

    def number(self, token: Token, sign: str = "") -> int | Decimal:
        """The number of a token, negative after a ``-``."""
        exact = Decimal(sign + token.text)  # linear time, unlike int()
        if len(exact.as_tuple().digits) > MAX_DIGITS or abs(exact.adjusted()) >= MAX_DIGITS:
            raise self.refused(token, f"a number of more than {MAX_DIGITS} digits", code="bad-number")
        return number(exact)

    def string(self, token: Token) -> str:
        """The text between the quotes of a token, with escapes resolved."""
        text = token.text[1:-1]
        if not text.isascii() and (half := _SURROGATE.search(text)):
            raise self._refused_part(token, half, f"half of a surrogate pair, U+{ord(half[0]):04X}")

        def resolve(escape: re.Match[str]) -> str:
            short, long, other = escape.groups()
            if other:
                if other not in _ESCAPED:
                    shown = _shown(escape[0])
                    raise self._refused_part(
                        token, escape, f"unknown escape {shown}", Advice("write `\\\\` for a backslash", r"\\")
                    )
                return _ESCAPED[other]
            point = int(short or long, 16)
            if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
                advice = "write `\\U` and the eight digits of the whole character"
                raise self._refused_part(token, escape, f"U+{point:04X} is not a character", advice)
            return chr(point)

        return _ESCAPE.sub(resolve, text) if "\\" in text else text

    def pieces(self, token: Token) -> list[str | Token]:
        """The texts of an f-text, with the names of variables between them. ``{{`` and ``}}`` are braces."""
        pieces: list[str | Token] = []
        text, at = "", 2
        for braces in _BRACES.finditer(token.text, 2):
            text += self._string_at(token, at, braces.start())
            at = braces.end()
            if braces[0] in ("{{", "}}"):
                text += braces[0][0]
                continue
            name = braces[1] or ""
            if not is_name(name):
                advice = "compute it before, `x = ...`, and write {x}" if braces[1] else "write {{ and }} for braces"
                part = Token("", "", token.start + braces.start(), token.start + at)
                raise self.refused(part, f"{_shown(braces[0])} in an f-text is not the name of a variable", advice)
            pieces += [text, Token("name", name, token.start + braces.start(1), token.start + braces.end(1))]
            text = ""
        pieces.append(text + self._string_at(token, at, len(token.text) - 1))
        return [piece for piece in pieces if piece]

    def _string_at(self, token: Token, start: int, end: int) -> str:
        """The text of a part of an f-text."""
        return self.string(
            Token("string", f'"{token.text[start:end]}"', token.start + start - 1, token.start + end + 1)
        )

    def unexpected(self, token: Token, message: str, suggestion: str | None = None) -> Refused:
        """The refusal of a token that the grammar does not expect here. `message` says what it expects; ``{found}`` in
        it is the token. An invalid token is refused as such."""
        text = token.text
        advice = _INSTEAD.get(text, suggestion)
        match token.kind:
            case "bad_string":
                both = f"write {text.removeprefix('f')[0]} at both ends of the string"
                return self.refused(token, "the string does not end on its line", both, "bad-string")
            case "bad_number":
                advice = _suggest_number(text) if len(text) < 40 else None
                return self.refused(token, f"{_shown(text)} is not a number", advice, "bad-number")
            case "bad_comment":
                sign = token._replace(end=token.start + 2)
                return self.refused(sign, "the comment does not end", "close it with `*/`")
            case "bad_character":
                return self.refused(token, f"unexpected character {_shown(text)}", advice if text in _INSTEAD else None)
            case "update":
                message = f"{_shown(text)} before a parenthesis is an update relation of Congress"
                return self.refused(token, message, f"for arithmetic write `{text[:-1]} {text[-1]} (`", "unsupported")
        shown = {"end": "the end of the text", "string": "a string"}.get(token.kind) or _shown(text)
        return self.refused(token, message.replace("{found}", shown), advice)

    def refused(self, token: Token, message: str, suggestion: str | None = None, code: str = "syntax") -> Refused:
        return Refused(Diagnostic(code, message, self.span(token.start, token.end), suggestion))

    def _refused_part(self, token: Token, part: re.Match[str], message: str, suggestion: str | None = None) -> Refused:
        start = token.start + 1  # the parts between the quotes
        part_token = Token("", "", start + part.start(), start + part.end())
        return self.refused(part_token, message, suggestion, "bad-string")


def _tokens(text: str) -> tuple[list[Token], list[Token]]:
    tokens: list[Token] = []
    comments: list[Token] = []
    end = 0
    new = tuple.__new__  # calling the class takes twice as long
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "comment":
            comments.append(Token(kind, match[kind], *match.span(kind)))
        elif kind:
            start, end = match.span(kind)
            word = match[kind]
            if kind == "name":
                kind = _KINDS.get(word, "name")
            elif kind == "sign":
                kind = _KINDS.get(word, word)
            tokens.append(new(Token, (kind, word, start, end)))
    tokens.append(Token("end", "", end, end))
    return tokens, comments


def _shown(text: str) -> str:
    """A piece of text for a message: shortened, with unprintable characters as code points."""
    if text.isprintable():
        return f"`{text}`" if len(text) <= 40 else f"`{text[:37]}...`"
    return " ".join(f"U+{ord(char):04X}" for char in text[:4])


def _suggest_number(text: str) -> Advice:
    """What to write for a number that can't be read: the number, or a text."""
    quoted = f'"{text}"'
    if re.fullmatch(r"0x[0-9a-fA-F]+|[0-9_]+", text):
        return suggest_code(str(int(text, 16)) if text[:2] == "0x" else text.replace("_", ""), "`")
    if unit := re.fullmatch(r"([0-9]+)[A-Za-z]+", text):
        return Advice(
            f"write the number without its unit, `{unit[1]}`, or a text in quotes, `{quoted}`", unit[1], quoted
        )
    return Advice(f"write it in quotes, `{quoted}`", quoted)
