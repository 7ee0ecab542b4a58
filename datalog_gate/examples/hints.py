"""Values of columns that the rules ask about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from datalog_gate.analysis.program import (
    Call,
    CheckedLiteral,
    CheckedProgram,
    Compare,
    Const,
    Match,
    Operand,
    Var,
    Without,
)
from datalog_gate.base.values import Value
from datalog_gate.examples.inverses import invert, neighbours
from datalog_gate.schema.declaration import relation_name

Columns = tuple[str, str]
"""A column: the names of its relation and of itself."""
MOST = 24
CARRYING = ("??", "lower", "upper", "trim")
"""Builtins whose result is asked about as if it were the input."""


def collect_hints(program: CheckedProgram) -> Mapping[Columns, tuple[Value, ...]]:
    """The values that are compared with each column, and those beside them. What is asked of a derived relation is
    asked of the columns that it is derived from."""
    hints: dict[Columns, dict[Value, None]] = defaultdict(dict)
    for rule in reversed(list(program.rules)):
        sources = _sources(program, rule.body)
        for literal in rule.body:
            if isinstance(literal, Match):
                for column, value in _constants(program, literal):
                    hints[column][value] = None
            if isinstance(literal, Without) and len(literal.body) == 1:
                literal = literal.body[0]
            for variable, value in _asked(literal):
                for column in sources.get(variable, ()):
                    hints[column][value] = None
        head = program.relations[rule.relation].columns
        for declared, term in zip(head, rule.arguments, strict=True):
            for column in sources.get(term, ()):
                hints[column].update(hints[relation_name(rule.relation), declared.name])
    return {column: tuple(values)[:MOST] for column, values in hints.items()}


def _constants(program: CheckedProgram, literal: Match) -> Iterator[tuple[Columns, Value]]:
    columns = program.relations[literal.relation].columns
    for at, term in literal.column_terms:
        if isinstance(term, Const) and term.value is not None:
            yield (relation_name(literal.relation), columns[at].name), term.value


def _sources(program: CheckedProgram, body: Sequence[CheckedLiteral]) -> Mapping[Operand, set[Columns]]:
    """The columns from which each variable takes its values."""
    sources: dict[Operand, set[Columns]] = defaultdict(set)
    for literal in body:
        if isinstance(literal, Match):
            columns = program.relations[literal.relation].columns
            for at, term in literal.column_terms:
                sources[term].add((relation_name(literal.relation), columns[at].name))
    for literal in (*body, *body):  # in any order
        if isinstance(literal, Call) and literal.builtin in CARRYING and literal.outputs[0]:
            sources[literal.outputs[0]] |= sources[literal.inputs[0]]
        elif isinstance(literal, Compare) and literal.equates_variables:
            for one, other in ((literal.left, literal.right), (literal.right, literal.left)):
                sources[one] |= sources[other]
    return {term: columns for term, columns in sources.items() if isinstance(term, Var)}


def _asked(literal: CheckedLiteral) -> Iterator[tuple[Var, Value]]:
    if isinstance(literal, Compare):
        for one, _, other in literal.from_each_side:
            if isinstance(one, Var) and isinstance(other, Const) and other.value is not None:
                for value in neighbours(other.value):
                    yield one, value
    elif isinstance(literal, Call):
        others = [term.value if isinstance(term, Const) else None for term in literal.inputs]
        for at, term in enumerate(literal.inputs):
            if isinstance(term, Var):
                for value in invert(literal.builtin, at, others, None, True):
                    yield term, value
