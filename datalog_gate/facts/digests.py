"""Digests of facts, independent of the order and places of rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from hashlib import sha256
from itertools import compress
from operator import attrgetter

from datalog_gate.base.records import dataclass
from datalog_gate.base.values import Boolean, ResourceId, Unknown, Value, in_order
from datalog_gate.facts.factset import FactSet
from datalog_gate.schema.declaration import RelationRef


@dataclass(frozen=True, slots=True)
class Summary:
    """The content of a set of facts, by relation."""

    digests: dict[RelationRef, str]
    """The digest of the rows, and of the unknowns that decide which rows exist."""
    unknown: dict[RelationRef, frozenset[int]]
    """The columns with an unknown in some row; relations without any are missing."""


def _to_json(value: object) -> object:
    match value:
        case Unknown():
            return {"$hidden": True} if value.hidden else {"$unknown": value.expression}
        case Boolean():
            return value.truth
        case Decimal():
            return {"$number": str(value)}
    raise TypeError


_JSON = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=_to_json)
"""Write a resource, which is a tuple, as an array of its path; no other value is written as an array."""


def summarize(facts: FactSet) -> Summary:
    """Summarize facts. A digest only depends on whether a value is hidden, since it could otherwise confirm a guess."""
    digests: dict[RelationRef, str] = {}
    unknown: dict[RelationRef, frozenset[int]] = {}
    for relation, rows in facts.rows.items():
        uncertain = facts.maybe.get(relation) or relation in facts.hidden
        ordered = rows if uncertain else in_order(rows)
        columns = [*zip(*ordered, strict=True)]
        shrunk = [*map(_shrink, columns)]
        open_columns = [at for at, column in enumerate(shrunk) if Unknown in set(map(type, column))]
        if open_columns:
            unknown[relation] = frozenset(open_columns)
        unknowns = [
            (row, value)
            for column in open_columns
            for row, value in enumerate(columns[column])
            if type(value) is Unknown
        ]
        if uncertain or any(value.hidden for _, value in unknowns):
            text = _encode_any(facts, relation)
        else:
            text = _encode_parts(len(rows), shrunk, {row for row, _ in unknowns})
        digests[relation] = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Summary(digests, unknown)


def _shrink(values: Sequence[Value]) -> Sequence[Value]:
    """A column, reduced to one value if all rows share it, as most rows of a resource type do."""
    return values[:1] if values[0] == values[-1] and values.count(values[0]) == len(values) else values


def _encode_parts(number: int, columns: Sequence[Sequence[Value]], open_rows: Collection[int]) -> str:
    """The text of certain rows in order, those with an unknown at the end."""
    if len(open_rows) in (0, number):
        return _encode(number, columns)
    chosen = [row not in open_rows for row in range(number)]
    known = [column if len(column) == 1 else _shrink([*compress(column, chosen)]) for column in columns]
    rest = [column if len(column) == 1 else _shrink([column[row] for row in sorted(open_rows)]) for column in columns]
    return _encode(number - len(open_rows), known) + _encode(len(open_rows), rest)


def _encode(number: int, columns: Iterable[Sequence[Value]]) -> str:
    """The text of certain rows in order, by column because that is faster."""
    return _JSON.encode([number, [_paths(column) if type(column[0]) is ResourceId else column for column in columns]])


def _paths(values: Sequence[Value]) -> object:
    """A column; if it holds only resources, an object of their paths, which takes a third of the time."""
    if len(values) > 1 and set(map(type, values)) == {ResourceId}:
        return {"$resource": [*map(attrgetter("path"), values)]}
    return values


def _encode_any(facts: FactSet, relation: RelationRef) -> str:
    """The text of any rows. They are sorted as shown, so that their order reveals nothing about a hidden value."""
    reasons = facts.maybe.get(relation, {})
    cells = ([facts.shown(relation, row), reasons.get(row)] for row in facts.rows[relation])
    return _JSON.encode(sorted(map(_JSON.encode, cells)))
