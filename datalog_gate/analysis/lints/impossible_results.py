"""A text that the builtin or aggregate beside it never returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import quoted
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.diagnostics import suggest_code

CASES: Mapping[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper}


@lint(
    code="unknown-value",
    wrong='p(x) :- heat:resource(id=x, name=n), lower(n, "Web").',
    right='p(x) :- heat:resource(id=x, name=n), lower(n, "web").',
)
def find_impossible_results(review: Review) -> Found:
    for literal, body in review.literals:
        match literal:
            case ir.Call("lower" | "upper", _, (ir.Var() | ir.Const() as output,)):
                yield from _case(literal, output, body)
                yield from _two_cases(literal, output, body)
            case ir.Compare("=" | "!="):
                yield from _list(literal, body)


def _case(call: ir.Call, output: ir.Operand, body: BodyFacts) -> Found:
    """Report a constant of the other case."""
    given = body.texts(output, call.span)
    for literal in body.around:
        match literal:
            case ir.Call("starts_with" | "ends_with" | "contains", (text, ir.Const(str() as part)), _, span):
                given += [(part, span)] if body.leader(text) == body.leader(output) else []
    for part, span in given:
        if (written := CASES[call.builtin](part)) != part:
            message = f"{call.builtin} never returns {part!r}"
            yield warn("unknown-value", message, span, suggest_code(quoted(written)))


def _two_cases(call: ir.Call, output: ir.Operand, body: BodyFacts) -> Found:
    """Report a text that would have to be both lower and upper case."""
    for literal in body.around if call.builtin == "lower" else ():
        match literal:
            case ir.Call("upper", _, (ir.Var() as other,)) if body.leader(other) == body.leader(output):
                message = "the results of lower and upper are equal only for text without letters"
                yield warn("unknown-value", message, call.span, "use lower for both")


def _list(compare: ir.Compare, body: BodyFacts) -> Found:
    """Report a text that `list` never returns: its items are sorted and joined by commas without blanks."""
    folds = [literal for literal in body.around if isinstance(literal, ir.Fold) and literal.function == "list"]
    lists = {body.leader(fold.target) for fold in folds}
    for term, _, other in compare.from_each_side:
        if lists and body.leader(term) in lists and isinstance(other, ir.Const) and isinstance(other.value, str):
            meant = ",".join(sorted(part.strip() for part in other.value.split(",")))
            if meant != other.value:
                message = f"list never returns {quoted(other.value)}: it sorts its items and joins them with"
                message = f"{message} commas without blanks"
                yield warn("unknown-value", message, compare.span, suggest_code(quoted(meant)))
