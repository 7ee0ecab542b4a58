"""Digests of facts, independent of the order and places of rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from hashlib import sha256
from operator import attrgetter, itemgetter

from datalog_gate.base.records import dataclass
from datalog_gate.base.values import Boolean, ResourceId, Row, Unknown, Value, in_order
from datalog_gate.facts.factset import FactSet
from datalog_gate.schema.declaration import RelationRef


@dataclass(frozen=True, slots=True)
class Summary:
    """The content of a set of facts, by relation."""

    digests: dict[RelationRef, str]
    """The digest of the rows, and of the unknowns that decide which rows exist."""
    unknown: dict[RelationRef, frozenset[int]]
    """The columns with an unknown in some row; relations without any are missing."""


def _known_to_json(value: object) -> object:
    match value:
        case Boolean():
            return value.truth
        case Decimal():
            return {"$number": str(value)}
    raise TypeError


def _to_json(value: object) -> object:
    if isinstance(value, Unknown):
        return {"$hidden": True} if value.hidden else {"$unknown": value.expression}
    return _known_to_json(value)


_KNOWN = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=_known_to_json)
_JSON = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=_to_json)
"""Write a resource, which is a tuple, as an array of its path; no other value is written as an array."""


def summarize(facts: FactSet) -> Summary:
    """Summarize facts. A digest only depends on whether a value is hidden, since it could otherwise confirm a guess."""
    digests: dict[RelationRef, str] = {}
    unknown: dict[RelationRef, frozenset[int]] = {}
    for relation, rows in facts.rows.items():
        uncertain = facts.maybe.get(relation) or relation in facts.hidden
        ordered = rows if uncertain else in_order(rows)
        columns = [*map(_shrink, zip(*ordered, strict=True))]
        text = None if uncertain or unknown else _encode_known(len(rows), columns)
        if text is None:
            open_columns = [at for at, column in enumerate(columns) if Unknown in map(type, column)]
            if open_columns:
                unknown[relation] = frozenset(open_columns)
            unknowns = [value for at in open_columns for value in columns[at] if type(value) is Unknown]
            if uncertain or any(value.hidden for value in unknowns):
                text = _encode_any(facts, relation)
            elif not open_columns:
                text = _encode(len(rows), columns)
            else:
                parts: tuple[list[Row], list[Row]] = ([], [])
                types = zip(*[map(type, map(itemgetter(at), ordered)) for at in open_columns], strict=True)
                for row, types_of_row in zip(ordered, types, strict=True):
                    parts[Unknown in types_of_row].append(row)
                text = "".join(_encode(len(part), map(_shrink, zip(*part, strict=True))) for part in parts if part)
        digests[relation] = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Summary(digests, unknown)


def _shrink(values: Sequence[Value]) -> Sequence[Value]:
    """A column, reduced to one value if all rows share it, as most rows of a resource type do."""
    return values[:1] if values[0] == values[-1] and values.count(values[0]) == len(values) else values


def _encode_known(number: int, columns: Iterable[Sequence[Value]]) -> str | None:
    """The text of certain rows, as `_encode` returns it; None if a value is unknown: looking for one before would
    take longer, unless there are others."""
    try:
        return _encode(number, columns, _KNOWN)
    except TypeError:
        return None


def _encode(number: int, columns: Iterable[Sequence[Value]], encoder: json.JSONEncoder = _JSON) -> str:
    """The text of certain rows in order, by column because that is faster."""
    return encoder.encode([number, [_paths(column) if type(column[0]) is ResourceId else column for column in columns]])


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
