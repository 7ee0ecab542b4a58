"""A policy that no test expects."""

from __future__ import annotations

from shlex import quote

from datalog_gate.analysis.linting import Found, Review, lint, warn


@lint(
    code="no-test",
    wrong='@deny("b", "{x}") p(x) :- heat:stack(id=x).',
    right='@deny("a", "{x}") p(x) :- heat:stack(id=x).',
    loading=False,
)
def find_untested_policies(review: Review) -> Found:
    for policy in review.policies:
        if policy.id not in review.tested:
            advice = f"write its examples as cases with `datalog-gate test --init {quote(policy.id)}`"
            yield warn("no-test", f"no test expects {policy.id}", policy.span, advice)
