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
    for literal, _ in review.literals:
        if isinstance(literal, ir.Fold) and literal.function == "count":
            yield from _find(literal, review)


def _find(fold: ir.Fold, review: Review) -> Found:
    first, *keys = fold.terms
    if not keys or not isinstance(first, ir.Var) or not first.name:
        return
    for literal in fold.body:
        if isinstance(literal, ir.Compare) and literal.null_test and first in (literal.left, literal.right):
            return
    columns = [review.column(place) for place in BodyFacts(fold.body).places(first)]
    if columns and all(Kind.NULL in column.kinds for column in columns):
        written = ", ".join(name_of(term) for term in (*keys, first) if isinstance(term, ir.Var))
        message = f"count leaves out the rows in which its first term, {first.name}, is null"
        suggestion = f"write `count{{ {written} : ... }}`, or say `{first.name} != null`"
        yield warn("set-aggregate", message, fold.span, suggestion)
