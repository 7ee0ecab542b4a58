"""A constant that a template may write in another kind.

A template may say true where the rule asks for "true".
"""

from __future__ import annotations

from datalog_gate.analysis.bodies import Given
from datalog_gate.analysis.constants import twins
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.diagnostics import suggest_code
from datalog_gate.base.values import Kind, print_value
from datalog_gate.schema.declaration import RelationRef, relation_name

BESIDE_VALUES = ("heat:metadata", "heat:environment", "heat:condition")
"""Relations whose column `value` holds a template value of any kind."""
UNCONVERTED = ("heat:environment", "heat:condition")
"""Those of which Heat converts nothing to a text."""


@lint(
    code="kind-mismatch",
    wrong='p(x) :- os:nova:server.metadata(_id=x, _key="public", _value="true").',
    right='p(x) :- os:nova:server.metadata(_id=x, _key="public", _value=v), v in [true, "true"].',
)
def find_other_kinds(review: Review) -> Found:
    values: dict[tuple[RelationRef, str], list[Given]] = {}
    for match, body in review.matches:
        for at, argument in match.column_terms:
            column = review.column((match, at))
            if column.kinds == Kind.ANY and (match.relation in BESIDE_VALUES or column.name == "_value"):
                values.setdefault((match.relation, column.name), []).extend(body.stated(argument, match.span))
    for (relation, name), given in values.items():
        known = {constant.value for constant, _ in given}
        for constant, span in given:
            others = twins(constant.value, relation_name(relation) not in UNCONVERTED)
            for twin in [other for other in others if other not in known][:1]:
                here, there = print_value(constant.value), print_value(twin)
                what = "a string" if isinstance(constant.value, str) else "not a string"
                code = f"{name.strip('_')} in [{there}, {here}]"
                message = f"{here} is {what}: a template with {there} passes"
                yield warn("kind-mismatch", message, span, suggest_code(code, "`"))
