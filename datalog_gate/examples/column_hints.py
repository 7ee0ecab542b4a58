"""Values of columns that the rules ask about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import islice

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
from datalog_gate.base.values import FALSE, TRUE, Kind, Value, kind_of
from datalog_gate.examples.example_properties import SAMPLES, WORDS
from datalog_gate.examples.inverses import NETWORKS, invert, neighbours
from datalog_gate.schema.declaration import Column, relation_name
from datalog_gate.validation.texts import find_reason

Columns = tuple[str, str]
"""A column: the names of its relation and of itself."""
TIMES = ("2027-03-01T09:00:00Z", "2027-03-01T09:30:00Z", "2026-01-01T00:00:00Z")
"""Readable values by column."""
TYPES = ("OS::Nova::Server", "OS::Neutron::Port", "OS::Cinder::Volume", "OS::Heat::ResourceGroup")
MOST = 24
CARRYING = ("??", "lower", "upper", "trim")
"""Builtins whose result is asked about as if it were the input."""


def collect_hints(program: CheckedProgram) -> Mapping[Columns, tuple[Value, ...]]:
    """The values that are compared with each column, and those beside them, then a typical one. What is asked of a
    derived relation is asked of the columns that it is derived from."""
    declared_columns = {
        (relation.name, column.name): column for relation in program.relations.values() for column in relation.columns
    }
    hints: dict[Columns, dict[Value, None]] = defaultdict(dict)
    for rule in reversed(list(program.rules)):
        sources = _sources(program, rule.body)
        bounds: dict[Operand, list[Value]] = defaultdict(list)
        for literal in all_literals(rule.body):
            for variable, value in _compared(literal):
                bounds[variable].append(value)
        for literal in all_literals(rule.body):
            for column, value in _asked_of_columns(program, literal, sources, bounds):
                hints[column][value] = None
        head = program.relations[rule.relation].columns
        for declared, term in zip(head, rule.arguments, strict=True):
            for column in sources.get(term, ()):
                hints[column].update(hints[relation_name(rule.relation), declared.name])
    return {
        (name, column): tuple(_choose(name, declared_columns[name, column], values))
        for (name, column), values in hints.items()
        if (name, column) in declared_columns
    }


def _choose(name: str, column: Column, asked: Mapping[Value, None]) -> Iterator[Value]:
    """Of the values that are asked for those that the column can have, and soon two typical ones that are none of
    them."""
    values = [*times_of([(name, column)], asked), *asked]
    fitting = [value for value in values if value is not None and fits(value, column.kinds, [column])][:MOST]
    others = (value for value in typical_values(name, column, column.kinds) if value not in fitting)
    yield from (*fitting[:3], *islice(others, 2), *fitting[3:])


def _asked_of_columns(
    program: CheckedProgram,
    literal: CheckedLiteral,
    sources: Mapping[Operand, set[Columns]],
    bounds: Mapping[Operand, Sequence[Value]],
) -> Iterator[tuple[Columns, Value]]:
    if isinstance(literal, Match):
        yield from _constants(program, literal)
    for variable, value in _asked(literal, bounds):
        for column in sources.get(variable, ()):
            yield column, value


def _constants(program: CheckedProgram, literal: Match) -> Iterator[tuple[Columns, Value]]:
    columns = program.relations[literal.relation].columns
    for at, term in literal.column_terms:
        if isinstance(term, Const):
            for value in neighbours(term.value):
                yield (relation_name(literal.relation), columns[at].name), value


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


def _asked(literal: CheckedLiteral, bounds: Mapping[Operand, Sequence[Value]]) -> Iterator[tuple[Var, Value]]:
    """The values that a literal asks of its variables. `bounds` are those that variables are compared with."""
    if isinstance(literal, Compare):
        yield from _compared(literal)
    elif isinstance(literal, Call) and literal.builtin != "is_string":
        others = [term.value if isinstance(term, Const) else None for term in literal.inputs]
        results = [value for output in literal.outputs if output for value in bounds.get(output, ())]
        for at, term in enumerate(literal.inputs):
            if isinstance(term, Var):
                for result in results or [None]:
                    for value in invert(literal.builtin, at, others, result, True):
                        yield term, value


def _compared(literal: CheckedLiteral) -> Iterator[tuple[Var, Value]]:
    for side, _, other in literal.from_each_side if isinstance(literal, Compare) else ():
        if isinstance(side, Var) and isinstance(other, Const):
            for value in neighbours(other.value):
                yield side, value


def typical_values(name: str, column: Column, kinds: Kind) -> Iterator[Value]:
    """Readable values of a column."""
    if column.allowed:
        yield from column.allowed[:40]
        if column.closed:
            return
    yield from column.numbers
    if (name, column.name) == ("heat:resource", "type"):
        yield from TYPES
    if (name, column.name) == ("heat:reference", "path"):
        yield "network"
    if "cidr" in column.custom:
        yield from NETWORKS
    elif column.custom in SAMPLES:
        yield SAMPLES[column.custom]
    if column.name in ("_value", "value") and Kind.STRING in kinds:
        yield "x"
    if Kind.NUMBER in kinds:
        low, high = column.range
        yield from (value for value in (low, 1, 0, 2, 10, high) if value is not None)
    if Kind.STRING in kinds and _is_time(column):
        yield from TIMES
    elif Kind.STRING in kinds:
        word = column.name.strip("_")
        yield from (WORDS.get(word, f"{word}-1"), f"{word}-2", f"other-{word}")
    if Kind.BOOLEAN in kinds:
        yield from (FALSE, TRUE) if column.name == "hidden" else (TRUE, FALSE)


def times_of(columns: Sequence[tuple[str, Column]], values: Iterable[Value]) -> Iterator[str]:
    """If the columns are times, the texts that are the beginning of one, or of its hours, each made a time."""
    texts = [value for value in values if isinstance(value, str)] if any(_is_time(own) for _, own in columns) else ()
    day, usual = TIMES[0][:10], TIMES[0]
    for text in texts:
        for time in (text + usual[len(text) :], day + text + usual[10 + len(text) :]):
            try:
                datetime.fromisoformat(time)
            except ValueError:
                continue
            yield time


def _is_time(column: Column) -> bool:
    return column.name.endswith("_at") or column.name in ("time", "read", "updated_time")


def fits(value: Value, kinds: Kind, columns: Sequence[Column]) -> bool:
    """Whether columns of these kinds can have the value."""
    if not kind_of(value) & kinds:
        return False
    for column in columns:
        if isinstance(value, str) and (
            (column.closed and value not in column.allowed) or find_reason(column.custom, value)
        ):
            return False
        low, high = column.range
        if isinstance(value, int | Decimal) and not (low is None or low <= value):
            return False
        if isinstance(value, int | Decimal) and not (high is None or value <= high):
            return False
    return True
