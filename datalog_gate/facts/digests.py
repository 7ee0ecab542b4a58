"""What facts come to (layer 2): a digest of each relation, and the columns in which something is not known.

In: a set of facts. Out: the same for the same facts, whatever the order of their rows and wherever they were written.
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
    """By relation the digest of its rows and of what decides whether they are there, and the columns that hold an
    unknown in some row, if any does."""

    digests: dict[RelationRef, str]
    unknown: dict[RelationRef, frozenset[int]]


def summary(facts: FactSet) -> Summary:
    """The summary of the facts. Of a hidden value a digest says only that it is there: whoever guesses it could prove
    the guess otherwise. No two sets of rows, but for hidden values, have one text that the digest is of."""
    digests: dict[RelationRef, str] = {}
    unknown: dict[RelationRef, frozenset[int]] = {}
    for relation, rows in facts.rows.items():
        plain = not facts.maybe.get(relation) and relation not in facts.hidden
        columns = list(zip(*(in_order(rows) if plain else rows), strict=True))
        text = _of_known(len(rows), columns) if plain else None
        if text is None:
            columns = [column[:1] if type(column[0]) is not Unknown and _same(column) else column for column in columns]
            held = [at for at, column in enumerate(columns) if Unknown in set(map(type, column))]
            if held:
                unknown[relation] = frozenset(held)
            text = (_of_some(len(rows), columns, held) if plain else None) or _of_any(facts, relation)
        digests[relation] = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Summary(digests, unknown)


_Columns = Sequence[Sequence[Value]]


def _of_known(number: int, columns: _Columns) -> str | None:
    """The text of rows, in order, that are surely there; None if a value is an unknown."""
    try:
        return _text(_KNOWN, number, columns)
    except TypeError:
        return None


def _of_some(number: int, columns: _Columns, held: Sequence[int]) -> str | None:
    """The text of rows, in order, that are surely there, of which some hold an unknown in the columns `held`; None if
    a value of these rows is hidden. By column it takes less time. What all rows have alike is said once."""
    unsure = [False] * number
    for at in held:
        unsure = [*map(or_, unsure, map(is_, map(type, columns[at]), repeat(Unknown)))]
    unsaid = [column if len(column) < number else tuple(compress(column, unsure)) for column in columns]
    if any(_hidden(value) for at in held for value in unsaid[at]):
        return None
    text = _text(_ANY, sum(unsure), unsaid)
    if all(unsure):
        return text
    known = [*map(not_, unsure)]
    return (
        _text(
            _KNOWN,
            sum(known),
            [column if len(column) < number else tuple(compress(column, known)) for column in columns],
        )
        + text
    )


def _text(encoder: json.JSONEncoder, number: int, columns: _Columns) -> str:
    return encoder.encode([number, [_column(column) for column in columns]])


def _column(values: Sequence[Value]) -> object:
    """What is written of a column. Most columns of a resource type hold one value in all rows, which is written once,
    and resources alone are an object of their paths, which takes a third of the time."""
    if _same(values):
        return values[:1]
    if isinstance(values[0], ResourceId) and set(map(type, values)) == {ResourceId}:
        return {"$resource": [*map(_PATH, values)]}
    return values


_PATH = attrgetter("path")


def _same(values: Sequence[Value]) -> bool:
    return values[0] == values[-1] and values.count(values[0]) == len(values)


def _of_any(facts: FactSet, relation: RelationRef) -> str:
    """The text of any rows. They are sorted as they are shown, so that their order tells nothing of a hidden value."""
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
"""They write a resource, which is a tuple, as an array of its path, and nothing else in a row as an array."""
