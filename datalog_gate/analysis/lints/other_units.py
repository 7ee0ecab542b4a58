"""A size in another unit: a volume's GiB with ``500 * 1024``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts, Given
from datalog_gate.analysis.constants import name_of
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.base.diagnostics import NOWHERE, Span
from datalog_gate.schema.declaration import RelationRef, relation_name

UNITS = {
    ("os:cinder:volume", "size"): "GiB", ("cinder:volumes", "size"): "GiB", ("os:manila:share", "size"): "GiB",
    ("os:trove:instance", "size"): "GiB", ("os:trove:cluster.instances", "volume_size"): "GiB",
    ("os:nova:flavor", "disk"): "GiB", ("os:nova:flavor", "ephemeral"): "GiB", ("os:nova:flavor", "ram"): "MiB",
    ("os:nova:flavor", "swap"): "MiB", ("nova:flavors", "disk"): "GiB", ("nova:flavors", "ephemeral"): "GiB",
    ("nova:flavors", "ram"): "MiB", ("os:glance:web_image", "min_disk"): "GiB",
    ("os:glance:web_image", "min_ram"): "MiB", ("os:nova:server.block_device_mapping", "volume_size"): "GiB",
    ("os:nova:server.block_device_mapping_v2", "volume_size"): "GiB",
    ("os:nova:server.block_device_mapping_v2", "ephemeral_size"): "GiB",
    ("os:nova:server.block_device_mapping_v2", "swap_size"): "MiB", ("os:zun:container", "memory"): "MiB",
}  # fmt: skip
"""The units of columns that hold a size."""
STEP = 1024
MOST = {"GiB": 64 * STEP, "MiB": 64 * STEP * STEP}
"""64 TiB. A single thing is rarely larger, so a larger number probably has a smaller unit. A sum may be 1024 times
that."""
ARITHMETIC: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": Fraction.__add__, "-": Fraction.__sub__, "*": Fraction.__mul__,
    "/": lambda left, right: left / right if right else left,
}  # fmt: skip
Sizes = dict[RelationRef, dict[int, "SizedValue"]]
"""The columns that are sizes, by relation and position."""


class SizedValue(NamedTuple):
    """The unit of a number."""

    column: str
    unit: str
    most: Fraction
    """The largest plausible number."""
    computed: bool = False
    """Whether it is a multiple of the column."""


@lint(
    code="kind-mismatch",
    wrong="p(x) :- os:cinder:volume(_id=x, size=n), n ?? 0 > 500 * 1024.",
    right="p(x) :- os:cinder:volume(_id=x, size=n), n ?? 0 > 500.",
)
def find_other_units(review: Review) -> Found:
    columns = _sized_columns(review)
    for body in review.bodies if columns else ():
        if sizes := _sizes(body, columns):
            yield from _find(body, sizes, columns)


def _sized_columns(review: Review) -> Sizes:
    """The columns that are sizes, including those that rules derive."""
    columns: Sizes = {}
    for name, relation in review.relations.items():
        for at, column in enumerate(relation.columns):
            if unit := UNITS.get((relation_name(name), column.name)):
                columns.setdefault(name, {})[at] = SizedValue(column.name, unit, Fraction(MOST[unit]))
    for rule in review.rules if columns else ():
        body = review.body(rule)
        known = _sizes(body, columns)
        for at, term in enumerate(rule.arguments) if known else ():
            if size := known.get(body.leader(term)):
                columns.setdefault(rule.relation, {})[at] = size
    return columns


def _find(body: BodyFacts, sizes: Mapping[ir.Operand, SizedValue], columns: Sizes) -> Found:
    """Report comparisons of the body's sizes with bytes, or with an implausibly large number."""
    numbers = _numbers(body)
    given: dict[tuple[Span, Fraction], SizedValue] = {}
    for literal in body.own:
        match literal:
            case ir.Match(relation):
                for at, term in literal.column_terms:
                    if (number := _number(term)) is not None and (size := columns.get(relation, {}).get(at)):
                        given[literal.span, number] = size
                    elif size := sizes.get(body.leader(term)):
                        given |= dict.fromkeys(_stated(body.listed(term)), size)
            case ir.Compare(span=span):
                for side, _, other in literal.from_each_side:
                    if size := sizes.get(body.leader(side)):
                        yield from _in_bytes(side, size, other, body, span)
                        given |= dict.fromkeys(_stated(body.listed(other)), size)
                        if (number := _number_of(other, body, numbers)) is not None:
                            given[span, number] = size
    for (span, number), size in given.items():
        if number > size.most:
            message = f"{size.column} is in {size.unit}, and never as large as {_shown(number)}"
            guess = "" if size.computed else f", {_in_unit(number, size.most)}"
            yield warn("kind-mismatch", message, span, f"write the number of {size.unit}{guess}")


def _in_bytes(side: ir.Operand, size: SizedValue, other: ir.Operand, body: BodyFacts, span: Span) -> Found:
    calls = (literal for literal in body.around if isinstance(literal, ir.Call) and literal.builtin == "parse_size")
    parsed = {body.leader(call.outputs[0]) for call in calls if call.outputs[0]}
    if not size.computed and body.leader(other) in parsed:
        factor = "1024 * 1024 * 1024" if size.unit == "GiB" else "1024 * 1024"
        message = f"{size.column} is in {size.unit}, but parse_size returns bytes"
        yield warn("kind-mismatch", message, span, f"compare {name_of(side)} * {factor}")


def _sizes(body: BodyFacts, columns: Sizes) -> dict[ir.Operand, SizedValue]:
    """The classes of a body that are sizes, or are computed from them."""
    sizes: dict[ir.Operand, SizedValue] = {}
    for literal in body.around:
        match literal:
            case ir.Match(relation):
                for at, size in columns.get(relation, {}).items():
                    if isinstance(term := literal.arguments[at], ir.Var):
                        sizes[body.leader(term)] = size
            case ir.Fold("sum" | "max" | "min" | "avg" as function, (first, *_), inner, target):
                within = BodyFacts(inner)
                if size_of_term := _sizes(within, columns).get(within.leader(first)):
                    more = STEP if function == "sum" else 1
                    sizes[body.leader(target)] = size_of_term._replace(most=size_of_term.most * more)
    for literal in body.around if sizes else ():
        match literal:
            case ir.Call("??", (value, _), (ir.Var() as result,)) if known := sizes.get(body.leader(value)):
                sizes[body.leader(result)] = known
            case ir.Call("*" | "/" as sign, (value, ir.Const(int() | Decimal() as factor)), (ir.Var() as result,)):
                if factor > 0 and (known := sizes.get(body.leader(value))):
                    most = ARITHMETIC[sign](known.most, Fraction(factor))
                    sizes[body.leader(result)] = known._replace(most=most, computed=True)
    return sizes


def _numbers(body: BodyFacts) -> dict[ir.Operand, Fraction]:
    """The numbers that the body writes, or computes from such numbers only, by class."""
    numbers: dict[ir.Operand, Fraction] = {}
    for literal in body.around:
        match literal:
            case ir.Call("+" | "-" | "*" | "/" as sign, (left, right), (ir.Var() as result,)):
                first, second = (_number_of(term, body, numbers) for term in (left, right))
                if first is not None and second is not None:
                    numbers[body.leader(result)] = ARITHMETIC[sign](first, second)
    return numbers


def _number_of(operand: ir.Operand, body: BodyFacts, numbers: Mapping[ir.Operand, Fraction]) -> Fraction | None:
    given = [number for constant, _ in body.constants(operand, NOWHERE) if (number := _number(constant)) is not None]
    return given[0] if given else numbers.get(body.leader(operand))


def _number(operand: ir.Operand) -> Fraction | None:
    if isinstance(operand, ir.Const) and isinstance(operand.value, int | Decimal):
        return Fraction(operand.value)
    return None


def _stated(constants: Iterable[Given]) -> Iterator[tuple[Span, Fraction]]:
    for constant, span in constants:
        if (number := _number(constant)) is not None:
            yield span, number


def _in_unit(number: Fraction, most: Fraction) -> str:
    """The number that was probably meant, at most a TiB."""
    step = STEP if number % STEP == 0 else 1000
    while number > most / 64:
        number /= step
    return _shown(number)


def _shown(number: Fraction) -> str:
    return str(number) if number.denominator == 1 else f"{float(number):g}"
