"""A rule whose body is false."""

from __future__ import annotations

from datalog_gate.analysis.linting import Found, Review, lint, warn


@lint(
    code="never-fires",
    wrong="p(x) :- heat:stack(id=x), false.",
    right="p(x) :- heat:stack(id=x).",
    loading=False,
)
def find_false_bodies(review: Review) -> Found:
    for written, rules in review.ways:
        if not rules:
            advice = "correct the condition, or remove the rule"
            yield warn("never-fires", "this rule never holds: its body is false", written.head.name_span, advice)
