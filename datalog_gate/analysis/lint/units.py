"""Sizes compared with another unit: a volume's GiB with ``500 * 1024``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.constants import name_of
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.schema.declaration import Relation, RelationRef, relation_name

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
Sizes = Mapping[RelationRef, Mapping[int, "SizedValue"]]
"""The columns that are sizes, by relation and position."""
Listed = Callable[[ir.Operand], Sequence[tuple[ir.Const, Span]]]


class SizedValue(NamedTuple):
    """The unit of a number."""

    column: str
    unit: str
    most: Fraction
    """The largest plausible number."""
    computed: bool = False
    """Whether it is a multiple of the column."""


def find_sizes(rules: Iterable[ir.CheckedRule], relations: Mapping[RelationRef, Relation]) -> Sizes:
    """The columns that are sizes, including those that rules derive. Rules are best in the order of their strata."""
    sizes: dict[RelationRef, dict[int, SizedValue]] = {}
    for name, relation in relations.items():
        for at, column in enumerate(relation.columns):
            if unit := UNITS.get((relation_name(name), column.name)):
                sizes.setdefault(name, {})[at] = SizedValue(column.name, unit, Fraction(MOST[unit]))
    for rule in rules:
        known = _sizes(rule.body, sizes)
        for at, term in enumerate(rule.arguments) if known else ():
            if term in known:
                sizes.setdefault(rule.relation, {})[at] = known[term]
    return sizes


def find_other_units(
    body: Sequence[ir.CheckedLiteral], around: Sequence[ir.CheckedLiteral], columns: Sizes, listed: Listed
) -> Iterator[Diagnostic]:
    """Report comparisons of a body's sizes with bytes, or with an implausibly large number. `around` are its literals
    and those of the bodies around it. `listed` returns the constants of the facts that a variable is joined with."""
    sizes = _sizes(around, columns)
    if not sizes:
        return
    numbers = _numbers(around)
    in_bytes = {output for literal in around for output in _parsed(literal)}
    given: dict[tuple[Span, Fraction], SizedValue] = {}
    for literal in body:
        match literal:
            case ir.Match(relation):
                for at, term in literal.column_terms:
                    if (number := _number(term)) is not None and (size := columns.get(relation, {}).get(at)):
                        given[literal.span, number] = size
                    elif term in sizes:
                        given |= dict.fromkeys(_stated(listed(term)), sizes[term])
            case ir.Compare(_, left, right, span):
                for side, other in ((left, right), (right, left)):
                    if size := sizes.get(side):
                        if other in in_bytes and not size.computed:
                            factor = "1024 * 1024 * 1024" if size.unit == "GiB" else "1024 * 1024"
                            message = f"{size.column} is in {size.unit}, but parse_size returns bytes"
                            yield _warning(message, span, f"compare {name_of(side)} * {factor}")
                        given |= dict.fromkeys(_stated(listed(other)), size)
                        given |= {(span, numbers[other]): size} if other in numbers else {}
    for (span, number), size in given.items():
        if number > size.most:
            message = f"{size.column} is in {size.unit}, and never as large as {_shown(number)}"
            guess = "" if size.computed else f", {_in_unit(number, size.most)}"
            yield _warning(message, span, f"write the number of {size.unit}{guess}")


def _sizes(body: Sequence[ir.CheckedLiteral], columns: Sizes) -> dict[ir.Operand, SizedValue]:
    """The values of a body that are sizes, or are computed from them."""
    sizes: dict[ir.Operand, SizedValue] = {}
    for literal in body:
        match literal:
            case ir.Match(relation):
                own = columns.get(relation, {})
                sizes |= {term: own[at] for at, term in literal.column_terms if at in own} if own else {}
            case ir.Fold("sum" | "max" | "min" | "avg" as function, (first, *_), inner, target):
                if size := _sizes(inner, columns).get(first):
                    sizes[target] = size._replace(most=size.most * STEP) if function == "sum" else size
    for literal in body if sizes else ():
        match literal:
            case ir.Call("??", (value, _), (ir.Var() as result,)) if value in sizes:
                sizes[result] = sizes[value]
            case ir.Call("*" | "/" as sign, (value, ir.Const(int() | Decimal() as factor)), (ir.Var() as result,)):
                if value in sizes and factor > 0:
                    most = ARITHMETIC[sign](sizes[value].most, Fraction(factor))
                    sizes[result] = sizes[value]._replace(most=most, computed=True)
            case ir.Compare("=", ir.Var() as left, ir.Var() as right):
                for value, other in ((left, right), (right, left)):
                    if value in sizes:
                        sizes.setdefault(other, sizes[value])
    return sizes


def _numbers(body: Sequence[ir.CheckedLiteral]) -> dict[ir.Operand, Fraction]:
    """The numbers that the body writes, or computes from such numbers only."""
    numbers: dict[ir.Operand, Fraction] = {}

    def number_of(operand: ir.Operand) -> Fraction | None:
        return _number(operand) if isinstance(operand, ir.Const) else numbers.get(operand)

    for literal in body:
        match literal:
            case ir.Call("+" | "-" | "*" | "/" as sign, (left, right), (ir.Var() as result,)):
                first, second = number_of(left), number_of(right)
                if first is not None and second is not None:
                    numbers[result] = ARITHMETIC[sign](first, second)
            case ir.Compare(_, left, right):
                for side, other in ((left, right), (right, left)):
                    number = number_of(side)
                    if number is not None:
                        numbers[side] = number
                        if literal.comparator == "=" and isinstance(other, ir.Var):
                            numbers.setdefault(other, number)
    return numbers


def _number(operand: ir.Operand) -> Fraction | None:
    if isinstance(operand, ir.Const) and isinstance(operand.value, int | Decimal):
        return Fraction(operand.value)
    return None


def _stated(constants: Iterable[tuple[ir.Const, Span]]) -> Iterator[tuple[Span, Fraction]]:
    for constant, span in constants:
        if (number := _number(constant)) is not None:
            yield span, number


def _parsed(literal: ir.CheckedLiteral) -> Sequence[ir.Pattern]:
    return literal.outputs if isinstance(literal, ir.Call) and literal.builtin == "parse_size" else ()


def _in_unit(number: Fraction, most: Fraction) -> str:
    """The number that was probably meant, at most a TiB."""
    step = STEP if number % STEP == 0 else 1000
    while number > most / 64:
        number /= step
    return _shown(number)


def _shown(number: Fraction) -> str:
    return str(number) if number.denominator == 1 else f"{float(number):g}"


def _warning(message: str, span: Span, suggestion: str) -> Diagnostic:
    return Diagnostic("kind-mismatch", message, span, suggestion, "warning")
