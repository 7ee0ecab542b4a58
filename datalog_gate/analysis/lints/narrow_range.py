"""A comparison of a range or a filter that misses wider ones.

``min ?? 65535 <= 22`` is false of a rule without a lower bound, which opens every port.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.bodies import BodyFacts
from datalog_gate.analysis.linting import Found, Review, lint, warn
from datalog_gate.analysis.ranges import Restriction
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import Kind, Value, show
from datalog_gate.schema.declaration import Relation, RelationRef, relation_name

Bounds = tuple[str, str]
"""The columns of a relation that are the bounds of a range, such as `port_range_min` and `port_range_max`. Null means
no bound."""
Comparison = tuple[Restriction, Value, Span]
"""A comparison of a bound, the default for a null bound (or None), and the place."""
FILTERS = ("os:neutron:security_group.rules", "os:neutron:security_group_rule")
OPEN = {"protocol": "any protocol", "remote_ip_prefix": "every address"}
"""The meaning of a filter's column that is left out."""
WORLD = ("0.0.0.0/0", "::/0")


@lint(
    code="narrow-range",
    wrong="p(x) :- os:neutron:security_group_rule(_id=x, port_range_min=a), a ?? 65535 <= 22.",
    right="p(x) :- os:neutron:security_group_rule(_id=x, port_range_min=a), a ?? 0 <= 22.",
)
def find_narrow_ranges(review: Review) -> Found:
    bounds: dict[RelationRef, list[Bounds]] = {
        name: pairs for name, relation in review.relations.items() if (pairs := _bounds(relation))
    }
    for body in review.bodies if bounds else ():
        for match in body.own if not body.negated else ():
            if isinstance(match, ir.Match) and match.relation in bounds:
                positions = review.relations[match.relation].positions
                if relation_name(match.relation) in FILTERS:
                    yield from _narrow_defaults(match, positions, body)
                for low, high in bounds[match.relation]:
                    yield from _find(match, low, high, body, positions)


def _bounds(relation: Relation) -> list[Bounds]:
    pairs = [(name, name.replace("min", "max")) for name in relation.positions if "min" in name]
    nullable = {column.name for column in relation.columns if Kind.NULL in column.kinds} if pairs else set()
    return [pair for pair in pairs if nullable.issuperset(pair)]


def _find(match: ir.Match, low: str, high: str, body: BodyFacts, positions: Mapping[str, int]) -> Found:
    """Check the comparisons of a range with the bounds `low` and `high`."""
    ends = match.arguments[positions[low]], match.arguments[positions[high]]
    lows, highs = (_comparisons(end, body) for end in ends)
    yield from _excluding_defaults(low, lows, "<")
    yield from _excluding_defaults(high, highs, ">")
    at_least = {condition.constant for condition, _, _ in lows if condition.comparator == ">="}
    at_most = {condition.constant for condition, _, _ in highs if condition.comparator == "<="}
    exact = _equals(ends[0], match, body) & _equals(ends[1], match, body)
    for value in sorted((at_least & at_most) | exact, key=show)[:1]:
        message = f"this finds only the range {show(value)} to {show(value)}: a wider range passes"
        written = f"{low}=low, {high}=high, low ?? 0 <= {show(value)}, high ?? 65535 >= {show(value)}"
        yield warn("narrow-range", message, match.span, f"write {written}")


def _equals(bound: ir.Pattern, match: ir.Match, body: BodyFacts) -> set[Value]:
    """The numbers that the body requires a bound to be, whatever its default."""
    operands = body.defaults(bound) if isinstance(bound, ir.Var) else (bound,)
    given = [constant.value for operand in operands for constant, _ in body.stated(operand, match.span)]
    return {value for value in given if isinstance(value, int)}


def _narrow_defaults(match: ir.Match, positions: Mapping[str, int], body: BodyFacts) -> Found:
    """Report a default for a protocol or network that fails the comparison beside it."""
    for column, what in OPEN.items():
        given = match.arguments[positions[column]]
        for literal in body.own if given else ():
            match literal:
                case ir.Call("??", (value, ir.Const(str() as default)), (ir.Var() as result,), span) if value == given:
                    wanted = sorted({text for text, _ in body.texts(result, span)})
                    if wanted and default not in wanted and not (column == "remote_ip_prefix" and default in WORLD):
                        message = f"a rule without {column} allows {what}, but with this default, {default},"
                        best = next((text for text in wanted if text in WORLD), wanted[0])
                        yield warn("narrow-range", f"{message} it is not found", span, f'write `?? "{best}"`')


def _comparisons(bound: ir.Pattern, body: BodyFacts) -> list[Comparison]:
    defaults = body.defaults(bound) if isinstance(bound, ir.Var) else {}
    result: list[Comparison] = []
    for literal in body.own if defaults else ():
        if isinstance(literal, ir.Compare):
            for side, sign, other in literal.from_each_side:
                if (operand := body.leader(side)) in defaults:
                    conditions = (Restriction(sign, constant.value) for constant, _ in body.stated(other, literal.span))
                    result += [(condition, defaults[operand], literal.span) for condition in conditions]
    return result


def _excluding_defaults(column: str, comparisons: Iterable[Comparison], sign: str) -> Found:
    """Report a default that excludes ranges without the bound. `sign` is the operator that finds wide ranges."""
    for condition, default, span in comparisons:
        is_wide = condition.comparator.startswith(sign) and isinstance(default, int)
        if is_wide and isinstance(condition.constant, int) and not condition.admits(default):
            message = f"a range without {column} has no bound, but with this default, {show(default)} {condition}"
            advice = f"write the widest default, ?? {0 if sign == '<' else 65535}"
            yield warn("narrow-range", f"{message} is false", span, advice)
