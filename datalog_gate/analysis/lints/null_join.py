"""A join of two columns that may both be null.

Null never joins null. Reported is a join with a fact that contains null, and, in the rule of a policy, one of two
derived relations. Elsewhere such a join is usually intended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts, Place
from datalog_gate.analysis.constants import name_of
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.diagnostics import Advice, Code
from datalog_gate.base.values import Kind


@lint(
    code="null-join",
    wrong='bad("m1"). bad(null). p(x) :- os:nova:server(_id=x, image=i), bad(i).',
    right='bad("m1"). p(x) :- os:nova:server(_id=x, image=i), (i = null or bad(i)).',
)
def find_null_joins(review: Review) -> Found:
    outermost = {id(rule.body) for rule in review.own_rules if rule.relation in review.annotated}
    for body in review.bodies:
        of_policy = not body.outer and id(body.own) in outermost
        for var, places in _joins(body, review):
            yield from _find(var, places, of_policy, review)


def _joins(body: BodyFacts, review: Review) -> Iterator[tuple[ir.Operand, Sequence[Place]]]:
    """The variables that the body joins, with their columns, if all of these may be null and no test excludes it."""
    tested = {
        body.leader(side)
        for literal in body.around
        if isinstance(literal, ir.Compare) and literal.comparator == "!=" and literal.null_test
        for side in (literal.left, literal.right)
    }
    own = {id(literal) for literal in body.own}
    for var, places in body.classes():
        nullable = len(places) > 1 and all(Kind.NULL in review.column(place).kinds for place in places)
        if nullable and var not in tested and any(id(match) in own for match, _ in places):
            yield var, [*(p for p in places if id(p[0]) in own), *(p for p in places if id(p[0]) not in own)]


def _find(var: ir.Operand, places: Sequence[Place], of_policy: bool, review: Review) -> Found:
    name = name_of(var)
    facts = review.facts
    stated = [m for m, at in places if any(fact.arguments[at] == ir.NULL for fact in facts.get(m.relation, ()))]
    if stated:
        relation = stated[0].relation
        message = f"{relation} contains null, but null never joins: a row is not found where {name} is null"
        suggestion = f"test for it, `({name} = null or ...)`, and leave null out of {relation}"
        yield warn("null-join", message, stated[0].span, suggestion)
    elif of_policy and all(match.relation in review.by_relation for match, _ in places):
        first, second = (match for match, _ in places[:2])
        names = dict.fromkeys(str(match.relation) for match in (first, second))
        message = f"{name} may be null in both rows of {' and '.join(names)}, but null never joins null"
        condition = f"{name} != null"
        suggestion = Advice(
            f'give it a default where it is derived, `{name} ?? "none"`, or add `{condition}` here',
            Code('"none"', "default", name),
            Code(condition, "condition"),
        )
        yield warn("null-join", message, second.span, suggestion)
