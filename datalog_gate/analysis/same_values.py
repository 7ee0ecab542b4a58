"""The operands of a body that are the same value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.program import renamed, variables


class SameValues:
    """Groups operands that are the same value, by equations and by equal calls and aggregates: ``n ?? 0`` is the same
    value wherever it occurs."""

    def __init__(self, body: Sequence[ir.CheckedLiteral]) -> None:
        self._leader: dict[ir.Operand, ir.Operand] = {}
        computed: dict[Hashable, ir.Var] = {}
        computing: list[ir.Call | ir.Fold] = []
        for literal in body:
            if isinstance(literal, ir.Compare):
                if literal.comparator == "=" and isinstance(literal.left, ir.Var) and isinstance(literal.right, ir.Var):
                    self._join(literal.left, literal.right)
            elif isinstance(literal, ir.Computing):
                computing.append(literal)
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

    def _join(self, var: ir.Var, other: ir.Var) -> None:
        first, second = self.of(var), self.of(other)
        if first != second:
            self._leader[second] = first
