"""Digests of facts: one for each relation, and the columns with unknowns.

Equal facts have equal digests, whatever the order and the places of their rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from itertools import compress, repeat
from operator import attrgetter, is_, not_, or_

from datalog_gate.base.values import Boolean, ResourceId, Unknown, Value, in_order
from datalog_gate.facts.factset import FactSet
from datalog_gate.schema.declaration import RelationRef


@dataclass(frozen=True, slots=True)
class Summary:
    """What a set of facts contains, by relation."""

    digests: dict[RelationRef, str]
    """The digest of the rows, and of what decides which of them exist."""
    unknown: dict[RelationRef, frozenset[int]]
    """The columns that hold an unknown in some row; a relation without any is missing."""


def summarize(facts: FactSet) -> Summary:
    """Summarize facts.

    A digest only depends on the presence of a hidden value, since it could prove a guess of the value otherwise.
    Sets of rows that differ in more than hidden values have different texts, of which the digest is taken.
    """
    digests: dict[RelationRef, str] = {}
    unknown: dict[RelationRef, frozenset[int]] = {}
    for relation, rows in facts.rows.items():
        is_certain = not facts.maybe.get(relation) and relation not in facts.hidden
        columns = list(zip(*(in_order(rows) if is_certain else rows), strict=True))
        text = _encode_known(len(rows), columns) if is_certain else None
        if text is None:
            columns = [
                column[:1] if type(column[0]) is not Unknown and _is_constant(column) else column for column in columns
            ]
            open_columns = [at for at, column in enumerate(columns) if Unknown in set(map(type, column))]
            if open_columns:
                unknown[relation] = frozenset(open_columns)
            if is_certain:
                text = _encode_certain(len(rows), columns, open_columns)
            if text is None:
                text = _encode_any(facts, relation)
        digests[relation] = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Summary(digests, unknown)


_Columns = Sequence[Sequence[Value]]


def _encode_known(number: int, columns: _Columns) -> str | None:
    """The text of certain rows in order; None if a value is an unknown."""
    try:
        return _encode(_KNOWN, number, columns)
    except TypeError:
        return None


def _encode_certain(number: int, columns: _Columns, open_columns: Sequence[int]) -> str | None:
    """The text of certain rows in order, some with unknowns in `open_columns`; None if one of these is hidden.

    Encoding by column takes less time. A value that all rows share is written once.
    """
    has_unknown = [False] * number
    for at in open_columns:
        has_unknown = [*map(or_, has_unknown, map(is_, map(type, columns[at]), repeat(Unknown)))]
    unknown_rows = [column if len(column) < number else tuple(compress(column, has_unknown)) for column in columns]
    if any(_hidden(value) for at in open_columns for value in unknown_rows[at]):
        return None
    text = _encode(_ANY, sum(has_unknown), unknown_rows)
    if all(has_unknown):
        return text
    is_known = [*map(not_, has_unknown)]
    known_rows = [column if len(column) < number else tuple(compress(column, is_known)) for column in columns]
    return _encode(_KNOWN, sum(is_known), known_rows) + text


def _encode(encoder: json.JSONEncoder, number: int, columns: _Columns) -> str:
    return encoder.encode([number, [_compress(column) for column in columns]])


def _compress(values: Sequence[Value]) -> object:
    """The form in which a column is written.

    Most columns of a resource type hold one value in all rows, which is written once. A column of resources is written
    as an object of paths, which takes a third of the time.
    """
    if _is_constant(values):
        return values[:1]
    if isinstance(values[0], ResourceId) and set(map(type, values)) == {ResourceId}:
        return {"$resource": [*map(_PATH, values)]}
    return values


_PATH = attrgetter("path")


def _is_constant(values: Sequence[Value]) -> bool:
    return values[0] == values[-1] and values.count(values[0]) == len(values)


def _encode_any(facts: FactSet, relation: RelationRef) -> str:
    """The text of any rows. They are sorted as shown, so that their order tells nothing about a hidden value."""
    reasons = facts.maybe.get(relation, {})
    cells = ([facts.shown(relation, row), reasons.get(row)] for row in facts.rows[relation])
    return _ANY.encode(sorted(map(_ANY.encode, cells)))


def _known(value: object) -> object:
    match value:
        case Boolean():
            return value.truth
        case Decimal():
            return {"$number": str(value)}
    raise TypeError


def _any(value: object) -> object:
    if not isinstance(value, Unknown):
        return _known(value)
    return {"$hidden": True} if _hidden(value) else {"$unknown": value.expression}


def _hidden(value: object) -> bool:
    return isinstance(value, Unknown) and value.hidden


_KNOWN = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=_known)
_ANY = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=_any)
"""The encoders write a resource, which is a tuple, as an array of its path; no other value is written as an array."""
