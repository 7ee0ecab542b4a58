"""A rule whose body is false."""

from __future__ import annotations

from collections.abc import Iterator

from datalog_gate.analysis.linting import Lint, Review, warn
from datalog_gate.base.diagnostics import Diagnostic


def find_false_bodies(review: Review) -> Iterator[Diagnostic]:
    for written, rules in review.ways:
        if not rules:
            advice = "correct the condition, or remove the rule"
            yield warn("never-fires", "this rule never holds: its body is false", written.head.name_span, advice)


LINT = Lint(
    code="never-fires",
    wrong="p(x) :- heat:stack(id=x), false.",
    right="p(x) :- heat:stack(id=x).",
    find=find_false_bodies,
    loading=False,
)
