"""A variable that occurs once, in any place."""

from __future__ import annotations

from datalog_gate.analysis.linting import Found, Review, lint
from datalog_gate.analysis.lints.single_use import find_unused_variables


@lint(
    code="used-once",
    wrong="p(x) :- q(x, y). q(1, 2).",
    right="p(x) :- q(x, _). q(1, 2).",
    loading=False,
)
def find_any_single_use(review: Review) -> Found:
    return find_unused_variables(review, every=True)
