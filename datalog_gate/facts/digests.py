"""Digests of facts, whatever the order and the places of their rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from decimal import Decimal
from hashlib import sha256
from operator import attrgetter

from datalog_gate.base.records import dataclass
from datalog_gate.base.values import Boolean, ResourceId, Row, Unknown, Value, in_order
from datalog_gate.facts.factset import FactSet
from datalog_gate.schema.declaration import RelationRef


@dataclass(frozen=True, slots=True)
class Summary:
    """What a set of facts contains, by relation."""

    digests: dict[RelationRef, str]
    """The digest of the rows, and of what decides which of them exist."""
    unknown: dict[RelationRef, frozenset[int]]
    """The columns that hold an unknown in some row; a relation without any is missing."""


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
"""They write a resource, which is a tuple, as an array of its path; no other value is written as an array."""


def summarize(facts: FactSet) -> Summary:
    """Summarize facts. A digest depends on a hidden value's presence only, since it could prove a guess otherwise."""
    digests: dict[RelationRef, str] = {}
    unknown: dict[RelationRef, frozenset[int]] = {}
    for relation, rows in facts.rows.items():
        uncertain = facts.maybe.get(relation) or relation in facts.hidden
        ordered = rows if uncertain else in_order(rows)
        columns = [*map(_shrink, zip(*ordered, strict=True))]
        text = None if uncertain else _encode_known(len(rows), columns)
        if text is None:
            open_columns = [at for at, column in enumerate(columns) if Unknown in map(type, column)]
            if open_columns:
                unknown[relation] = frozenset(open_columns)
            unknowns = [value for at in open_columns for value in columns[at] if type(value) is Unknown]
            if uncertain or any(value.hidden for value in unknowns):
                text = _encode_any(facts, relation)
            else:
                parts: tuple[list[Row], list[Row]] = ([], [])
                for row in ordered:
                    parts[Unknown in [type(row[at]) for at in open_columns]].append(row)
                text = "".join(_encode(len(part), map(_shrink, zip(*part, strict=True))) for part in parts if part)
        digests[relation] = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Summary(digests, unknown)


def _shrink(values: Sequence[Value]) -> Sequence[Value]:
    """A column; if all rows share a value, as most rows of a resource type do, this value alone."""
    return values[:1] if values[0] == values[-1] and values.count(values[0]) == len(values) else values


def _encode_known(number: int, columns: Iterable[Sequence[Value]]) -> str | None:
    """The text of certain rows, as `_encode` gives it; None if a value is unknown, which takes longer to look for."""
    try:
        return _encode(number, columns, _KNOWN)
    except TypeError:
        return None


def _encode(number: int, columns: Iterable[Sequence[Value]], encoder: json.JSONEncoder = _JSON) -> str:
    """The text of certain rows in order, by column since that takes less time."""
    return encoder.encode([number, [_paths(column) if type(column[0]) is ResourceId else column for column in columns]])


def _paths(values: Sequence[Value]) -> object:
    """A column; if it holds several resources only, an object of their paths, which takes a third of the time."""
    if len(values) > 1 and set(map(type, values)) == {ResourceId}:
        return {"$resource": [*map(attrgetter("path"), values)]}
    return values


def _encode_any(facts: FactSet, relation: RelationRef) -> str:
    """The text of any rows. They are sorted as shown, so that their order tells nothing about a hidden value."""
    reasons = facts.maybe.get(relation, {})
    cells = ([facts.shown(relation, row), reasons.get(row)] for row in facts.rows[relation])
    return _JSON.encode(sorted(map(_JSON.encode, cells)))
