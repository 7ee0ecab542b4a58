"""The layout of formatted rule files."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import RulesError
from datalog_gate.language import ast
from datalog_gate.language.formatter import format_text
from datalog_gate.language.lexer import Source
from datalog_gate.language.parser import parse
from datalog_gate.language.printer import print_module
from tests.sampling import sample
from tests.unit.language.test_printer import modules

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

LAYOUTS = [
    ("", ""),
    (" p ( 'a' , NOT = x ) ;", 'p("a", NOT=x).\n'),
    ("p(x)\n  :- q(x),\n !r(x),\n\n  NOT s(x)", "p(x) :- q(x), not r(x), not s(x).\n"),
    ("p(1). p(2).\n\n\n\np(3)\n", "p(1).\np(2).\n\np(3).\n"),
    ('@deny("a",\n  "b")\n\np(x) :- q(x).', '@deny("a", "b")\np(x) :- q(x).\n'),
    # the breaks of an author stay in what does not fit on one line
    (
        f"p(x) :- a(x), b(x),\n  c(x), {'d(x),' * 18}\n\n  e(x).",
        f"p(x) :-\n  a(x), b(x),\n  c(x), {'d(x), ' * 17}d(x),\n  e(x).\n",
    ),
    # what is too long is filled, a nested list below its first item
    (
        f"p(x) :- q({', '.join(f'column{at}=x' for at in range(1, 13))}), r(x) , n = count{{ s : q(s) }}, n > 1.",
        f"p(x) :-\n  q({', '.join(f'column{at}=x' for at in range(1, 11))},\n    column11=x, column12=x),\n"
        "  r(x), n = count{ s : q(s) }, n > 1.\n",
    ),
    (
        f"p(x) :- (q(x, \"{'a' * 40}\"), not (r(x), s(x)) or q(x, \"{'b' * 50}\") or s(x)).",
        f'p(x) :-\n  (q(x, "{"a" * 40}"), not (r(x), s(x))\n   or q(x, "{"b" * 50}") or s(x)).\n',
    ),
    (
        f'relation r(host: string, rack: string or null) key(host) "{"m" * 90}".',
        f'relation r(host: string, rack: string or null)\n  key(host) "{"m" * 90}".\n',
    ),
    (f"export {', '.join(['a' * 30] * 4)}.", f"export {', '.join(['a' * 30] * 3)},\n       {'a' * 30}.\n"),
    # comments
    ("// a\n\n\n# b \r\n\n\n/* c\r\n d */ p(1).\n\n// e", "// a\n\n# b\n\n/* c\n d */\np(1).\n\n// e\n"),
    ("p(1). // a\n// b\nq(2). /* c */ // d", "p(1).  // a\n// b\nq(2).  /* c */ // d\n"),
    ("p(1). /* a */ q(2).", "p(1).\n/* a */\nq(2).\n"),
    ("@deny('a', // b\n'c') // d\n// e\np(1).", '@deny("a",  // b\n      "c")  // d\n// e\np(1).\n'),
    ("p(x) :- // a\nq(x), // b\n// c\nr(x) // d\n. // e",
     "p(x) :-  // a\n  q(x),  // b\n  // c\n  r(x).  // d\n// e\n"),
    ("p(x) :- q(x /* a */), r(/* b */ x).", "p(x) :-\n  q(x),\n  /* a */\n  /* b */\n  r(x).\n"),
    ("p(x) :- q(x, /* a */ y), (a(x) // b\n or b(x)).",
     "p(x) :-\n  q(x,\n    /* a */\n    y),\n  (a(x)  // b\n   or b(x)).\n"),
    ("p(x) :- x = 1 + /* a */ 2, q(x).", "p(x) :-\n  x = 1 + 2,\n  /* a */\n  q(x).\n"),
    ("p(1) :- q( // a\n1, 2 // b\n), // c\nr.", "p(1) :-\n  q(1, 2),  // a\n  // b\n  // c\n  r().\n"),
    ("relation r(a, // b\nc) // d\n key(a) // e\n. // f",
     "relation r(a,  // b\n           c)  // d\n  // e\n  key(a).  // f\n"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "formatted"), LAYOUTS)
def test_a_text_is_written_one_way(text: str, formatted: str) -> None:
    assert format_text(text) == formatted
    assert format_text(formatted) == formatted


def test_what_can_not_be_read_is_not_formatted() -> None:
    with pytest.raises(RulesError) as refused:
        format_text("p(x.\nq(1).\nr(,", "f.dl")
    assert refused.value.diagnostics == (
        Diagnostic("syntax", "found `.`, expected `,` or `)`", Span("f.dl", 1, 4, 1, 5), "write `)` before `.`"),
        Diagnostic("syntax", "found `,`, expected a value", Span("f.dl", 3, 3, 3, 4)),
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_rules_of_a_page_are_formatted(page: Path) -> None:
    for text in re.findall(r"```prolog\n(.*?)```", page.read_text("utf-8"), re.S):
        assert format_text(text) == text


BETWEEN = ["", "", "", " ", "\n ", "\n\n\n ", " /* a */ ", " /* b\n  c */ ", " // d\n ", " # e \n\n ", " /**/ // f\n "]


@settings(max_examples=sample(150))
@given(modules, st.randoms(use_true_random=False))
def test_formatting_keeps_statements_and_comments_and_is_done_after_once(module: ast.Module, random: Random) -> None:
    source = Source(plain := print_module(module), "f.dl")
    text, end = "", 0
    for token in source.tokens:
        text += plain[end : token.start] + random.choice(BETWEEN) + token.text
        end = token.end
    formatted = format_text(text, "f.dl")
    assert parse(formatted, "f.dl", "f") == (module, ())
    assert _comments(formatted) == _comments(text)
    assert format_text(formatted, "f.dl") == formatted


def _comments(text: str) -> list[str]:
    return [comment.text.rstrip() for comment in Source(text, "f.dl").comments]
