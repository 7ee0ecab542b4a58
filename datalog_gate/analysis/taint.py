"""Taint analysis: columns that can hold a secret.

A column that only depends on a secret, through a comparison or the existence of a row, does not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

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
        known = levels(reached, rule)
        own = {(rule.relation, at): _highest([term], known) for at, term in enumerate(rule.arguments)}
        risen = {cell: level for cell, level in own.items() if level > reached.columns.get(cell, 0)}
        reached.columns.update(risen)
        return bool(risen)

    settle(list(program.rules), spread)
    return reached


def aggregates(program: ir.CheckedProgram, columns: Mapping[RelationRef, Collection[int]]) -> bool:
    """Whether an aggregate other than a count reads values of these input columns."""
    reached = taint(program, columns)
    return any(
        isinstance(literal, ir.Fold)
        and literal.function != "count"
        and not levels(reached, rule).keys().isdisjoint(literal.terms)
        for rule in program.rules
        for literal in ir.all_literals(rule.body)
    )


def levels(taint: Taint, rule: ir.CheckedRule) -> Mapping[ir.Var, int]:
    """The levels of a rule's variables, as in `Taint`; variables without secrets are left out."""
    known: dict[ir.Var, int] = {}

    def bind(term: ir.Pattern, level: int) -> None:
        if level and isinstance(term, ir.Var):
            known[term] = max(known.get(term, 0), level)

    before = None
    while before != known:
        before = dict(known)
        for literal in ir.all_literals(rule.body):
            match literal:
                case ir.Match(relation):
                    for at, term in literal.column_terms:
                        bind(term, taint.columns.get((relation, at), 0))
                case ir.Compare("=", left, right):
                    bind(left, _highest([right], known))
                    bind(right, _highest([left], known))
                case ir.Call(_, inputs, outputs) if _highest(inputs, known):
                    taint.spans.add(literal.span)
                    for output in outputs:
                        bind(output, COMPUTED)
                case ir.Fold(_, terms, _, target) if _highest(terms, known):
                    taint.spans.add(literal.span)
                    bind(target, COMPUTED)
                case ir.Compare(_, left, right) if _highest([left, right], known):
                    taint.spans.add(literal.span)
    return known


def _highest(terms: Iterable[ir.Operand], known: Mapping[ir.Var, int]) -> int:
    return max((known.get(term, 0) for term in terms if isinstance(term, ir.Var)), default=0)
