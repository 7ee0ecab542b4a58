"""Taint analysis: columns that can hold a secret.

A column that only depends on a secret, through a comparison or the existence of a row, does not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from datalog_gate.analysis import program as ir
from datalog_gate.analysis.strata import settle
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.records import dataclass, field
from datalog_gate.schema.declaration import RelationRef, possible_version

COPIED, COMPUTED = 1, 2
Cell = tuple[RelationRef, int]
"""A relation and the position of one of its columns."""


@dataclass(slots=True)
class Taint:
    """The columns that can hold a secret, or a value computed from one."""

    columns: dict[Cell, int]
    """`COPIED` for a column that can hold a secret, `COMPUTED` for one that can hold a value computed from a secret."""
    spans: set[Span] = field(default_factory=set)
    """The literals that compute with a secret."""


def taint(program: ir.CheckedProgram, secrets: Mapping[RelationRef, Collection[int]]) -> Taint:
    """Compute the columns that values of these secret input columns reach."""
    columns = {(name, at): COPIED for name, positions in secrets.items() for at in positions}
    reached = Taint(columns | {(possible_version(name), at): COPIED for name, at in columns})

    def spread(rule: ir.CheckedRule) -> bool:
        flow = _Flow(reached)
        flow.through(rule.body)
        own = {(rule.relation, at): flow.of([term]) for at, term in enumerate(rule.arguments)}
        risen = {cell: level for cell, level in own.items() if level > reached.columns.get(cell, 0)}
        reached.columns.update(risen)
        return bool(risen)

    settle(list(program.rules), spread)
    return reached


def levels(taint: Taint, rule: ir.CheckedRule) -> Mapping[ir.Var, int]:
    """The levels of a rule's variables, as in `Taint`; variables without secrets are left out."""
    flow = _Flow(taint)
    flow.through(rule.body)
    return flow.variables


@dataclass(slots=True)
class _Flow:
    """The levels of the variables of one rule."""

    taint: Taint
    variables: dict[ir.Var, int] = field(default_factory=dict)

    def through(self, body: Sequence[ir.CheckedLiteral]) -> None:
        before = None
        while before != self.variables:
            before = dict(self.variables)
            for literal in ir.all_literals(body):
                self._literal(literal)

    def of(self, operands: Iterable[ir.Pattern]) -> int:
        return max((self.variables.get(operand, 0) for operand in operands if isinstance(operand, ir.Var)), default=0)

    def _literal(self, literal: ir.CheckedLiteral) -> None:
        match literal:
            case ir.Match(relation, arguments):
                for at, term in enumerate(arguments):
                    self._bind(term, self.taint.columns.get((relation, at), 0))
            case ir.Compare(comparator, left, right, span):
                level = self.of([left, right])
                if comparator == "=":
                    self._bind(left, level)
                    self._bind(right, level)
                elif level:
                    self.taint.spans.add(span)
            case ir.Call(_, inputs, outputs, span):
                self._compute(inputs, outputs, span)
            case ir.Fold(_, terms, _, target, span):
                self._compute(terms, (target,), span)

    def _compute(self, inputs: Sequence[ir.Operand], outputs: Sequence[ir.Pattern], span: Span) -> None:
        if self.of(inputs):
            self.taint.spans.add(span)
            for output in outputs:
                self._bind(output, COMPUTED)

    def _bind(self, term: ir.Pattern, level: int) -> None:
        if level and isinstance(term, ir.Var):
            self.variables[term] = max(self.variables.get(term, 0), level)
