"""A text that the time never has, or not compared as time."""

from __future__ import annotations

import re

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.constants import TESTS, quoted, read_day
from datalog_gate.analysis.linting import Found, Review, lint, warn

START = re.compile(r"\d{1,4}|\d{4}-[\d-]*(T[\d:+.]*)?")
PART = re.compile(r"[\dT:+.-]+")
WRITTEN = "it is written like 2027-03-01T12:00:00+00:00"


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
                    message = f"the time is never {text!r}: {WRITTEN}"
                    advice = 'compare it, time >= "2027-03-01", or use days_until'
                    yield warn("unknown-value", message, span, advice)
            case ir.Compare("<" | "<=" | ">" | ">="):
                for operand, _, other in literal.from_each_side:
                    if is_time(operand, body):
                        yield from _compared(other, body, literal)
            case ir.Call(name, (text, part), ()) if name in TESTS and name != "matches" and is_time(text, body):
                yield from _searched(part, body, literal)


def is_time(operand: ir.Operand, body: BodyFacts) -> bool:
    """Whether the operand is the time of the decision."""
    return any(match.relation == "gate:now" for match, _ in body.places(operand))


def _compared(other: ir.Operand, body: BodyFacts, compare: ir.Compare) -> Found:
    for text, span in body.texts(other, compare.span):
        if not read_day(text):
            message = f"{text!r} is not a time: times are compared as text"
            yield warn("unknown-value", message, span, 'write it like "2027-03-01"')


def _searched(part: ir.Operand, body: BodyFacts, call: ir.Call) -> Found:
    known = START if call.builtin == "starts_with" else PART
    for text, span in body.texts(part, call.span):
        if not known.fullmatch(text):
            message = f"the time never has {quoted(text)}: {WRITTEN}"
            yield warn("unknown-value", message, span, 'compare it, time >= "2027-03-01", or use unpack_date')
