"""Two variables that have the names of each other's column."""

from __future__ import annotations

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.linting import Found, Review, lint, warn


@lint(
    code="by-position",
    wrong="p(x) :- heat:property(x, value, path), value = path.",
    right="p(x) :- heat:property(x, path, value), value = path.",
)
def find_exchanged(review: Review) -> Found:
    for match, _ in review.matches:
        relation = review.relations[match.relation]
        named = {term.name: at for at, term in match.column_terms if isinstance(term, ir.Var) and term.name}
        for here, at in named.items():
            own, there = relation.positions.get(here, at), relation.columns[at].name
            if own < at and named.get(there) == own:
                message = f"the variables {there} and {here} are swapped: each is in the column of the other"
                yield warn("by-position", message, match.span, f"write {here}={here}, {there}={there}")
