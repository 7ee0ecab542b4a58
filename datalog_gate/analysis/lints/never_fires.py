"""A body that no values satisfy: ``n > 10, n < 5``.

Other examples are ``f = "a", f = "b"`` and a relation that no rule or fact can fill. All findings are certain.
`ranges` and `bodies` compute what each condition implies.
"""

from __future__ import annotations

from collections.abc import Set

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.analysis.ranges import Ranges
from datalog_gate.analysis.slices import derivable
from datalog_gate.schema.declaration import RelationRef


@lint(
    code="never-fires",
    wrong="p(x) :- heat:stack(id=x, depth=d), d = 0, d = 1.",
    right="p(x) :- heat:stack(id=x, depth=d), d = 0.",
)
def find_contradictions(review: Review) -> Found:
    """Report rules that never hold, in all of their alternatives."""
    inputs = frozenset[RelationRef]().union(*(rule.mentioned for rule in review.rules)) - review.by_relation.keys()
    live = derivable(review.rules, inputs)
    for written, rules in review.ways:
        reasons = (_find_reason(rule, review, live) for rule in rules if rule.body)
        first = next(reasons, None)
        if first and all(reasons):
            suggestion = "correct the condition, or remove the rule"
            yield warn("never-fires", f"this rule never holds: {first}", written.head.name_span, suggestion)


def _find_reason(rule: ir.CheckedRule, review: Review, live: Set[RelationRef]) -> str | None:
    """Why the rule never holds: it reads a relation that never has a row, or no values satisfy it."""
    dead = (match.relation for match in rule.body if isinstance(match, ir.Match) and match.relation not in live)
    if name := next(dead, None):
        return f"{name} never has a row"
    return Ranges(review, review.body(rule)).contradiction()
