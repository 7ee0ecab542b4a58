"""Which values the constraint `allowed_pattern` takes, without Heat's risk of matching forever."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from datalog_gate.template.allowed_pattern import matches_whole
from tests.sampling import sample

A30 = "a" * 30


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        pytest.param("[a-z+*]+", "a+b", True, id="a sign of repetition within a class is none"),
        pytest.param("a|ab", "ab", False, id="the first match must end there, not any"),
        pytest.param("(a+)+", A30 + "!", False, id="repetitions within repetitions are RE2's"),
        pytest.param("([a-z]([a-z0-9-]*[a-z0-9])?[.])+", "a.b-c.", True, id="names of domains"),
        pytest.param("a*b*c*d*e*", "abcde", True, id="so are many"),
        pytest.param("a*b*c*d*e*", "abcdf", False, id="and a value that they refuse"),
        pytest.param("a+", "a" * 9999, True, id="and a long value"),
        pytest.param("(a+)+(?=b)", A30, None, id="RE2 looks not ahead"),
        pytest.param(r"(a+)+\1", A30, None, id="nor back"),
        pytest.param(r"(ab*)\1", "abab", None, id="even without repetitions in repetitions"),
        pytest.param("(a*)*b", A30, None, id="nothing may be repeated"),
        pytest.param("(a+)+$", A30 + "\n", None, id="a line may end before the end"),
        pytest.param(r"(\w+)+", "é", None, id="Python has letters beyond ASCII"),
        pytest.param("(a+)+{,3}", "a", None, id="one reads a repetition where the other reads a text"),
        pytest.param(r"((\b|a)+)+", "a-", None, id="the end of a word is nothing, too"),
        pytest.param("(?x)(a+)+ # )", "a", None, id="a comment is no group"),
        pytest.param("(a+)+(b{500}){500}", "a" * 99, None, id="what grows too large is left alone"),
    ],
)
def test_a_value_matches_if_the_test_ends_in_time(pattern: str, value: str, expected: bool | None) -> None:
    assert matches_whole(pattern, value) is expected


ATOMS = st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\w", r"\W", r"\b", "^", "$", "[a+*]", r"\+", r"\s"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}", "{2}", "*?", "+?", "??"])).map(
            lambda two: f"({two[0]}){two[1]}"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=sample(400))
@given(PATTERNS, st.text("ab+ .", max_size=8))
def test_patterns_match_as_in_python(pattern: str, value: str) -> None:
    assert re.compile(pattern)
    told = matches_whole(pattern, value)
    assume(told is not None)
    matching = re.match(pattern, value)
    assert told is (matching is not None and matching.end() == len(value))
