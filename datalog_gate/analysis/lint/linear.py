"""Sums and comparisons that no numbers satisfy together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lint.entailment import NEGATED
from datalog_gate.analysis.same_values import SameValues
from datalog_gate.base.records import dataclass

MOST = 150
"""The maximum number of conditions in a search. Beyond it they are assumed to be satisfiable."""


Exact = int | Fraction


@dataclass(frozen=True, slots=True)
class Linear:
    """``sum of factor * variable <= limit``, or ``<`` if `strict`. `sources` are the conditions it was derived from."""

    factors: Mapping[ir.Operand, Exact]
    limit: Exact
    strict: bool = False
    sources: frozenset[int] = frozenset()


def conditions_of(body: Sequence[ir.CheckedLiteral], same: SameValues) -> Iterator[Linear]:
    """Yield the sums, differences, multiples and comparisons of a body's variables as conditions."""
    for at, literal in enumerate(body):
        match literal:
            case ir.Compare("<" | "<=" | ">" | ">=" as sign, ir.Var() as left, ir.Var() as right):
                yield _ordered(sign, same.of(left), same.of(right), at)
            case ir.Without((ir.Compare("<" | "<=" | ">" | ">=" as sign, ir.Var() as left, ir.Var() as right),)):
                yield _ordered(NEGATED[sign], same.of(left), same.of(right), at)
            case ir.Call("+" | "-" as sign, (left, right), (ir.Var() as result,)):
                parts = ((left, 1), (right, 1 if sign == "+" else -1), (result, -1))
                yield from _equal([(same.of(operand), factor) for operand, factor in parts], at)
            case ir.Call("*", (left, right), (ir.Var() as result,)):
                for term, factor in ((left, same.of(right)), (right, same.of(left))):
                    if isinstance(factor, ir.Const) and isinstance(factor.value, int | Decimal):
                        parts_of = [(same.of(term), exact(factor.value)), (same.of(result), -1)]
                        yield from _equal(parts_of, at)


def _ordered(sign: str, left: ir.Operand, right: ir.Operand, source: int) -> Linear:
    less, more = (left, right) if sign.startswith("<") else (right, left)
    factors = {less: 1, more: -1} if less != more else {}
    return Linear(factors, 0, len(sign) == 1, frozenset((source,)))


def _equal(parts: Iterable[tuple[ir.Operand, Exact]], source: int) -> Iterator[Linear]:
    """Yield two conditions that together say that the sum of multiples is 0."""
    factors: dict[ir.Operand, Exact] = {}
    limit: Exact = 0
    for operand, factor in parts:
        if isinstance(operand, ir.Var):
            factors[operand] = factors.get(operand, 0) + factor
        elif isinstance(operand.value, int | Decimal):
            limit -= factor * exact(operand.value)
        else:
            return
    factors = {operand: factor for operand, factor in factors.items() if factor}
    sources = frozenset((source,))
    yield Linear(factors, limit, sources=sources)
    yield Linear({operand: -factor for operand, factor in factors.items()}, -limit, sources=sources)


def exact(number: int | Decimal) -> Exact:
    return number if isinstance(number, int) else Fraction(number)


def find_infeasible(conditions: Sequence[Linear]) -> frozenset[int] | None:
    """The sources of conditions that exclude each other, or None (Fourier-Motzkin elimination)."""
    left = list(conditions)
    while True:
        for condition in left:
            if not condition.factors and (condition.limit < 0 or (condition.strict and condition.limit == 0)):
                return condition.sources
        variables = {variable for condition in left for variable in condition.factors}
        if not variables or len(left) > MOST:
            return None
        left = _without(min(variables, key=lambda variable: _cost(variable, left)), left)


def _cost(variable: ir.Operand, conditions: Iterable[Linear]) -> tuple[int, str]:
    signs = [condition.factors[variable] > 0 for condition in conditions if variable in condition.factors]
    return sum(signs) * (len(signs) - sum(signs)), str(variable)


def _without(variable: ir.Operand, conditions: Sequence[Linear]) -> list[Linear]:
    """The conditions on the other variables that these imply."""
    rest = [condition for condition in conditions if variable not in condition.factors]
    bounds = [condition for condition in conditions if variable in condition.factors]
    for upper in bounds:
        for lower in bounds:
            up, down = upper.factors[variable], lower.factors[variable]
            if up > 0 > down and len(rest) <= MOST:
                rest.append(_sum(upper, lower, variable))
    return rest


def _sum(upper: Linear, lower: Linear, variable: ir.Operand) -> Linear:
    """The sum of two conditions, scaled so that the variable drops out."""
    up, down = -lower.factors[variable], upper.factors[variable]
    factors: dict[ir.Operand, Exact] = {}
    for condition, scale in ((upper, up), (lower, down)):
        for name, factor in condition.factors.items():
            factors[name] = factors.get(name, 0) + factor * scale
    return Linear(
        {name: factor for name, factor in factors.items() if factor},
        upper.limit * up + lower.limit * down,
        upper.strict or lower.strict,
        upper.sources | lower.sources,
    )
