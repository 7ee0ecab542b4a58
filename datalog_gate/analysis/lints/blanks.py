"""A text with a blank at its start or end."""

from __future__ import annotations

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.diagnostics import Span, suggest_code
from datalog_gate.base.values import print_value


@lint(
    code="unknown-value",
    wrong='p(x) :- os:nova:server(_id=x, flavor="m1.small ").',
    right='p(x) :- os:nova:server(_id=x, flavor="m1.small").',
)
def find_blanks(review: Review) -> Found:
    for rule in review.own_rules:
        for argument in rule.arguments if not rule.body else ():
            yield from _find(argument, rule.span)
    for literal, _ in review.literals:
        match literal:
            case ir.Match() | ir.Compare("=" | "!="):
                for operand in ir.operands(literal):
                    yield from _find(operand, literal.span)


def _find(operand: ir.Pattern, span: Span) -> Found:
    if isinstance(operand, ir.Const) and isinstance(operand.value, str):
        stripped = operand.value.strip()
        if stripped and stripped != operand.value:
            message = f"{operand.value!r} has a blank at its {'start' if operand.value[0].isspace() else 'end'}"
            yield warn("unknown-value", message, span, suggest_code(print_value(stripped)))
