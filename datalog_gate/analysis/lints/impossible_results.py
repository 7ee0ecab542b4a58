"""A text with capital letters that `lower` never returns, or the reverse."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.diagnostics import suggest_code
from datalog_gate.base.values import print_value

CASES: Mapping[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper}


@lint(
    code="unknown-value",
    wrong='p(x) :- heat:resource(id=x, name=n), lower(n, "Web").',
    right='p(x) :- heat:resource(id=x, name=n), lower(n, "web").',
)
def find_impossible_results(review: Review) -> Found:
    for call, body in review.calls:
        match call:
            case ir.Call("lower" | "upper", _, (ir.Var() | ir.Const() as output,)):
                yield from _find(call, output, body)


def _find(call: ir.Call, output: ir.Operand, body: BodyFacts) -> Found:
    """Report a constant of the other case."""
    given = body.texts(output, call.span)
    for literal in body.around:
        match literal:
            case ir.Call("starts_with" | "ends_with" | "contains", (text, ir.Const(str() as part)), _, span):
                given += [(part, span)] if body.leader(text) == body.leader(output) else []
    for part, span in given:
        if (written := CASES[call.builtin](part)) != part:
            message = f"{call.builtin} never returns {part!r}"
            yield warn("unknown-value", message, span, suggest_code(print_value(written)))
