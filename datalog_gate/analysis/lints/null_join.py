"""A join of two columns that may both be null.

Null never joins null. Reported is a join of two derived relations, and one with a null that a rule states. Elsewhere
such a join is usually intended.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import name_of
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.diagnostics import Advice, Code
from datalog_gate.base.values import Kind
from datalog_gate.schema.declaration import RelationRef


@lint(
    code="null-join",
    wrong="@deny p(x) :- zone(x, z), zone(y, z), x != y. zone(s, z) :- os:nova:server(_id=s, image=z).",
    right='@deny p(x) :- zone(x, z), zone(y, z), x != y. zone(s, z ?? "") :- os:nova:server(_id=s, image=z).',
)
def find_null_joins(review: Review) -> Found:
    """Report variables of which all columns may be null, if no test excludes it. They come from rules, or a rule states
    the null, `tcp(q) :- q in [null, "tcp"]`, and none asks for it."""
    policies = {review.body(rule) for rule in review.own_rules if rule.relation in review.annotated}
    asked = {(match.relation, at) for match, _ in review.matches for at, term in match.column_terms if term == ir.NULL}

    @cache
    def has_null(relation: RelationRef, at: int) -> bool:
        rules = review.by_relation.get(relation, ())
        return (relation, at) not in asked and any(_states_null(rule, at, review) for rule in rules)

    for body in review.bodies:
        tested = set(_list_tested(body))
        for var, places in body.classes():
            nullable = len(places) > 1 and all(Kind.NULL in review.column(place).kinds for place in places)
            if not nullable or var in tested:
                continue
            name, condition = name_of(var), f"{name_of(var)} != null"
            stating = [match for match, at in places if match in body.own and has_null(match.relation, at)]
            if stating:
                message = f"{stating[0].relation} has a null for {name}, but null never joins null"
                advice = f'write `{name} ?? "none"` here, and "none" for the null in {stating[0].relation}'
                yield warn("null-join", message, stating[0].span, advice)
            elif body in policies and all(match.relation in review.by_relation for match, _ in places):
                first, second = (match for match, _ in places[:2])
                names = dict.fromkeys(str(match.relation) for match in (first, second))
                message = f"{name} may be null in both rows of {' and '.join(names)}, but null never joins null"
                suggestion = Advice(
                    f'if nulls are to match, write `{name} ?? "none"` where it is derived; else add `{condition}` here',
                    Code('"none"', "default", name),
                    Code(condition, "condition"),
                )
                yield warn("null-join", message, second.span, suggestion)


def _list_tested(body: BodyFacts) -> Iterator[ir.Operand]:
    """The operands that a test of the body says not to be null."""
    for literal in body.around:
        match literal:
            case ir.Compare(comparator="!=", null_test=True):
                yield from (body.leader(literal.left), body.leader(literal.right))
            case ir.Call(outputs=()):
                yield from map(body.leader, literal.inputs)


def _states_null(rule: ir.CheckedRule, at: int, review: Review) -> bool:
    """Whether a rule writes a null into the column."""
    term = rule.arguments[at]
    return term == ir.NULL if not rule.body else ir.NULL in dict(review.body(rule).constants(term, rule.span))
