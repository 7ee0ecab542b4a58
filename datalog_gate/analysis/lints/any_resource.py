"""A `not` or an aggregate that joins no resource beside it.

It is about the rows of any resource.
"""

from __future__ import annotations

from collections.abc import Sequence

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import name_of
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.values import Kind
from datalog_gate.schema.declaration import relation_name
from datalog_gate.schema.relations import UNLOCKED

OF_ONE_RESOURCE = ("heat:deletion_policy", "heat:metadata", "heat:property", "heat:reference", "heat:update_policy")


@lint(
    code="cartesian",
    wrong='p(x) :- os:nova:server(_id=x), not os:nova:server.metadata(_key="owner").',
    right='p(x) :- os:nova:server(_id=x), not os:nova:server.metadata(_id=x, _key="owner").',
)
def find_rows_of_any_resource(review: Review) -> Found:
    for literal, body in review.literals:
        match literal:
            case ir.Without((ir.Match() as asked,)):
                if not any(isinstance(term, ir.Var) for term in asked.arguments):
                    yield from _find(asked, body.around, review)
            case ir.Fold(function, _, (ir.Match() as asked,)):
                beside = [other for other in body.around if other is not literal]
                others = {var for other in beside for var in ir.variables(other)}
                if others.isdisjoint(asked.arguments):
                    yield from _find(asked, beside, review, function)


def _find(asked: ir.Match, around: Sequence[ir.CheckedLiteral], review: Review, function: str = "") -> Found:
    relation = asked.relation
    table, _, part = relation_name(relation).partition(".")
    is_service = relation == UNLOCKED
    at = 1 if is_service else 0  # the column of the resource
    is_any = bool(asked.column_terms or is_service) and asked.arguments[at] is None
    if not is_any or review.column((asked, at)).kinds != Kind.RESOURCE:
        return
    for near in around:
        if isinstance(near, ir.Match) and near.arguments and isinstance(near.arguments[0], ir.Var):
            other = relation_name(near.relation).partition(".")[0]
            of_one = is_service or relation in OF_ONE_RESOURCE
            if table == other if part else of_one and other.startswith("os:"):
                name = name_of(near.arguments[0])
                message = f"this asks whether any resource has such a row of {relation}, not whether {name} has"
                if is_service:
                    message = f"this asks whether the service is unlocked for any resource, not whether for {name}"
                elif function:
                    message = f"this {function} takes the rows of {relation} of all resources, not of {name}"
                yield warn("cartesian", message, asked.span, f"add {review.column((asked, at)).name}={name} to it")
                return
