"""A size in another unit: a volume's GiB with ``500 * 1024``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts, Given
from datalog_gate.analysis.constants import name_of
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.diagnostics import Span
from datalog_gate.schema.declaration import Column

STEP = 1024
MOST = {"GiB": 64 * STEP, "MiB": 64 * STEP * STEP}
"""64 TiB. A single thing is rarely larger, so a larger number probably has a smaller unit."""
BYTES = {"GiB": "1024 * 1024 * 1024", "MiB": "1024 * 1024"}
Sizes = Mapping[ir.Operand, Column]
"""The columns of sizes, by the class of variables that holds one, or one with a default."""


@lint(
    code="kind-mismatch",
    wrong="p(x) :- os:cinder:volume(_id=x, size=n), n ?? 0 > 500 * 1024.",
    right="p(x) :- os:cinder:volume(_id=x, size=n), n ?? 0 > 500.",
)
def find_other_units(review: Review) -> Found:
    for body in review.bodies:
        if sizes := _find_sizes(body, review):
            yield from _find(body, sizes)


def _find(body: BodyFacts, sizes: Sizes) -> Found:
    parsed = {call.outputs[0] for call in body.around if isinstance(call, ir.Call) and call.builtin == "parse_size"}
    numbers: dict[tuple[int, Span], Column] = {}
    for literal in body.own:
        if isinstance(literal, ir.Match):
            for _, term in literal.column_terms:
                if size := sizes.get(body.leader(term)):
                    numbers |= dict.fromkeys(_whole(body.listed(term)), size)
        elif isinstance(literal, ir.Compare):
            for side, _, other in literal.from_each_side:
                if size := sizes.get(body.leader(side)):
                    numbers |= dict.fromkeys(_numbers(other, body, literal.span), size)
                    if other in parsed:
                        message = f"{size.name} is in {size.unit}, but parse_size returns bytes"
                        advice = f"compare {name_of(side)} * {BYTES[size.unit]}"
                        yield warn("kind-mismatch", message, literal.span, advice)
    for (number, span), size in numbers.items():
        if number > MOST[size.unit]:
            message = f"{size.name} is in {size.unit}, and never as large as {number}"
            yield warn("kind-mismatch", message, span, f"write the number of {size.unit}{_guess(number, size.unit)}")


def _find_sizes(body: BodyFacts, review: Review) -> Sizes:
    sizes: dict[ir.Operand, Column] = {}
    for operand, places in body.classes():
        for column in map(review.column, places):
            if column.unit:
                sizes |= dict.fromkeys(body.defaults(operand), column)
    return sizes


def _guess(number: int, unit: str) -> str:
    """The number that was probably meant, at most a TiB, after a comma; nothing if no other unit gives a whole one."""
    step = STEP if number % STEP == 0 else 1000
    while number > MOST[unit] / 64:
        number, rest = divmod(number, step)
        if rest:
            return ""
    return f", {number}"


def _numbers(operand: ir.Operand, body: BodyFacts, span: Span) -> Iterator[tuple[int, Span]]:
    """The numbers that an operand must equal, products among them."""
    yield from _whole(body.stated(operand, span))
    for literal in body.around:
        match literal:
            case ir.Call("*", inputs, (output,)) if output == operand:
                factors = [next((n for n, _ in _numbers(term, body, span)), None) for term in inputs]
                yield from [(prod(filter(None, factors)), span)] if None not in factors else []


def _whole(constants: Iterable[Given]) -> Iterator[tuple[int, Span]]:
    return ((constant.value, span) for constant, span in constants if isinstance(constant.value, int))
