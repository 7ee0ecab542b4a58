"""A join of two columns that may both be null.

Null never joins null. Reported is a join of two derived relations. Elsewhere such a join is usually intended.
"""

from __future__ import annotations

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import name_of
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.diagnostics import Advice, Code
from datalog_gate.base.values import Kind


@lint(
    code="null-join",
    wrong="@deny p(x) :- zone(x, z), zone(y, z), x != y. zone(s, z) :- os:nova:server(_id=s, image=z).",
    right='@deny p(x) :- zone(x, z), zone(y, z), x != y. zone(s, z ?? "") :- os:nova:server(_id=s, image=z).',
)
def find_null_joins(review: Review) -> Found:
    """Report variables of which all columns may be null and come from rules, if no test excludes it."""
    policies = (rule for rule in review.own_rules if rule.relation in review.annotated)
    for body in map(review.body, policies):
        tests = (literal for literal in body.own if isinstance(literal, ir.Compare) and literal.null_test)
        tested = {body.leader(side) for test in tests if test.comparator == "!=" for side in (test.left, test.right)}
        for var, places in body.classes():
            nullable = len(places) > 1 and all(Kind.NULL in review.column(place).kinds for place in places)
            if nullable and var not in tested and all(match.relation in review.by_relation for match, _ in places):
                first, second = (match for match, _ in places[:2])
                names = dict.fromkeys(str(match.relation) for match in (first, second))
                name, condition = name_of(var), f"{name_of(var)} != null"
                message = f"{name} may be null in both rows of {' and '.join(names)}, but null never joins null"
                suggestion = Advice(
                    f'give it a default where it is derived, `{name} ?? "none"`, or add `{condition}` here',
                    Code('"none"', "default", name),
                    Code(condition, "condition"),
                )
                yield warn("null-join", message, second.span, suggestion)
