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
    all_literals,
)
from datalog_gate.base.values import FALSE, TRUE, Kind, Value
from datalog_gate.examples.inverses import NETWORKS, invert, neighbours
from datalog_gate.schema.declaration import Column, relation_name

Columns = tuple[str, str]
"""A column: the names of its relation and of itself."""
TIMES = ("2027-03-01T09:00:00Z", "2027-03-01T09:30:00Z", "2026-01-01T00:00:00Z")
WORDS = {
    "flavor": "m1.small",
    "image": "ubuntu-24.04",
    "name": "web",
    "key_name": "ops",
    "project": "lab",
    "user": "alice",
    "description": "a text",
}
"""Readable values by column."""
TYPES = ("OS::Nova::Server", "OS::Neutron::Port", "OS::Cinder::Volume", "OS::Heat::ResourceGroup")
MOST = 24
CARRYING = ("??", "lower", "upper", "trim")
"""Builtins whose result is asked about as if it were the input."""


def collect_hints(program: CheckedProgram) -> Mapping[Columns, tuple[Value, ...]]:
    """The values that are compared with each column, and those beside them; for a test for null a typical one. What is
    asked of a derived relation is asked of the columns that it is derived from."""
    typical = {
        (relation.name, column.name): next(typical_values(relation.name, column, column.kinds), None)
        for relation in program.relations.values()
        for column in relation.columns
    }
    hints: dict[Columns, dict[Value, None]] = defaultdict(dict)
    for rule in reversed(list(program.rules)):
        sources = _sources(program, rule.body)
        for literal in all_literals(rule.body):
            for column, value in _asked_of_columns(program, literal, sources):
                hints[column][typical.get(column) if value is None else value] = None
        head = program.relations[rule.relation].columns
        for declared, term in zip(head, rule.arguments, strict=True):
            for column in sources.get(term, ()):
                hints[column].update(hints[relation_name(rule.relation), declared.name])
    return {column: tuple(values)[:MOST] for column, values in hints.items()}


def _asked_of_columns(
    program: CheckedProgram, literal: CheckedLiteral, sources: Mapping[Operand, set[Columns]]
) -> Iterator[tuple[Columns, Value]]:
    if isinstance(literal, Match):
        yield from _constants(program, literal)
    for variable, value in _asked(literal):
        for column in sources.get(variable, ()):
            yield column, value


def _constants(program: CheckedProgram, literal: Match) -> Iterator[tuple[Columns, Value]]:
    columns = program.relations[literal.relation].columns
    for at, term in literal.column_terms:
        if isinstance(term, Const):
            yield (relation_name(literal.relation), columns[at].name), term.value


def _sources(program: CheckedProgram, body: Sequence[CheckedLiteral]) -> Mapping[Operand, set[Columns]]:
    """The columns from which each variable takes its values."""
    sources: dict[Operand, set[Columns]] = defaultdict(set)
    for literal in all_literals(body):
        if isinstance(literal, Match):
            columns = program.relations[literal.relation].columns
            for at, term in literal.column_terms:
                sources[term].add((relation_name(literal.relation), columns[at].name))
    for literal in (*body, *body):  # in any order
        if isinstance(literal, Call) and literal.builtin in CARRYING and literal.outputs[0]:
            sources[literal.outputs[0]] |= sources[literal.inputs[0]]
        elif isinstance(literal, Compare) and literal.equates_variables:
            for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
                sources[side] |= sources[other]
    return {term: columns for term, columns in sources.items() if isinstance(term, Var)}


def _asked(literal: CheckedLiteral) -> Iterator[tuple[Var, Value]]:
    if isinstance(literal, Compare):
        for side, _, other in literal.from_each_side:
            if isinstance(side, Var) and isinstance(other, Const):
                for value in neighbours(other.value):
                    yield side, value
    elif isinstance(literal, Call):
        others = [term.value if isinstance(term, Const) else None for term in literal.inputs]
        for at, term in enumerate(literal.inputs):
            if isinstance(term, Var):
                for value in invert(literal.builtin, at, others, None, True):
                    yield term, value


def typical_values(name: str, column: Column, kinds: Kind) -> Iterator[Value]:
    """Readable values of a column."""
    if column.allowed:
        yield from column.allowed[:40]
        if column.closed:
            return
    yield from column.numbers
    if (name, column.name) == ("heat:resource", "type"):
        yield from TYPES
    if "cidr" in column.custom:
        yield from NETWORKS
    if Kind.NUMBER in kinds:
        low, high = column.range
        yield from (value for value in (low, 1, 0, 2, 10, high) if value is not None)
    if Kind.STRING in kinds and (column.name.endswith("_at") or column.name in ("time", "read", "updated_time")):
        yield from TIMES
    elif Kind.STRING in kinds:
        word = column.name.strip("_")
        yield from (WORDS.get(word, f"{word}-1"), f"{word}-2", f"other-{word}")
    if Kind.BOOLEAN in kinds:
        yield from (FALSE, TRUE) if column.name == "hidden" else (TRUE, FALSE)
