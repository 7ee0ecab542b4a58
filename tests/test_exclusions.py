"""Conditions that are said to exclude each other do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import datalog_gate as dg
from datalog_gate.analysis.lint.linear import Linear, find_infeasible
from datalog_gate.analysis.lint.text_machines import TextTest, find_exclusion, node_of
from datalog_gate.analysis.patterns import compile_search
from datalog_gate.analysis.program import Var
from datalog_gate.decision.policy_set import RuleFile, load

TEXTS = ["".join(text) for length in range(4) for text in product("abA-1\n", repeat=length)]
"""The texts that a drawn test is tried on."""
TESTS: dict[str, Callable[[str, str], bool]] = {
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": str.__contains__,
    "=": str.__eq__,
    "lower": lambda text, _: text.lower() == text,
    "upper": lambda text, _: text.upper() == text,
    "matches": lambda text, pattern: compile_search(pattern)(text),
}
ATOMS = ["a", "b", "A", "-", ".", "^", "$", r"\A", r"\z", r"\d", r"\W", "[a-b]", "[^a]", "[a1-]", "[]a]", "[[:upper:]]"]
PATTERNS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "*?"])).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=5,
)
DRAWN = st.one_of(
    st.builds(
        TextTest, st.just("matches"), st.tuples(st.sampled_from(["", "(?i)"]), PATTERNS).map("".join), st.booleans()
    ),
    st.builds(
        TextTest,
        st.sampled_from(["starts_with", "ends_with", "contains", "="]),
        st.text("abA-1", max_size=2),
        st.booleans(),
    ),
    st.sampled_from([TextTest("lower"), TextTest("upper")]),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(DRAWN, min_size=1, max_size=3), st.integers(0, 2), st.sampled_from([None, 2, 3]))
def test_no_text_passes_tests_that_exclude_each_other(tests: list[TextTest], low: int, high: int | None) -> None:
    excluding = find_exclusion(tests, low, high)
    lengths = range(low, 4 if high is None else high + 1)
    of_length = [text for text in TEXTS if len(text) in lengths]
    passing = [
        text
        for text in of_length
        if all(TESTS[test.name](text, test.part) != test.negated for test in excluding or tests)
    ]
    assert excluding is None or not passing


@settings(max_examples=80, deadline=None)
@given(DRAWN, st.sampled_from(TEXTS))
def test_a_text_fits_what_is_made_of_a_test_that_it_passes(test: TextTest, text: str) -> None:
    if test.name not in ("lower", "upper") and node_of(test):
        asked = find_exclusion([test, TextTest("=", text)])
        assert (asked is None) == (TESTS[test.name](text, test.part) != test.negated)


@pytest.mark.parametrize("pattern", [r"\bweb", r"\pL", "(?s).", "(?P<n>a)", r"\Qa\E", "(a{20}){20}"])
def test_a_pattern_that_is_not_read_admits_every_text(pattern: str) -> None:
    assert node_of(TextTest("matches", pattern)) is None
    assert find_exclusion([TextTest("matches", pattern), TextTest("=", "~")]) is None


CONDITIONS = st.lists(
    st.tuples(st.tuples(*[st.integers(-2, 2)] * 3), st.integers(-4, 4), st.booleans()), min_size=1, max_size=5
)


@settings(max_examples=80, deadline=None)
@given(CONDITIONS)
def test_no_numbers_satisfy_infeasible_conditions(
    drawn: list[tuple[tuple[int, int, int], int, bool]],
) -> None:
    conditions = [
        Linear(
            {Var(name): Fraction(factor) for name, factor in zip("xyz", factors, strict=True) if factor},
            Fraction(limit),
            strict,
            frozenset((at,)),
        )
        for at, (factors, limit, strict) in enumerate(drawn)
    ]
    sources = find_infeasible(conditions)
    for values in product(map(Fraction, range(-3, 4)), repeat=3) if sources else ():
        sums = [sum(factor * value for factor, value in zip(factors, values, strict=True)) for factors, _, _ in drawn]
        assert not all(
            sums[at] < limit if strict else sums[at] <= limit
            for at, (_, limit, strict) in enumerate(drawn)
            if at in (sources or ())
        )


def test_conditions_exclude_each_other_over_several_variables() -> None:
    x, y = Var("x"), Var("y")
    below = Linear({x: Fraction(1), y: Fraction(-1)}, Fraction(0), strict=True, sources=frozenset((0,)))
    above = Linear({y: Fraction(1), x: Fraction(-1)}, Fraction(0), sources=frozenset((1,)))
    other = Linear({x: Fraction(1)}, Fraction(5), sources=frozenset((2,)))
    assert find_infeasible([below, above, other]) == frozenset((0, 1))
    assert find_infeasible([below, other]) is None


LITERALS = (
    "q(x, n)", "q(x, m)", "q(y, n)", "x = y", "n < m", "n >= m + 1", "m = n * 2", "n > 2", "m <= 3", "not (n > 3)",
    "n % 2 > 0", "n / 2 < 1", "not (m - 1 < 2)", "count{ z : q(z, n) } < 2", "count{ z : q(z, _) } = 0", "n != m",
    "max{ k : q(_, k) } < n", "min{ k : q(x, k) } >= m", "count{ z : q(z, _), z = x } > 1", "not q(x, m)",
    "m < 3, n > m",
    "t(x, s)", "starts_with(s, \"a\")", "matches(s, \"^ab?$\")", "not contains(s, \"b\")", "len(s, l), l > n",
    "lower(s, u), matches(u, \"[A-Z]\")", "upper(s, v), v = s", "concat(s, \"b\", c), t(_, c)",
)  # fmt: skip
FACTS: Mapping[str, Sequence[Sequence[object]]] = {
    "q": [(x, n) for x in ("a", "b", "c") for n in range(1, 6) if (ord(x) + n) % 3],
    "t": [("a", "a"), ("a", "ab"), ("b", "B"), ("c", "abb"), ("c", "AB")],
}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(LITERALS), min_size=1, max_size=5, unique=True))
def test_a_rule_that_the_lint_calls_dead_derives_nothing(literals: list[str]) -> None:
    body = ", ".join(("q(x, n)", "q(y, m)", "t(x, s)", *literals))
    declared = "relation q(x: string, n: number).\nrelation t(x: string, s: string).\n"
    try:
        rules = load([RuleFile("m", "m.dl", f'{declared}@deny("a", "{{x}}")\np(x) :- {body}.\n')])
    except dg.RulesError:
        return
    if any(warning.code == "never-fires" and "rule" in warning.message for warning in rules.warnings):
        assert dg.query(f"{declared}p(x) :- {body}.", "p(x)", facts=FACTS) == set()
