"""A policy without a message for the user who is refused."""

from __future__ import annotations

from collections.abc import Iterator

from datalog_gate.analysis.linting import Lint, Review, warn
from datalog_gate.base.diagnostics import Diagnostic


def find_silent_policies(review: Review) -> Iterator[Diagnostic]:
    for policy in review.policies:
        if "message" not in policy.texts:
            advice = f'write @{policy.level}("{policy.id}", "...") with a message for the user who is refused'
            yield warn("no-message", f"{policy.id} has no message", policy.span, advice)


LINT = Lint(
    code="no-message",
    wrong='@deny("a") p(x) :- heat:stack(id=x).',
    right='@deny("a", "{x}") p(x) :- heat:stack(id=x).',
    find=find_silent_policies,
    loading=False,
)
