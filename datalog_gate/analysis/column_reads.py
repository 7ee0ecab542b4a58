"""The columns whose values a program needs, and where.

A column is read where its variable is joined, compared or used in a computation, in the rule itself or in a rule that
reads the derived relation. Rules that handle null (`x = null`, `x != null`, `x ?? 0`) and messages do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set

from datalog_gate.analysis import program as ir
from datalog_gate.base.diagnostics import Span
from datalog_gate.schema.declaration import RelationRef

Column = tuple[RelationRef, int]
_CACHE = ir.ProgramCache[Mapping[Column, Span]]()


def read_columns(program: ir.CheckedProgram) -> Mapping[Column, Span]:
    """The input columns that are read, each with one literal that reads it. A column is a relation and a position."""
    return _CACHE.get(program, None, lambda: _read_columns(program))


def remember(program: ir.CheckedProgram, columns: Mapping[Column, Span]) -> None:
    """Cache a result of `read_columns` for an equal program."""
    _CACHE.get(program, None, lambda: columns)


def _read_columns(program: ir.CheckedProgram) -> Mapping[Column, Span]:
    rules = [(rule, _Uses(rule)) for rule in program.rules]
    wanted = {column for rule, uses in rules for column, _ in uses.read(rule, frozenset())}
    passed: dict[Column, set[Column]] = {}
    for rule, uses in rules:
        for head, column in uses.hand_on(rule):
            passed.setdefault(head, set()).add(column)
    waiting = list(wanted)
    while waiting:
        following = passed.get(waiting.pop(), set()) - wanted
        wanted |= following
        waiting += following
    columns: dict[Column, Span] = {}
    for rule, uses in rules:
        for column, span in uses.read(rule, wanted):
            if column[0] in program.inputs:
                columns.setdefault(column, span)
    return columns


class _Uses:
    """The matches of a rule, and how it uses its variables."""

    def __init__(self, rule: ir.CheckedRule) -> None:
        self.matches: list[ir.Match] = []
        self.counts = Counter(var for literal in rule.body for var in ir.variables(literal))
        """How often each variable occurs in the body."""
        self.nullable: set[ir.Var] = set()
        """The variables for which the rule handles null."""
        for literal in ir.all_literals(rule.body):
            match literal:
                case ir.Match():
                    self.matches.append(literal)
                case ir.Compare() if literal.null_test:
                    self.nullable.update(ir.variables(literal))
                case ir.Call("??", (ir.Var() as value, _)):
                    self.nullable.add(value)

    def hand_on(self, rule: ir.CheckedRule) -> Iterator[tuple[Column, Column]]:
        """Each column of the head, with the columns that its variable reads."""
        heads: dict[ir.Pattern, list[Column]] = {}
        for at, term in enumerate(rule.arguments):
            if isinstance(term, ir.Var) and term not in self.nullable:
                heads.setdefault(term, []).append((rule.relation, at))
        if not heads:
            return
        for match in self.matches:
            for at, term in match.column_terms:
                yield from ((head, (match.relation, at)) for head in heads.get(term, ()))

    def read(self, rule: ir.CheckedRule, wanted: Set[Column]) -> Iterator[tuple[Column, Span]]:
        """The columns that the rule reads if the columns `wanted` of its head are read."""
        passed = {term for at, term in enumerate(rule.arguments) if (rule.relation, at) in wanted}
        for match in self.matches:
            for at, term in match.column_terms:
                if isinstance(term, ir.Const):
                    is_read = term.value is not None
                else:
                    is_read = term not in self.nullable and (self.counts[term] > 1 or term in passed)
                if is_read:
                    yield (match.relation, at), match.span
