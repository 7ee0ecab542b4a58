"""A text that is no time, compared with the decision's time."""

from __future__ import annotations

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import read_day
from datalog_gate.analysis.linting import Found, Review, lint, warn


@lint(
    code="unknown-value",
    wrong='p(x) :- heat:stack(id=x), gate:now(time), time > "2027-3-1".',
    right='p(x) :- heat:stack(id=x), gate:now(time), time > "2027-03-01".',
)
def find_times(review: Review) -> Found:
    for literal, body in review.literals:
        match literal:
            case ir.Match("gate:now", (argument,)):
                for text, span in body.texts(argument, literal.span)[:1]:
                    message = f"the time is never {text!r}: it is written like 2027-03-01T12:00:00+00:00"
                    advice = 'compare it, time >= "2027-03-01", or use days_until'
                    yield warn("unknown-value", message, span, advice)
            case ir.Compare("<" | "<=" | ">" | ">="):
                for operand, _, other in literal.from_each_side:
                    is_time = any(match.relation == "gate:now" for match, _ in body.places(operand))
                    for text, span in body.texts(other, literal.span) if is_time else ():
                        if not read_day(text):
                            message = f"{text!r} is not a time: times are compared as text"
                            yield warn("unknown-value", message, span, 'write it like "2027-03-01"')
