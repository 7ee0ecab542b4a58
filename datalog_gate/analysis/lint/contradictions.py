"""Bodies that hold of no values: ``n > 10, n < 5``, ``f = "a", f = "b"``, two values of a column in a row with one key.

Only comparisons with constants are read, so what is found is certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.lint.allowed_values import LONGEST
from datalog_gate.analysis.lint.entailment import FLIPPED, find_entailed
from datalog_gate.analysis.lower import renamed, variables
from datalog_gate.analysis.types import name_of
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.values import Kind, Value, kind_of, show
from datalog_gate.language.ast import Comparator
from datalog_gate.schema.cloud import LIVE
from datalog_gate.schema.declaration import Range, Relation, RelationRef, is_old, relation_name

NEGATED: Mapping[str, Comparator] = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "=": "!=", "!=": "="}
ORDERS: Mapping[str, str] = {"<": "<", ">": ">", "<=": "<=", ">=": ">=", "=": "=", "!=": "<>"}
"""The orders of two values, less, equal or greater, of which each comparison holds."""
RESULTS: Mapping[str, Range] = {"len": (0, None), "abs": (0, None), "cidr_host_count": (1, None)}
"""The ranges of what builtins give."""
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
    """Report the rules that never hold: those all of whose alternatives contradict themselves; and such bodies of
    negations and aggregates. `heads` are the places of the heads' names by those of the rules."""
    lists: Lists = {}
    for rule in rules:
        if relations[rule.relation].generated == "in":
            lists.setdefault(rule.relation, []).extend(term for term in rule.arguments if isinstance(term, ir.Const))
    by_relation: dict[RelationRef, list[ir.CheckedRule]] = {}
    for rule in rules:
        by_relation.setdefault(rule.relation, []).append(rule)
    review = _Contradictions(relations, by_relation, lists)
    ways: dict[tuple[RelationRef, Span], list[str | None]] = {}
    for rule in rules:
        if rule.body:
            ways.setdefault((rule.relation, rule.span), []).append(review.contradiction(rule.body))
            review.inner_bodies(rule.body)
    for (_, span), reasons in ways.items():
        if all(reasons):
            message = f"this rule never holds: {reasons[0]}"
            suggestion = "correct the condition, or remove the rule"
            yield Diagnostic("never-fires", message, heads.get(span, span), suggestion, "warning")
    for (span, name), reasons in review.inner.items():
        if all(reasons):
            message = f"this {name} takes nothing: {reasons[0]}"
            suggestion = "correct the condition"
            if name == "not":
                message, suggestion = f"this `not` always holds: {reasons[0]}", f"{suggestion}, or leave the `not` out"
            yield Diagnostic("never-fires", message, span, suggestion, "warning")


Lists = dict[RelationRef, list[ir.Const]]
"""The constants of the relations that lists of constants became."""


@dataclass(slots=True)
class _Contradictions:
    relations: Mapping[RelationRef, Relation]
    rules: Mapping[RelationRef, Sequence[ir.CheckedRule]]
    lists: Lists
    inner: dict[tuple[Span, str], list[str | None]] = field(default_factory=dict)
    """Why the bodies of an aggregate, by its place and function, hold of no values beside those around it; or of a
    negation, ``not``."""

    def inner_bodies(self, body: Sequence[ir.CheckedLiteral], around: Sequence[ir.CheckedLiteral] = ()) -> None:
        """Collect the reasons of the negations and aggregates of a body, and of those within them. `around` are the
        literals of the bodies around it."""
        if len(around) + len(body) > LONGEST:
            return
        for literal in body:
            if isinstance(literal, ir.Without | ir.Fold):
                beside = (*around, *(other for other in body if other is not literal))
                reason = self.contradiction((*beside, *literal.body))
                if reason and self.contradiction(beside):
                    continue  # what stands beside it is what is wrong
                name = literal.function if isinstance(literal, ir.Fold) else "not"
                self.inner.setdefault((literal.span, name), []).append(reason)
                if reason is None:
                    self.inner_bodies(literal.body, beside)

    def contradiction(self, body: Sequence[ir.CheckedLiteral]) -> str | None:
        """Why the conjunction holds of no values, or None."""
        same = SameValues(body)
        return (
            _two_types(body, self.relations, same)
            or find_entailed(body, self.relations, self.rules, same.of)
            or self._two_rows(body, same)
            or _of_order(body, same)
            or _Ranges(self.relations, self.lists, same).contradiction(body)
        )

    def _two_rows(self, body: Sequence[ir.CheckedLiteral], same: SameValues) -> str | None:
        """Why a row would have to hold two values in one column."""
        keyed: dict[tuple[RelationRef, tuple[ir.Pattern, ...]], ir.Match] = {}
        for literal in body:
            if not isinstance(literal, ir.Match):
                continue
            described = self.relations[literal.relation]
            key = tuple(literal.arguments[described.positions[name]] for name in described.key)
            if not key or None in key or len(key) == len(literal.arguments):
                continue
            named = tuple(same.of(part) for part in key if part is not None)
            twin = keyed.setdefault((literal.relation, named), literal)
            for column, one, other in zip(described.columns, twin.arguments, literal.arguments, strict=True):
                if isinstance(one, ir.Const) and isinstance(other, ir.Const) and one != other:
                    values = f"{_show(one.value)} and {_show(other.value)}"
                    return f"{column.name} of one row of {literal.relation} can't be {values}"
        return None


def _of_order(body: Sequence[ir.CheckedLiteral], same: SameValues) -> str | None:
    """Why two variables would have to stand in two orders, ``low < high, high < low``."""
    orders: dict[tuple[ir.Operand, ir.Operand], tuple[str, str]] = {}
    for literal in body:
        match literal:
            case ir.Compare(sign, ir.Var() as left, ir.Var() as right) if same.of(left) != same.of(right):
                shown = f"{name_of(left)} {sign} {name_of(right)}"
                for one, other, order in ((left, right, sign), (right, left, FLIPPED[sign])):
                    before, written = orders.get((same.of(one), same.of(other)), ("<=>", ""))
                    left_over = "".join(mark for mark in before if mark in ORDERS[order])
                    if not left_over:
                        return f"{written} and {shown} exclude each other"
                    orders[same.of(one), same.of(other)] = left_over, shown
    return None


def _two_types(
    body: Sequence[ir.CheckedLiteral], relations: Mapping[RelationRef, Relation], same: SameValues
) -> str | None:
    """Why a value would have to be resources of two types."""
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


@dataclass(slots=True)
class _Ranges:
    """What is left of the values of a body, literal by literal."""

    relations: Mapping[RelationRef, Relation]
    lists: Lists
    same: SameValues
    _known: dict[ir.Operand, _Range] = field(default_factory=dict)

    def contradiction(self, body: Sequence[ir.CheckedLiteral]) -> str | None:
        """Why nothing is left of a value, or None."""
        for literal in sorted(body, key=lambda literal: not isinstance(literal, ir.Match)):
            if reason := self._add(literal):
                return reason
        return None

    def _of(self, operand: ir.Operand) -> _Range:
        return self._known.setdefault(self.same.of(operand), _Range())

    def _add(self, literal: ir.CheckedLiteral) -> str | None:
        match literal:
            case ir.Match():
                return self._add_row(literal)
            case ir.Compare():
                return self._add_comparison(literal, False)
            case ir.Without((ir.Compare() as compare,)):
                return self._add_comparison(compare, True)
            case ir.Without((ir.Match(relation, (ir.Var() as subject,)),)) if relation in self.lists:
                return self._exclude(subject, self.lists[relation])
            case ir.Call("??", (value, default), (ir.Var() as result,)):
                self._of(result).take_default(self._of(value), default)
            case ir.Call(name, _, (ir.Var() as result,)) if name in RESULTS:
                self._of(result).limit(*RESULTS[name])
            case ir.Fold(function, (first, *_), inner, target):
                within = _Ranges(self.relations, self.lists, self.same)
                for row in inner:
                    if isinstance(row, ir.Match):
                        within._add_row(row)
                self._of(target).limit(*_of_fold(function, within._of(first)))
        return None

    def _add_row(self, row: ir.Match) -> str | None:
        if row.relation in self.lists and isinstance(subject := row.arguments[0], ir.Var):
            return self._add_list(subject, self.lists[row.relation])
        for at, term in row.column_terms:
            column = self.relations[row.relation].columns[at]
            low, high = RANGES.get(f"{row.relation}.{column.name}", column.range)
            if isinstance(term, ir.Var) and column.closed:
                nothing = (None,) if Kind.NULL in column.kinds else ()
                self._of(term).choices = (*column.allowed, *nothing)
            if (low, high) != (None, None):
                known = self._of(term)
                known.column = known.column or column.name
                possible = known.limit(low, high)
                if isinstance(term, ir.Const) and not (possible and known.narrow("=", term.value)):
                    return f"{column.name} is never {_show(term.value)}"
        return None

    def _add_list(self, subject: ir.Var, listed: Sequence[ir.Const]) -> str | None:
        known = self._of(subject)
        values = [constant.value for constant in listed]
        known.choices = values if known.choices is None else [value for value in values if value in known.choices]
        return None if known.is_possible() else f"{name_of(subject)} can't be in both lists"

    def _exclude(self, subject: ir.Var, listed: Sequence[ir.Const]) -> str | None:
        known = self._of(subject)
        known.apart += [constant.value for constant in listed]
        return None if known.is_possible() else f"its `not` excludes all that {name_of(subject)} can be"

    def _add_comparison(self, compare: ir.Compare, negated: bool) -> str | None:
        comparator = NEGATED[compare.comparator] if negated else compare.comparator
        left, right = self.same.of(compare.left), self.same.of(compare.right)
        if isinstance(left, ir.Const):
            left, right, comparator = right, left, FLIPPED[comparator]
        if not isinstance(right, ir.Const):
            one = left == right and comparator in ("!=", "<", ">")
            return f"both sides of {comparator} are the same" if one else None
        if isinstance(left, ir.Const):
            holds = _Range()
            holds.narrow("=", left.value)
            written = compare.left, compare.right
            wrong = f" {compare.comparator} ".join(_show(side.value) for side in written if isinstance(side, ir.Const))
            wrong += f" is {'true' if negated else 'false'}"
            return None if holds.narrow(comparator, right.value) else wrong
        known = self._of(left)
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
    choices: Collection[Value] | None = None
    """All values that it can be, if they are known."""

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
        return self.is_possible()

    def limit(self, low: Value, high: Value) -> bool:
        """Add bounds, None where there is none; return whether something is left."""
        possible = low is None or self.narrow(">=", low)
        return (high is None or self.narrow("<=", high)) and possible

    def take_default(self, value: _Range, default: ir.Operand) -> None:
        """Become another value with a default where it is null."""
        if not isinstance(default, ir.Const):
            return
        if value.choices is not None:
            self.choices = [*(choice for choice in value.choices if choice is not None), default.value]
        if isinstance(default.value, int | Decimal):
            low = value.low if _compare(value.low, default.value) in (None, -1) else default.value
            high = value.high if _compare(value.high, default.value) in (None, 1) else default.value
            fresh = not self.text()
            if self.limit(low, high) and fresh and value.column:
                self.column = f"{value.column} ?? {show(default.value)}"

    def is_possible(self) -> bool:
        is_open = self.low_open or self.high_open
        if self.choices is not None and not any(map(self._admits, self.choices)):
            return False
        if self.equal is None:
            return _compare(self.low, self.high) in (None, -1) or (self.low == self.high and not is_open)
        return self._admits(self.equal.value)

    def _admits(self, value: Value) -> bool:
        if any(kind_of(other) == kind_of(value) and other == value for other in self.apart):
            return False
        below, above = _compare(value, self.low), _compare(value, self.high)
        return not (below == -1 or above == 1 or (below == 0 and self.low_open) or (above == 0 and self.high_open))

    def text(self) -> str:
        parts = [f"= {_show(self.equal.value)}"] if self.equal else []
        parts += [f"{'>' if self.low_open else '>='} {_show(self.low)}"] if self.low is not None else []
        parts += [f"{'<' if self.high_open else '<='} {_show(self.high)}"] if self.high is not None else []
        return " and ".join(parts or [f"!= {_show(value)}" for value in self.apart])


def _of_fold(function: ir.FoldFunction, term: _Range) -> tuple[Value, Value]:
    """The bounds of an aggregate by those of what it takes."""
    low, high = term.low, term.high
    match function:
        case "count":
            return 0, None
        case "sum":
            return 0 if _compare(low, 0) in (0, 1) else None, 0 if _compare(high, 0) in (0, -1) else None
        case "min" | "max" | "avg":
            return low, high
    return None, None


class SameValues:
    """The operands of a body by what equations make one, and equal calls and aggregates: ``n ?? 0`` is the same value
    twice."""

    def __init__(self, body: Sequence[ir.CheckedLiteral]) -> None:
        self._leader: dict[ir.Operand, ir.Operand] = {}
        computed: dict[Hashable, ir.Var] = {}
        for literal in body:
            match literal:
                case ir.Compare("=", ir.Var() as left, ir.Var() as right):
                    self._join(left, right)
        uses: Counter[ir.Var] = Counter()
        if any(isinstance(literal, ir.Fold) for literal in body):
            uses.update(var for literal in body for var in set(variables(literal)))
        for literal in body:
            match literal:
                case ir.Call(name, inputs, (ir.Var() as output,)):
                    key: Hashable = name, tuple(self.of(term) for term in inputs)
                    self._join(computed.setdefault(key, output), output)
                case ir.Fold(function, terms, inner, target):
                    names: dict[ir.Var, ir.Operand] = {}
                    for at, var in enumerate(dict.fromkeys(variables(literal))):
                        names[var] = ir.Var("", f"own {at}") if uses[var] == 1 else self.of(var)
                    key = function, renamed(terms, names), renamed(inner, names)
                    self._join(computed.setdefault(key, target), target)

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
