"""Relations as tables, and their rows as SQL values and back.

A column of one kind is plain. A column of several kinds holds tagged texts: a letter for the kind before each text.
Null is NULL. Values that fit no column are reported by row and column: unknowns, undeclared kinds, texts that a
database refuses, and numbers with more than 20 digits before the point or 9 after it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from enum import Enum
from typing import cast

from sqlglot import exp

from datalog_gate.base.records import dataclass, field
from datalog_gate.base.values import NOT_NULL, Boolean, Kind, ResourceId, Row, Value, boolean, number
from datalog_gate.schema.declaration import Column, Relation, RelationRef

ROOT = "_root"
"""The column of the root stack, the first of a lifted relation."""
NOTHING = "_nothing"
LIMIT = 10**20
"""Numbers between -LIMIT and LIMIT fit, so that a sum of a billion of them has the same type."""
PLACES = 9
NAME_BYTES = 63
"""The maximum length of a name in bytes that PostgreSQL does not truncate."""

SqlValue = None | bool | int | Decimal | str
SqlRow = tuple[SqlValue, ...]


class Representation(Enum):
    """How values are written in a column, with the letter of tagged texts."""

    BOOLEAN = "B"
    NUMBER = "N"
    TEXT = "S"
    RESOURCE = "R"
    TAGGED = ""

    @staticmethod
    def of(kinds: Kind) -> Representation:
        """The representation for values of these kinds, which may be null."""
        return _OF_ONE_KIND.get(kinds & NOT_NULL, Representation.TAGGED)

    @property
    def type(self) -> exp.DataType:
        """The SQL type."""
        return exp.DataType.build(_TYPES.get(self, "TEXT"))

    def encode(self, value: Value) -> SqlValue:
        """The SQL value. Errors: ValueError if it does not fit."""
        if value is None:
            return None
        own, plain = encode_alone(value)
        if self is Representation.TAGGED:
            return own.value + _text_of(plain)
        if own is not self:
            raise ValueError("a value of another kind")
        return plain

    def decode(self, value: SqlValue) -> Value:
        """The value of an SQL value."""
        if value is None:
            return None
        if self is Representation.TAGGED:
            assert isinstance(value, str)
            own, text = Representation(value[0]), value[1:]
            plain: SqlValue = text
            if own is Representation.NUMBER:
                plain = Decimal(text)
            elif own is Representation.BOOLEAN:
                plain = text == "1"
            return own.decode(plain)
        match value:
            case bool():
                return boolean(value)
            case int() | Decimal():
                return number(Decimal(value))
        return ResourceId(value) if self is Representation.RESOURCE else value


_OF_ONE_KIND = {
    Kind.BOOLEAN: Representation.BOOLEAN,
    Kind.NUMBER: Representation.NUMBER,
    Kind.STRING: Representation.TEXT,
    Kind.RESOURCE: Representation.RESOURCE,
}
_TYPES = {Representation.NUMBER: f"DECIMAL(38, {PLACES})", Representation.BOOLEAN: "BOOLEAN"}


def encode_alone(value: Value) -> tuple[Representation, SqlValue]:
    """The representation of a single value, and its plain SQL value. Errors: ValueError."""
    match value:
        case Boolean():
            return Representation.BOOLEAN, value.truth
        case int() | Decimal():
            if not -LIMIT < value < LIMIT or (isinstance(value, Decimal) and int(value.as_tuple().exponent) < -PLACES):
                raise ValueError("a number of too many digits")
            return Representation.NUMBER, value
        case ResourceId():
            return Representation.RESOURCE, _check_text(value.path)
        case str():
            return Representation.TEXT, _check_text(value)
    raise ValueError("an unknown")


def encode_plain(representation: Representation, values: Sequence[Value]) -> Sequence[SqlValue] | None:
    """The SQL values of a column with texts, ids or nulls alone, in a tenth of the time; None for others."""
    kinds = {*map(type, values)} - {type(None)}
    if not kinds:
        return [None] * len(values)
    texts: Sequence[SqlValue]
    if kinds == {str}:
        own, texts = Representation.TEXT, cast("Sequence[str | None]", values)
    elif kinds == {ResourceId}:
        own, texts = (
            Representation.RESOURCE,
            [value.path if isinstance(value, ResourceId) else None for value in values],
        )
    else:
        return None
    joined = "".join([text for text in texts if isinstance(text, str)])
    if not joined.isascii() or "\0" in joined or representation not in (own, Representation.TAGGED):
        return None
    return texts if representation is own else [None if text is None else f"{own.value}{text}" for text in texts]


def _check_text(text: str) -> str:
    if "\0" in text:
        raise ValueError("a text with a NUL")
    if not text.isascii():
        text.encode()  # a UnicodeEncodeError, of lone surrogates, is a ValueError
    return text


def _text_of(plain: SqlValue) -> str:
    """The part of a tagged text after its letter, equal only for equal values."""
    match plain:
        case bool():
            return "1" if plain else "0"
        case Decimal():
            return format(plain, "f")
    return str(plain)


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column of a table."""

    name: str
    representation: Representation


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Rows as SQL values, and the row and column positions of values that do not fit, which are NULL."""

    rows: list[SqlRow]
    unfit: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class RelationTable:
    """The table of a relation. Its names consist of letters, digits and ``_``, and must be quoted."""

    relation: RelationRef
    columns: tuple[SqlColumn, ...]
    name: str = field(init=False)
    names: tuple[str, ...] = field(init=False)
    """The names of the columns. A relation without columns has one that is always true, since databases need one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", table_name(self.relation))
        object.__setattr__(self, "names", tuple(column.name for column in self.columns) or (NOTHING,))

    @staticmethod
    def of(reference: RelationRef, relation: Relation, lifted: bool = False) -> RelationTable:
        """The table of a relation. With `lifted` the column of the root is added to the declaration."""
        columns = ((Column(ROOT, Kind.STRING),) if lifted else ()) + relation.columns
        representations = [Representation.of(column.kinds) for column in columns]
        names = _distinct_names(column.name for column in columns)
        return RelationTable(reference, tuple(map(SqlColumn, names, representations)))

    def encode(self, rows: Iterable[Row]) -> EncodedRows:
        """Rows of the relation, with the root first if it is lifted, as SQL values."""
        unfit: list[tuple[int, int]] = []
        columns: list[Sequence[SqlValue]] = []
        rows = [*rows]
        for at, (column, values) in enumerate(zip(self.columns, zip(*rows, strict=True), strict=False)):
            encoded = encode_plain(column.representation, values)
            if encoded is None:
                encoded = []
                for place, value in enumerate(values):
                    try:
                        encoded.append(column.representation.encode(value))
                    except ValueError:
                        encoded.append(None)
                        unfit.append((place, at))
            columns.append(encoded)
        return EncodedRows([*zip(*columns, strict=True)] if self.columns else [(True,)] * len(rows), sorted(unfit))

    def decode(self, rows: Iterable[Sequence[SqlValue]]) -> Iterator[Row]:
        """The rows of SQL values."""
        if not self.columns:
            return (() for _ in rows)
        decoders = [column.representation.decode for column in self.columns]
        return (tuple([decode(value) for decode, value in zip(decoders, row, strict=True)]) for row in rows)

    def create(self, role: str = "", temporary: bool = False) -> exp.Create:
        """The statement that creates it, or a table like it for that role."""
        definitions = [
            exp.ColumnDef(this=identifier(column.name), kind=column.representation.type) for column in self.columns
        ] or [exp.ColumnDef(this=identifier(NOTHING), kind=exp.DataType.build("BOOLEAN"))]
        properties = exp.Properties(expressions=[exp.TemporaryProperty()]) if temporary else None
        name = table_name(self.relation, role) if role else self.name
        schema = exp.Schema(this=exp.Table(this=identifier(name)), expressions=definitions)
        return exp.Create(this=schema, kind="TABLE", properties=properties)


def table_name(relation: RelationRef, role: str = "") -> str:
    """The name of a relation's table: ``os__nova__server``. Ambiguous or long names end in a digest. The `role` names
    another table of the same relation, such as that of new rows."""
    text = str(relation)
    name = text.replace(":", "__") + (f"__{role}" if role else "")
    if _PLAIN.fullmatch(text) and "__" not in text and len(name) <= NAME_BYTES:
        return name
    return _with_digest(name, f"{text} {role}")


def identifier(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


_PLAIN = re.compile(r"[a-z][a-z0-9_]*(?<!_)(?::[a-z](?:[a-z0-9_]*(?<!_))?)*", re.ASCII)


def _with_digest(name: str, text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{re.sub('[^A-Za-z0-9_]+', '_', name)[: NAME_BYTES - 13].strip('_')}_{digest}"


def _distinct_names(names: Iterable[str]) -> list[str]:
    """Column names that differ in more than case, since databases ignore case."""
    chosen: dict[str, str] = {}
    for at, name in enumerate(names):
        plain = "_root" if name == "root#" else name
        if not re.fullmatch("[A-Za-z0-9_]+", plain) or len(plain) > NAME_BYTES or plain.casefold() in chosen:
            plain = _with_digest(plain, f"{at} {name}")
        chosen[plain.casefold()] = plain
    return [*chosen.values()]
