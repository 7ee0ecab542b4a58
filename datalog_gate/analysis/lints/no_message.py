"""A policy without a message for the user who is refused."""

from __future__ import annotations

from datalog_gate.analysis.linting import Found, Review, lint, warn


@lint(
    code="no-message",
    wrong='@deny("a") p(x) :- heat:stack(id=x).',
    right='@deny("a", "{x}") p(x) :- heat:stack(id=x).',
    loading=False,
)
def find_silent_policies(review: Review) -> Found:
    for policy in review.policies:
        if "message" not in policy.texts:
            advice = f'write @{policy.level}("{policy.id}", "...") with a message for the user who is refused'
            yield warn("no-message", f"{policy.id} has no message", policy.span, advice)
