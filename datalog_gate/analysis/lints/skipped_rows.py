"""A count that leaves out rows in which its term is null."""

from __future__ import annotations

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import name_of
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.values import Kind


@lint(
    code="set-aggregate",
    wrong="p(n) :- n = count{ size, v : os:cinder:volume(_id=v, size=size) }.",
    right="p(n) :- n = count{ v, size : os:cinder:volume(_id=v, size=size) }.",
)
def find_skipped_rows(review: Review) -> Found:
    for fold, _ in review.literals:
        match fold:
            case ir.Fold("count", (ir.Var() as first, _, *_)) if first.name:
                tests = [literal for literal in fold.body if isinstance(literal, ir.Compare) and literal.null_test]
                columns = [review.column(place) for place in BodyFacts(fold.body).places(first)]
                tested = any(first in (test.left, test.right) for test in tests)
                if columns and not tested and all(Kind.NULL in column.kinds for column in columns):
                    written = ", ".join(name_of(term) for term in (*fold.terms[1:], first) if isinstance(term, ir.Var))
                    message = f"count leaves out the rows in which its first term, {first.name}, is null"
                    suggestion = f"write `count{{ {written} : ... }}`, or say `{first.name} != null`"
                    yield warn("set-aggregate", message, fold.span, suggestion)
