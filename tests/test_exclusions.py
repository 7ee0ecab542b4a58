"""Conditions that are said to exclude each other do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

import datalog_gate as dg
from datalog_gate.analysis.lint.linear import Linear, find_infeasible
from datalog_gate.analysis.program import Var
from datalog_gate.decision.policy_set import RuleFile, load

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
