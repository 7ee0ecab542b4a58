"""Texts and their tokens, values and places."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.values import Value
from datalog_gate.language import lexer
from datalog_gate.language.lexer import Refused, Source

TOKENS = [
    ("", []),
    ("p(x) :- q.", ["name p", "( (", "name x", ") )", ":- :-", "name q", ". ."]),
    ("os:nova:server.x:y", ["name os:nova:server.x:y"]),
    ("1.5 1. 2", ["number 1.5", "number 1", ". .", "number 2"]),
    ("1e5 1E-5 1e+5", ["number 1e5", "number 1E-5", "number 1e+5"]),
    ("1.p(2.5.q)", ["number 1", ". .", "name p", "( (", "number 2.5", ". .", "name q", ") )"]),
    ("10.0.0.1 1.e5 0x1F 1e", ["bad_number 10.0.0.1", "bad_number 1.e5", "bad_number 0x1F", "bad_number 1e"]),
    ("not NOT ! or in", ["not not", "not NOT", "not !", "or or", "in in"]),
    ("true false null True", ["true true", "false false", "null null", "name True"]),
    ("; .", [". ;", ". ."]),
    ("<= >= < > = !=", ["<= <=", ">= >=", "< <", "> >", "= =", "!= !="]),
    ("a ?? b - c", ["name a", "?? ??", "name b", "- -", "name c"]),
    ("p+(x) p-(x) p + (x)", [
        "update p+", "( (", "name x", ") )", "update p-", "( (", "name x", ") )",
        "name p", "+ +", "( (", "name x", ") )",
    ]),
    ("a // b\nc # d\r\ne /* f\n*/ g //", ["name a", "name c", "name e", "name g"]),
    ("a # b\u2028c", ["name a", "name c"]),
    ("/*/ a */ b", ["name b"]),
    ("a /* b", ["name a", "bad_comment /* b"]),
    ("\ufeffa", ["name a"]),
    ("a\ufeff", ["name a", "bad_character \ufeff"]),
    ("né\0", ["name n", "bad_character é", "bad_character \0"]),
    (r"""'a"\'' "b'\"" """, [r"""string 'a"\''""", r'''string "b'\""''']),
    ('"# not // a /* comment"', ['string "# not // a /* comment"']),
    ('"a\nb', ['bad_string "a', "name b"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TOKENS)
def test_a_text_has_these_tokens(text: str, expected: list[str]) -> None:
    tokens = Source(text, "f.dl").tokens
    assert [f"{token.kind} {token.text}" for token in tokens] == [*expected, "end "]
    assert all(text[token.start : token.end] == token.text for token in tokens)


def test_comments_are_kept_apart_from_tokens() -> None:
    text = 'p /* a\n*/ "// b" # c \r\n/**/ // d'
    comments = Source(text, "f.dl").comments
    assert [comment.text for comment in comments] == ["/* a\n*/", "# c ", "/**/", "// d"]
    assert all(comment.kind == "comment" and text[comment.start : comment.end] == comment.text for comment in comments)


VALUES: list[tuple[str, Value]] = [
    ("007", 7),
    ("1.0", 1),
    ("1.50", Decimal("1.5")),
    ("1e-3", Decimal("0.001")),
    ("9" * 1000, 10**1000 - 1),
    ('"a b"', "a b"),
    (r'"\n\t\\\"\' \u00e9 \U0001f600"', "\n\t\\\"' é \U0001f600"),
    ('"\U0001f600"', "\U0001f600"),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_a_literal_has_this_value(text: str, value: Value) -> None:
    assert _value(Source(text, "f.dl")) == value


BACKSLASH = r"write `\\` for a backslash"
WHOLE = r"write `\U` and the eight digits of the whole character"
BAD_VALUES = [
    (r'"a\d"', "bad-string", r"unknown escape `\d`", 3, 5, BACKSLASH),
    (r'"\u12"', "bad-string", r"unknown escape `\u`", 2, 4, BACKSLASH),
    ('"\\\x1b"', "bad-string", "unknown escape U+005C U+001B", 2, 4, BACKSLASH),
    (r'"\ud83d"', "bad-string", "U+D83D is not a character", 2, 8, WHOLE),
    (r'"\U00110000"', "bad-string", "U+110000 is not a character", 2, 12, WHOLE),
    ('"a\ud800"', "bad-string", "half of a surrogate pair, U+D800", 3, 4, None),
    ("1" * 1001, "bad-number", "a number of more than 1000 digits", 1, 1002, None),
    ("1e1000", "bad-number", "a number of more than 1000 digits", 1, 7, None),
    ("1e-999999", "bad-number", "a number of more than 1000 digits", 1, 10, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "message", "column", "end", "suggestion"), BAD_VALUES)
def test_a_literal_without_a_value_is_refused_with_its_part(
    text: str, code: str, message: str, column: int, end: int, suggestion: str | None
) -> None:
    with pytest.raises(Refused) as refused:
        _value(Source(text, "f.dl"))
    assert refused.value.diagnostic == Diagnostic(code, message, Span("f.dl", 1, column, 1, end), suggestion)


def test_places_have_the_line_numbers_of_excerpts() -> None:
    source = Source("a\r\n b\u2028c\n\nd /*\n*/ e", "f.dl")
    assert [source.span(token.start, token.end) for token in source.tokens] == [
        Span("f.dl", 1, 1, 1, 2),
        Span("f.dl", 2, 2, 2, 3),
        Span("f.dl", 3, 1, 3, 2),
        Span("f.dl", 5, 1, 5, 2),
        Span("f.dl", 6, 4, 6, 5),
        Span("f.dl", 6, 5, 6, 5),
    ]
    assert source.span(0, 5) == Span("f.dl", 1, 1, 2, 3)
    assert [source.at_margin(token) for token in source.tokens] == [True, False, True, True, False, False]


def _value(source: Source) -> Value:
    token = source.tokens[0]
    return source.number(token) if token.kind == "number" else source.string(token)


def test_no_group_of_the_pattern_is_possessive() -> None:
    """Before 3.11.5 Python reads `a.` as a name by `a(?:[.]b)*+`: it keeps what the last, failing round has read."""
    assert re.findall(r"\)[*+?]\+", lexer._TOKEN.pattern) == []
