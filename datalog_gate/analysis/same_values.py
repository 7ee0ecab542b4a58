"""The operands of a body that are the same value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.program import renamed, variables
from datalog_gate.base.values import Kind
from datalog_gate.schema.declaration import Relation, RelationRef


class SameValues:
    """Groups operands that are the same value, by equations and by equal calls and aggregates: ``n ?? 0`` is the same
    value wherever it occurs."""

    def __init__(
        self, body: Sequence[ir.CheckedLiteral], relations: Mapping[RelationRef, Relation] = MappingProxyType({})
    ) -> None:
        self._leader: dict[ir.Operand, ir.Operand] = {}
        self._relations = relations
        matches = [literal for literal in body if isinstance(literal, ir.Match)] if relations else []
        self._repeated = matches if len({literal.relation for literal in matches}) < len(matches) else []
        computed: dict[Hashable, ir.Var] = {}
        computing: list[ir.Call | ir.Fold] = []
        for literal in body:
            if isinstance(literal, ir.Compare):
                if literal.comparator == "=" and isinstance(literal.left, ir.Var) and isinstance(literal.right, ir.Var):
                    self._join(literal.left, literal.right)
            elif isinstance(literal, ir.Computing):
                computing.append(literal)
        pairs = list(self.twins())
        present = set(_present(body)) if pairs else set()
        for first, other in pairs:
            for column, term, twin in zip(
                relations[first.relation].columns, first.arguments, other.arguments, strict=True
            ):
                is_there = Kind.NULL not in column.kinds or not present.isdisjoint((term, twin))
                if is_there and isinstance(term, ir.Var) and isinstance(twin, ir.Var):
                    self._join(term, twin)  # null does not equal null
        uses: Counter[ir.Var] | None = None
        for literal in computing:
            match literal:
                case ir.Call(name, inputs, (ir.Var() as output,)):
                    key: Hashable = name, tuple(map(self.of, inputs))
                    self._join(computed.setdefault(key, output), output)
                case ir.Fold(function, terms, inner, target):
                    uses = uses or Counter(var for other in body for var in set(variables(other)))
                    names: dict[ir.Var, ir.Operand] = {}
                    for at, var in enumerate(dict.fromkeys(variables(literal))):
                        names[var] = ir.Var("", f"own {at}") if uses[var] == 1 else self.of(var)
                    key = function, renamed(terms, names), renamed(inner, names)
                    self._join(computed.setdefault(key, target), target)

    def of(self, operand: ir.Operand) -> ir.Operand:
        while operand in self._leader:
            operand = self._leader[operand]
        return operand

    def twins(self) -> Iterator[tuple[ir.Match, ir.Match]]:
        """Yield the pairs of literals that match the same row: those with the same key."""
        rows: dict[tuple[RelationRef, tuple[ir.Pattern, ...]], ir.Match] = {}
        names = Counter(literal.relation for literal in self._repeated) if self._repeated else {}
        for literal in self._repeated:
            if names[literal.relation] > 1 and (described := self._relations[literal.relation]).key:
                key = tuple(literal.arguments[described.positions[name]] for name in described.key)
                if None not in key and len(key) < len(literal.arguments):
                    named = tuple(self.of(part) for part in key if part is not None)
                    first = rows.setdefault((literal.relation, named), literal)
                    if first is not literal:
                        yield first, literal

    def _join(self, var: ir.Var, other: ir.Var) -> None:
        first, second = self.of(var), self.of(other)
        if first != second:
            self._leader[second] = first


def _present(body: Sequence[ir.CheckedLiteral]) -> Iterator[ir.Operand]:
    """Yield the operands that are not null if the body holds."""
    for literal in body:
        match literal:
            case ir.Compare(sign, left, right):
                null = ir.Const(None) in (left, right)
                if null if sign == "!=" else not null:
                    yield from (left, right)
            case ir.Call(name, inputs) if name != "??":
                yield from inputs
