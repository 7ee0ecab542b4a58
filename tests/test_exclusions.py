"""Conditions that are said to exclude each other do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

import datalog_gate as dg
from datalog_gate.decision.policy_set import RuleFile, load

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
