"""Comparisons of ranges and filters that miss wider ones.

``min ?? 65535 <= 22`` is false of a rule without a lower bound, which opens every port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from datalog_gate.analysis import program as ir
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.values import Kind, Value, show
from datalog_gate.schema.declaration import Relation, RelationRef, relation_name

Listed = Callable[[ir.Operand], Sequence[tuple[ir.Const, Span]]]
"""Returns the constants of the facts and lists that a variable is joined with."""
Bounds = tuple[str, str]
"""The columns of a relation that are the bounds of a range, such as `port_range_min` and `port_range_max`. Null means
no bound."""
FILTERS = ("os:neutron:security_group.rules", "os:neutron:security_group_rule")
OPEN = {"protocol": "any protocol", "remote_ip_prefix": "every address"}
"""The meaning of a filter's column that is left out."""
WORLD = ("0.0.0.0/0", "::/0")


def find_bounds(relation: Relation) -> list[Bounds]:
    """The ranges of a relation."""
    pairs = [(name, name.replace("min", "max")) for name in relation.positions if "min" in name]
    nullable = {column.name for column in relation.columns if Kind.NULL in column.kinds} if pairs else set()
    return [pair for pair in pairs if nullable.issuperset(pair)]


def find_narrow_ranges(
    body: Sequence[ir.CheckedLiteral],
    relations: Mapping[RelationRef, Relation],
    bounds: Mapping[RelationRef, Sequence[Bounds]],
    listed: Listed,
) -> Iterator[Diagnostic]:
    """Check comparisons with the bounds of a range, and with columns of filters whose null means all. `bounds` are the
    relations that have ranges, with these."""
    for match in body:
        if not isinstance(match, ir.Match) or match.relation not in bounds:
            continue
        positions = relations[match.relation].positions
        if relation_name(match.relation) in FILTERS:
            yield from _narrow_defaults(match, positions, body, listed)
        for low, high in bounds[match.relation]:
            sides = [match.arguments[positions[name]] for name in (low, high)]
            lows, highs = (_comparisons(side, body, listed) for side in sides)
            yield from _excluding_defaults(low, lows, "<")
            yield from _excluding_defaults(high, highs, ">")
            yield from _reversed_range(low, lows, high, highs, match)
            at_least = {limit for sign, limit, _, _ in lows if sign == ">="}
            at_most = {limit for sign, limit, _, _ in highs if sign == "<="}
            exact = _equals(sides[0], body, listed) & _equals(sides[1], body, listed)
            for value in sorted((at_least & at_most) | exact, key=show)[:1]:
                message = f"this finds only the range {show(value)} to {show(value)}: a wider range passes"
                suggestion = f"write {low}=low, {high}=high, low ?? 0 <= {show(value)}, high ?? 65535 >= {show(value)}"
                yield _warning(message, match.span, suggestion)


def _equals(bound: ir.Pattern, body: Sequence[ir.CheckedLiteral], listed: Listed) -> set[Value]:
    """The numbers that the body requires a bound to be, whatever its default."""
    if isinstance(bound, ir.Const):
        return {bound.value} if isinstance(bound.value, int) else set()
    if bound is None:
        return set()
    names: set[ir.Operand] = {bound}
    for literal in body:
        if isinstance(literal, ir.Call) and literal.builtin == "??" and literal.inputs[0] == bound:
            names |= {output for output in literal.outputs if output}
    given = {constant.value for name in names for constant, _ in listed(name)}
    for literal in body:
        if isinstance(literal, ir.Compare) and literal.comparator == "=":
            for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
                if side in names and isinstance(other, ir.Const):
                    given.add(other.value)
    return {value for value in given if isinstance(value, int)}


def _narrow_defaults(
    match: ir.Match, positions: Mapping[str, int], body: Sequence[ir.CheckedLiteral], listed: Listed
) -> Iterator[Diagnostic]:
    """Report a default for a protocol or network that fails the comparison beside it."""
    for column, what in OPEN.items():
        given = match.arguments[positions[column]]
        for literal in body:
            match literal:
                case ir.Call("??", (value, ir.Const(str() as default)), (ir.Var() as result,), span) if value == given:
                    wanted = sorted(_wanted(result, body, listed))
                    if wanted and default not in wanted and not (column == "remote_ip_prefix" and default in WORLD):
                        message = (
                            f"a rule without {column} allows {what}, but with this default, {default}, it is not found"
                        )
                        best = next((text for text in wanted if text in WORLD), wanted[0])
                        yield _warning(message, span, f'write `?? "{best}"`')


def _wanted(result: ir.Var, body: Sequence[ir.CheckedLiteral], listed: Listed) -> set[str]:
    """The texts that the body requires a value to be."""
    wanted = {constant.value for constant, _ in listed(result)}
    for literal in body:
        match literal:
            case ir.Compare("=", left, right) if result in (left, right):
                wanted |= {side.value for side in (left, right) if isinstance(side, ir.Const)}
    return {value for value in wanted if isinstance(value, str)}


Comparison = tuple[str, Value, Value, Span]
"""A comparison of a bound: the operator, the constant, the default for a null bound (or None), and the place."""


def _comparisons(bound: ir.Pattern, body: Sequence[ir.CheckedLiteral], listed: Listed) -> list[Comparison]:
    if not isinstance(bound, ir.Var):
        return []
    defaults: dict[ir.Operand, Value] = {bound: None}
    for literal in body:
        if isinstance(literal, ir.Call) and literal.builtin == "??" and literal.inputs[0] == bound:
            default, output = literal.inputs[1], literal.outputs[0]
            if isinstance(default, ir.Const) and isinstance(output, ir.Var):
                defaults[output] = default.value
    for literal in body:
        if isinstance(literal, ir.Compare) and literal.comparator == "=":
            for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
                if other in defaults and isinstance(side, ir.Var):
                    defaults.setdefault(side, defaults[other])
    flipped = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
    result: list[Comparison] = []
    for literal in body:
        if isinstance(literal, ir.Compare) and literal.comparator in flipped:
            for side, other, sign in (
                (literal.left, literal.right, literal.comparator),
                (literal.right, literal.left, flipped[literal.comparator]),
            ):
                if side in defaults:
                    constants = (other,) if isinstance(other, ir.Const) else (constant for constant, _ in listed(other))
                    result += [(sign, constant.value, defaults[side], literal.span) for constant in constants]
    return result


def _excluding_defaults(column: str, comparisons: Iterable[Comparison], sign: str) -> Iterator[Diagnostic]:
    """Report a default that excludes ranges without the bound. `sign` is the operator that finds wide ranges."""
    for comparator, limit, default, span in comparisons:
        if not comparator.startswith(sign) or not isinstance(limit, int) or not isinstance(default, int):
            continue
        holds = {"<": default < limit, "<=": default <= limit, ">": default > limit, ">=": default >= limit}
        if not holds[comparator]:
            message = (
                f"a range without {column} has no bound, but with this default, {show(default)} "
                f"{comparator} {show(limit)} is false"
            )
            yield _warning(message, span, f"write the widest default, ?? {0 if sign == '<' else 65535}")


def _reversed_range(
    low: str, lows: Iterable[Comparison], high: str, highs: Sequence[Comparison], match: ir.Match
) -> Iterator[Diagnostic]:
    """Report a range that would have to begin after its end: ``min > 600, max < 600``. ICMP is left out, since its two
    columns are a type and a code."""
    if any(
        isinstance(term, ir.Const) and str(term.value).startswith(("icmp", "ipv6-icmp")) for term in match.arguments
    ):
        return
    for sign, least, default, span in lows:
        for other, most, other_default, _ in highs:
            if not (isinstance(least, int) and isinstance(most, int) and sign[0] == ">" and other[0] == "<"):
                continue
            start, end = least + (sign == ">"), most - (other == "<")
            defaults = (
                isinstance(default, int) and default >= start,
                isinstance(other_default, int) and other_default <= end,
            )
            if end < start and not any(defaults):
                message = f"this finds only a range whose {high} is below its {low}"
                suggestion = f"write {low} ?? 0 <= {show(least)}, {high} ?? 65535 >= {show(most)}"
                yield _warning(message, span, suggestion)


def _warning(message: str, span: Span, suggestion: str) -> Diagnostic:
    return Diagnostic("narrow-range", message, span, suggestion, "warning")
