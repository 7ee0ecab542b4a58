"""The columns whose values a program needs, and where.

A column is read where its variable is joined, compared or used in a computation, in the rule itself or in a rule that
reads the derived relation. Rules that handle null (`x = null`, `x != null`, `x ?? 0`) and messages do not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

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
    """From the last rule to the first, since a column of a head is read by rules of its stratum and later ones. So the
    first literal that reads a column comes last, and stays."""
    columns: dict[Column, Span] = {}
    for stratum in reversed(program.strata):
        before = -1
        while before < len(columns):
            before = len(columns)
            for rule in reversed(stratum.rules):
                for column, span in reversed([*_read(rule, columns)]):
                    columns.pop(column, None)
                    columns[column] = span
            if not stratum.recursive:
                break
    return {column: span for column, span in reversed(columns.items()) if column[0] in program.inputs}


def _read(rule: ir.CheckedRule, wanted: Collection[Column]) -> Iterator[tuple[Column, Span]]:
    """The columns that the rule reads if the columns `wanted` of its head are read, each with its literal."""
    counts = Counter(var for literal in rule.body for var in ir.variables(literal))
    passed = {term for at, term in enumerate(rule.arguments) if (rule.relation, at) in wanted}
    matches: list[ir.Match] = []
    nullable: set[ir.Var] = set()
    for literal in ir.all_literals(rule.body):
        match literal:
            case ir.Match():
                matches.append(literal)
            case ir.Compare() if literal.null_test:
                nullable.update(ir.variables(literal))
            case ir.Call("??", (ir.Var() as value, _)):
                nullable.add(value)
    for match in matches:
        for at, term in match.column_terms:
            if isinstance(term, ir.Const):
                is_read = term.value is not None
            else:
                is_read = term not in nullable and (counts[term] > 1 or term in passed)
            if is_read:
                yield (match.relation, at), match.span
