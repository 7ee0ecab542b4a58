"""The modern form of rules, with functions as terms."""

from __future__ import annotations

import pytest

from datalog_gate.analysis.modern_form import modernize
from datalog_gate.language.formatter import format_text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('lower(x, y), matches(y, "^a")', 'matches(lower(x), "^a")'),
        ("trim(x, t), lower(t, y), y != x", "lower(trim(x)) != x"),
        ("lower(x, y), y in [x, z], len(y, n), n > 3", "lower(x, y), y in [x, z], len(y) > 3"),
        ("lower(x, y), upper(z, y)", "upper(z) = lower(x)"),
        ("len(x, n), n + 1 > 3, r(z, n)", "len(x, n), n + 1 > 3, r(z, n)"),
        ("lower(x, y), r(x, y)", "r(x, lower(x))"),
        ("lower(x, y), not starts_with(y, z)", "not starts_with(lower(x), z)"),
        # a capture that finds nothing makes its body false, and a negation true
        ('capture(x, "(a)", y), not starts_with(y, z)', 'capture(x, "(a)", y), not starts_with(y, z)'),
        ('capture(x, "(a)(b)", 2, y), y = z', 'capture(x, "(a)(b)", 2) = z'),
        # the result has another use, or its use lies in another body
        ("lower(x, y), not r(y, _)", "lower(x, y), not r(y, _)"),
        ("lower(x, y), n = count{ z : r(z, y) }, n > 1", "lower(x, y), n = count{ z : r(z, y) }, n > 1"),
        ("(lower(x, y), y = z or len(x, n), n > z)", "(lower(x) = z or len(x) > z)"),
        ("n = count{ z : r(z, x), len(x, k), k > 1 }, n > 1", "n = count{ z : r(z, x), len(x) > 1 }, n > 1"),
        ("replace(x, z, y, y)", "replace(x, z, y, y)"),
        ("builtin:lower(x, y), y = z", "builtin:lower(x) = z"),
        ("own(x, y), y = z", "own(x, y), y = z"),
        ("starts_with(x, y), unpack_date(x, a, b, c), a > b", "starts_with(x, y), unpack_date(x, a, b, c), a > b"),
    ],
)
def test_a_function_stands_where_its_result_is_used(before: str, after: str) -> None:
    text = "p(x, z) :- q(x, z), {}.\nown(x, y) :- q(x, y).\n"
    assert format_text(text.format(before), rewrite=modernize) == text.format(after)
    assert format_text(text.format(after), rewrite=modernize) == text.format(after)


def test_a_result_in_the_head_keeps_its_name() -> None:
    text = "p(y) :- q(x), lower(x, y).\n"
    assert format_text(text, rewrite=modernize) == text
