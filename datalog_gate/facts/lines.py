"""Facts as lines of JSON.

A line is ``{"relation": name, "row": {column: value} or [value, ...], "place": ...}``. A resource id is
``{"$resource": path}``, an unknown ``{"$unknown": {"expression", "place"}}``, a hidden value ``{"$hidden": true}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from hashlib import sha256

from datalog_gate.base import values
from datalog_gate.base.diagnostics import Diagnostic, Span, closest, format_count, suggest_name
from datalog_gate.base.errors import InputError
from datalog_gate.base.expression import phrase
from datalog_gate.base.records import dataclass
from datalog_gate.base.values import Kind, ResourceId, Row, Unknown, Value
from datalog_gate.facts.factset import FactSet, place_of
from datalog_gate.schema import cloud
from datalog_gate.schema.catalogue import SHIPPED, Catalogue
from datalog_gate.schema.declaration import Relation, RelationRef

LONG = 1000
"""The maximum length of a text that is shown in full."""
_PLAIN = {"true": "write true", "false": "write false", "none": "write null"}
"""The correct values for texts that Congress's drivers, and some services, write instead."""


@dataclass(frozen=True, slots=True)
class FactLine:
    """A fact as read, with its values by column or in order."""

    relation: str
    row: Mapping[str, Value] | Row
    span: Span

    def positional(self, relation: Relation) -> Row:
        """The row in the order of the relation's columns, with null for missing columns. Errors: InputError. Rows in
        order stay valid when an inventory relation gets more columns."""
        columns = [column.name for column in relation.columns]
        if isinstance(self.row, tuple):
            if len(self.row) == cloud.OLD_WIDTHS.get(relation.name):
                return (*self.row, *(None for _ in columns[len(self.row) :]))
            if len(self.row) != len(columns):
                raise _bad(
                    f"{relation.name} has {format_count(len(columns), 'column')}, found {len(self.row)}", self.span
                )
            return self.row
        for name in self.row:
            if name not in relation.positions:
                raise _bad(f"{relation.name} has no column {name}", self.span, suggest_name(closest(name, columns)))
        return tuple(self.row.get(name) for name in columns)

    def typed(self, relation: Relation) -> Row:
        """The positional row, its kinds checked unless it is of a resource type. Errors: InputError."""
        row = self.positional(relation)
        for column, value in zip(relation.columns, row, strict=True):
            kind = values.kind_of(value)
            if not relation.named_only and not kind & (column.kinds | Kind.UNKNOWN):
                message = f"{relation.name}.{column.name} is {column.kinds.describe()}, found {kind.describe()}"
                raise _bad(message, self.span, _PLAIN.get(value.lower()) if isinstance(value, str) else None)
        return row


def write(facts: FactSet, catalogue: Catalogue = SHIPPED) -> Iterator[str]:
    """Write the facts as lines, sorted by relation and row."""
    for reference, relation, row, span in _sorted_rows(facts, catalogue):
        shown = zip(relation.columns, facts.shown(reference, row), strict=True)
        cells = {column.name: values.to_json(value, tagged=True) for column, value in shown}
        line = {"relation": str(reference), "row": cells, "place": span.to_json() if span else None}
        yield json.dumps(line, ensure_ascii=False)


def write_text(facts: FactSet, catalogue: Catalogue = SHIPPED) -> Iterator[str]:
    """Write the facts for people, sorted: the columns that are not null, long texts as digests, then the place."""
    for reference, relation, row, span in _sorted_rows(facts, catalogue):
        cells = [
            f"{column.name}={_brief(value) if isinstance(value, str) else values.show(value)}"
            for column, value in zip(relation.columns, facts.shown(reference, row), strict=True)
            if value is not None
        ]
        yield f"{reference}({', '.join(cells)})" + (f"   {span}" if span else "")


def _sorted_rows(facts: FactSet, catalogue: Catalogue) -> Iterator[tuple[RelationRef, Relation, Row, Span | None]]:
    for reference in sorted(facts.rows, key=str):
        relation = catalogue.relation(reference)
        assert relation is not None, reference
        for row in sorted(facts.rows[reference], key=values.row_key):
            origin = facts.origin(reference, row)
            yield reference, relation, row, place_of(origin) if origin else None


def read(text: str, file: str) -> list[FactLine]:
    """Read the facts of a file of lines; empty lines are skipped. Errors: InputError with every bad line."""
    lines: list[FactLine] = []
    diagnostics: list[Diagnostic] = []
    for at, line in enumerate(text.split("\n"), 1):  # JSON does not escape U+2028 and U+0085
        if not line.strip():
            continue
        span = Span(file, at, 1, at, len(line) + 1)
        try:
            lines.append(_line(line, span))
        except InputError as error:
            diagnostics += error.diagnostics
    if diagnostics:
        raise InputError(diagnostics, {file: text})
    return lines


def _brief(text: str) -> str:
    if len(text) <= LONG:
        return json.dumps(text, ensure_ascii=False)
    data = text.encode("utf-8", "surrogatepass")
    return f"text({len(data)} bytes, sha256 {sha256(data).hexdigest()})"


def _line(line: str, span: Span) -> FactLine:
    try:
        data = json.loads(line, parse_float=Decimal, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise _bad(f"this is not JSON: {error}", span) from None
    if not isinstance(data, dict) or not isinstance(data.get("relation"), str):
        raise _bad("a fact must be an object with a relation and a row", span, '{"relation": "name", "row": ["value"]}')
    match data.get("row"):
        case dict() as row:
            return FactLine(data["relation"], {name: _value(cell, span) for name, cell in row.items()}, span)
        case list() as row:
            return FactLine(data["relation"], tuple(_value(cell, span) for cell in row), span)
    raise _bad("a row must be an object or an array", span, '"row": {"column": "value"}')


def _value(cell: object, span: Span) -> Value:
    match cell:
        case {"$resource": str(path)}:
            return ResourceId(path)
        case {"$unknown": {"expression": str(expression)}}:
            return Unknown(phrase(expression))
        case {"$hidden": True}:
            return values.hidden_value(str(span))
        case dict() | list():
            raise _bad(f"{json.dumps(cell, default=str)[:80]} is not a value", span, "a value must be a scalar")
    try:
        return values.from_python(cell)
    except ValueError as error:
        raise _bad(str(error), span) from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _bad(message: str, span: Span, suggestion: str | None = None) -> InputError:
    return InputError([Diagnostic("bad-facts", message, span, suggestion)])
