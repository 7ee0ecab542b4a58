"""Bodies that hold of no values: ``n > 10, n < 5``, ``f = "a", f = "b"``, two values of a column in a row with one key.

Only comparisons with constants are read, so what is found is certain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.types import name_of
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.values import Kind, Value, kind_of, show
from datalog_gate.language.ast import Comparator
from datalog_gate.schema.cloud import LIVE
from datalog_gate.schema.declaration import Range, Relation, RelationRef, is_old, relation_name

FLIPPED: Mapping[str, Comparator] = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
NEGATED: Mapping[str, Comparator] = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "=": "!=", "!=": "="}
RANGES: Mapping[str, Range] = dict.fromkeys(("heat:stack.depth", "heat:member.index", "heat:file.length"), (0, None))
"""The ranges of numbers that are of no property."""

_NETS = ("os:neutron:net", "os:neutron:provider_net")
REFERENCES: Mapping[str, Collection[str]] = {
    **dict.fromkeys(("port", "port_id"), ("os:neutron:port",)),
    **dict.fromkeys(("network", "network_id"), _NETS),
    **dict.fromkeys(("subnet", "subnet_id"), ("os:neutron:subnet",)),
    **dict.fromkeys(("router", "router_id"), ("os:neutron:router",)),
    "security_group": ("os:neutron:security_group",),
    "floatingip_id": ("os:neutron:floating_ip",),
    "volume_id": ("os:cinder:volume",),
    "instance_uuid": ("os:nova:server",),
}
"""Properties that name a resource, with the relations of its types."""
REFERRED = frozenset(table for tables in REFERENCES.values() for table in tables)


def find_contradictions(
    rules: Sequence[ir.CheckedRule], relations: Mapping[RelationRef, Relation], heads: Mapping[Span, Span]
) -> Iterator[Diagnostic]:
    """Report the rules that never hold: those all of whose alternatives contradict themselves; and such negations.
    `heads` are the places of the heads' names by those of the rules."""
    ways: dict[tuple[RelationRef, Span], list[str | None]] = {}
    inner: dict[Span, str] = {}
    for rule in rules:
        if rule.body:
            ways.setdefault((rule.relation, rule.span), []).append(contradiction(rule.body, relations))
            inner |= _in_negations(rule.body, relations)
    for (_, span), reasons in ways.items():
        if all(reasons):
            message = f"this rule never holds: {reasons[0]}"
            suggestion = "correct the condition, or remove the rule"
            yield Diagnostic("never-fires", message, heads.get(span, span), suggestion, "warning")
    for span, reason in inner.items():
        message = f"this `not` always holds: {reason}"
        yield Diagnostic("never-fires", message, span, "correct the condition, or leave the `not` out", "warning")


def _in_negations(body: Sequence[ir.CheckedLiteral], relations: Mapping[RelationRef, Relation]) -> dict[Span, str]:
    reasons: dict[Span, str] = {}
    for literal in body:
        if isinstance(literal, ir.Without | ir.Fold):
            reasons |= _in_negations(literal.body, relations)
            if isinstance(literal, ir.Without) and (reason := contradiction(literal.body, relations)):
                reasons[literal.span] = reason
    return reasons


def contradiction(body: Sequence[ir.CheckedLiteral], relations: Mapping[RelationRef, Relation]) -> str | None:
    """Why the conjunction holds of no values, or None."""
    if reason := _two_types(body, relations):
        return reason
    keyed: dict[tuple[RelationRef, tuple[ir.Pattern, ...]], list[ir.Match]] = {}
    same = SameValues(body)
    ranges: dict[ir.Operand, _Range] = {}
    for literal in body:
        match literal:
            case ir.Match(relation, arguments):
                described = relations[relation]
                for column, argument in zip(described.columns, arguments, strict=True):
                    low, high = RANGES.get(f"{relation}.{column.name}", column.range)
                    if isinstance(argument, ir.Var) and column.closed and Kind.NULL not in column.kinds:
                        ranges.setdefault(same.of(argument), _Range()).texts = column.allowed
                    if argument is not None and (low, high) != (None, None):
                        known = ranges.setdefault(same.of(argument), _Range())
                        known.column = known.column or column.name
                        possible = known.narrow(">=", low) and known.narrow("<=", high)
                        if isinstance(argument, ir.Const) and not (possible and known.narrow("=", argument.value)):
                            return f"{column.name} is never {_show(argument.value)}"
                key = tuple(arguments[described.positions[name]] for name in described.key)
                if key and None not in key and len(key) < len(arguments):
                    named = tuple(same.of(part) for part in key if part is not None)
                    keyed.setdefault((relation, named), []).append(literal)
            case ir.Fold(function="count", target=target):
                ranges.setdefault(same.of(target), _Range()).narrow(">=", 0)
    for twins in keyed.values():
        for twin in twins[1:]:
            for column, one, other in zip(
                relations[twin.relation].columns, twins[0].arguments, twin.arguments, strict=True
            ):
                if isinstance(one, ir.Const) and isinstance(other, ir.Const) and one != other:
                    values = f"{_show(one.value)} and {_show(other.value)}"
                    return f"{column.name} of one row of {twin.relation} can't be {values}"
    for literal in body:
        negated = isinstance(literal, ir.Without) and len(literal.body) == 1
        compare = literal.body[0] if isinstance(literal, ir.Without) and negated else literal
        if not isinstance(compare, ir.Compare):
            continue
        if reason := _of_comparison(compare, negated, same, ranges):
            return reason
    return None


def _two_types(body: Sequence[ir.CheckedLiteral], relations: Mapping[RelationRef, Relation]) -> str | None:
    """Why a value would have to be resources of two types."""
    same = SameValues(body)
    tables: dict[ir.Operand, str] = {}
    references: dict[ir.Operand, tuple[str, Collection[str]]] = {}
    for literal in body:
        if not isinstance(literal, ir.Match) or not relations[literal.relation].named_only or is_old(literal.relation):
            continue  # an update may change a type
        table = relation_name(literal.relation).removeprefix(LIVE).partition(".")[0]
        for at, term in literal.column_terms:
            column = relations[literal.relation].columns[at].name
            if not isinstance(term, ir.Var):
                continue
            if column == "_id" and tables.setdefault(same.of(term), table) != table:
                return f"{name_of(term)} can't be the _id of both {tables[same.of(term)]} and {table}"
            if column in REFERENCES:
                references.setdefault(same.of(term), (column, REFERENCES[column]))
    for value, (column, types) in references.items():
        table = tables.get(value, "")
        if table in REFERRED and table not in types:
            return f"{column} is never the _id of {table}"
    return None


def _of_comparison(
    compare: ir.Compare, negated: bool, same: SameValues, ranges: dict[ir.Operand, _Range]
) -> str | None:
    comparator = NEGATED[compare.comparator] if negated else compare.comparator
    left, right = same.of(compare.left), same.of(compare.right)
    if isinstance(left, ir.Const):
        left, right, comparator = right, left, FLIPPED[comparator]
    if not isinstance(right, ir.Const):
        return f"both sides of {comparator} are the same" if left == right and comparator in ("!=", "<", ">") else None
    if isinstance(left, ir.Const):
        holds = _Range()
        holds.narrow("=", left.value)
        written = compare.left, compare.right
        wrong = f" {compare.comparator} ".join(_show(side.value) for side in written if isinstance(side, ir.Const))
        wrong += f" is {'true' if negated else 'false'}"
        return None if holds.narrow(comparator, right.value) else wrong
    known = ranges.setdefault(left, _Range())
    before, column = known.text(), known.column
    if known.narrow(comparator, right.value):
        known.column = column if known.text() == before else ""
        return None
    name = name_of(compare.left if isinstance(compare.left, ir.Var) else compare.right)
    shown = f"{comparator} {_show(right.value)}"
    if column:
        return f"{column} is always {before}, never {shown}"
    return f"{name} can't be both {before} and {shown}" if before else f"{name} is never {shown}"


@dataclass(slots=True)
class _Range:
    """What the comparisons so far leave of a value. Values of different kinds are not compared."""

    column: str = ""
    """The column whose range this is, as long as no comparison has narrowed it."""
    low: Value = None
    low_open: bool = False
    high: Value = None
    high_open: bool = False
    equal: ir.Const | None = None
    apart: list[Value] = field(default_factory=list)
    texts: Collection[str] = ()
    """All texts that it can be, if they are known."""

    def narrow(self, comparator: str, value: Value) -> bool:
        """Add a comparison; return whether something is left."""
        if comparator == "=":
            if self.equal and self.equal.value != value:
                return False
            self.equal = ir.Const(value)
        elif comparator == "!=":
            self.apart.append(value)
        elif comparator in (">", ">="):
            if self.low is None or _compare(self.low, value) in (-1, 0):
                is_open = comparator == ">" or (self.low == value and self.low_open)
                self.low, self.low_open = value, is_open
        elif self.high is None or _compare(self.high, value) in (0, 1):
            is_open = comparator == "<" or (self.high == value and self.high_open)
            self.high, self.high_open = value, is_open
        return self._is_possible()

    def _is_possible(self) -> bool:
        is_open = self.low_open or self.high_open
        if self.texts and all(text in self.apart for text in self.texts):
            return False
        if self.equal is None:
            return _compare(self.low, self.high) in (None, -1) or (self.low == self.high and not is_open)
        value = self.equal.value
        if any(kind_of(other) == kind_of(value) and other == value for other in self.apart):
            return False
        below, above = _compare(value, self.low), _compare(value, self.high)
        return not (below == -1 or above == 1 or (below == 0 and self.low_open) or (above == 0 and self.high_open))

    def text(self) -> str:
        parts = [f"= {_show(self.equal.value)}"] if self.equal else []
        parts += [f"{'>' if self.low_open else '>='} {_show(self.low)}"] if self.low is not None else []
        parts += [f"{'<' if self.high_open else '<='} {_show(self.high)}"] if self.high is not None else []
        return " and ".join(parts or [f"!= {_show(value)}" for value in self.apart])


class SameValues:
    """The operands of a body by what equations and equal calls make one: ``n ?? 0`` is the same value twice."""

    def __init__(self, body: Sequence[ir.CheckedLiteral]) -> None:
        self._leader: dict[ir.Operand, ir.Operand] = {}
        calls: dict[tuple[str, tuple[ir.Operand, ...]], ir.Var] = {}
        for literal in body:
            match literal:
                case ir.Compare("=", ir.Var() as left, ir.Var() as right):
                    self._join(left, right)
        for literal in body:
            if isinstance(literal, ir.Call) and len(literal.outputs) == 1 and isinstance(literal.outputs[0], ir.Var):
                inputs = tuple(self.of(term) for term in literal.inputs)
                self._join(calls.setdefault((literal.builtin, inputs), literal.outputs[0]), literal.outputs[0])

    def of(self, operand: ir.Operand) -> ir.Operand:
        while operand in self._leader:
            operand = self._leader[operand]
        return operand

    def _join(self, one: ir.Var, other: ir.Var) -> None:
        first, second = self.of(one), self.of(other)
        if first != second:
            self._leader[second] = first


def _compare(one: Value, other: Value) -> int | None:
    """-1, 0 or 1 for two numbers or two texts; None for what has no order."""
    if isinstance(one, str) and isinstance(other, str):
        return (one > other) - (one < other)
    if isinstance(one, int | Decimal) and isinstance(other, int | Decimal):
        return (one > other) - (one < other)
    return None


def _show(value: Value) -> str:
    return f'"{value}"' if isinstance(value, str) else show(value)
