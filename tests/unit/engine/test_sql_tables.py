"""Relations as tables of a database, with all their values."""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import product

import pytest
from sqlglot import exp

from datalog_gate.base.values import FALSE, TRUE, Kind, ResourceId, Row, Value
from datalog_gate.engine.sql.database import Database, open_database
from datalog_gate.engine.sql.tables import (
    LIMIT,
    RelationTable,
    Representation,
    SqlColumn,
    SqlRow,
    SqlValue,
    encode_plain,
    identifier,
    table_name,
)
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.declaration import Column, Relation, all_version, old_version
from tests.expressions import worded

KINDS = {"b": Kind.BOOLEAN, "n": Kind.NUMBER, "t": Kind.STRING, "r": Kind.RESOURCE | Kind.NULL, "any": Kind.ANY}
RELATION = Relation("m:r", tuple(Column(name, kinds) for name, kinds in KINDS.items()))
TABLE = RelationTable.of("m:r", RELATION)
ROWS: list[Row] = [
    (TRUE, 1, "", ResourceId("web/db"), TRUE),
    (FALSE, -LIMIT + 1, "a'b\\c\n%s$1", None, FALSE),
    (None, Decimal("0.000000001"), "ÄİẞΣ👩", ResourceId("ä"), "B1"),
    (TRUE, LIMIT - 1, None, None, None),
    (TRUE, 0, "N1", None, 1),
    (TRUE, Decimal("1.5"), "x", None, Decimal("-1.5")),
    (TRUE, 7, "x", None, ResourceId("1")),
]


def store_and_read(database: Database, rows: list[Row]) -> list[Row]:
    """Store the rows in the database and read them back."""
    database.execute(TABLE.create())
    encoded = TABLE.encode(rows)
    assert encoded.unfit == []
    database.insert(TABLE.name, TABLE.names, encoded.rows)
    query = exp.select(*map(identifier, TABLE.names)).from_(exp.Table(this=identifier(TABLE.name)))
    return sorted(TABLE.decode(database.fetch(query)), key=repr)


def test_a_database_returns_the_stored_values() -> None:
    with open_database() as database:
        assert store_and_read(database, ROWS) == sorted(ROWS, key=repr)


def test_a_database_returns_many_rows_with_nulls() -> None:
    rows: list[Row] = [(TRUE, at, None if at % 3 else "x", ResourceId(str(at)), at) for at in range(3000)]
    rows.append((FALSE, Decimal("0.5"), None, None, Decimal("0.25")))
    with open_database() as database:
        assert store_and_read(database, rows) == sorted(rows, key=repr)


def test_values_that_do_not_fit_are_listed_and_stored_as_null() -> None:
    unfit: list[Row] = [
        ("true", LIMIT, "a\0", "web/db", worded("u")),
        (1, Decimal("0.0000000001"), "\ud800", worded("u"), "\0"),
        (TRUE, "1", TRUE, ResourceId("\0"), -LIMIT),
    ]
    encoded = TABLE.encode([*unfit, ROWS[0]])
    assert encoded.unfit == sorted([(0, 0), (1, 0), *((row, at) for at in range(1, 5) for row in range(3))])
    fits = (True, 1, "", "web/db", "B1")
    assert encoded.rows == [(None,) * 5, (None,) * 5, (True, None, None, None, None), fits]


def test_a_lifted_table_starts_with_the_root() -> None:
    declared = Relation("m:q", (Column("x", Kind.NUMBER),))
    columns = (SqlColumn("_root", Representation.TEXT), SqlColumn("x", Representation.NUMBER))
    assert RelationTable.of("m:q", declared, lifted=True) == RelationTable("m:q", columns)


def test_a_relation_without_columns_has_a_table_with_rows() -> None:
    table = RelationTable.of("m:holds", Relation("m:holds", ()))
    with open_database() as database:
        database.execute(table.create(temporary=True))
        database.execute(exp.insert(exp.select(exp.true()), exp.Table(this=identifier(table.name))))
        assert database.fetch(exp.select("*").from_(exp.Table(this=identifier(table.name)))) == [(True,)]
    assert (table.names, table.encode([()]).rows) == (("_nothing",), [(True,)])


def test_each_relation_of_the_catalogue_has_its_own_table() -> None:
    relations = [*SHIPPED.names()]
    references = [*relations, *map(old_version, relations), *map(all_version, relations), "a:b", "a__b", "a:_b", "a_:b"]
    names = {table_name(reference).casefold() for reference in references}
    assert len(names) == len(references)
    assert [name for name in names if not re.fullmatch("[a-z0-9_]{1,63}", name)] == []
    assert [table_name(name) for name in ("os:nova:server", "heat:resource")] == ["os__nova__server", "heat__resource"]
    assert table_name("m:p", "new") == "m__p__new"
    assert table_name("m:" + "p" * 80, "new") != table_name("m:" + "p" * 80)


def test_column_names_differ_in_more_than_case() -> None:
    names = RelationTable.of(
        "m:p", Relation("m:p", tuple(Column(name, Kind.ANY) for name in ("Tag", "tag", "a b")))
    ).names
    assert names == ("Tag", "tag_bb992e1cad19", "a_b_b193e512b3be")


def insert_and_fail(database: Database, rows: list[SqlRow]) -> None:
    database.insert(TABLE.name, TABLE.names, rows)
    raise ValueError("too few")


def test_an_error_rolls_a_transaction_back() -> None:
    with open_database() as database:
        database.execute(TABLE.create())
        row = TABLE.encode(ROWS).rows[:1]
        with pytest.raises(ValueError, match="too few"), database.transaction():
            insert_and_fail(database, row)
        with database.transaction():
            database.insert(TABLE.name, TABLE.names, row)
        assert database.fetch(exp.select("n").from_(exp.Table(this=identifier(TABLE.name)))) == [(1,)]


def test_a_database_in_a_file_can_be_opened_again(tmp_path: object) -> None:
    path = f"{tmp_path}/facts.duckdb"
    query = exp.select("n").from_(exp.Table(this=identifier(TABLE.name)))
    with open_database(path) as database:
        database.execute(TABLE.create())
        database.insert(TABLE.name, ["n"], [[5]])
    with open_database(path) as database:
        assert database.fetch(query) == [(5,)]


@pytest.mark.parametrize("representation", Representation)
def test_a_column_is_encoded_at_once_as_value_by_value(representation: Representation) -> None:
    texts: list[Value] = [None, "", "a", "ä", "\0", "\ud800"]
    ids: list[Value] = [None, *(ResourceId(text) for text in texts if isinstance(text, str))]
    columns = [values for pool in (texts, ids, [None, "a", ResourceId("b"), 1, TRUE]) for values in product(pool, pool)]
    for values in columns:
        single = [encode_or_fail(representation, value) for value in values]
        plain = encode_plain(representation, values)
        assert plain is None or [*plain] == single
    assert any(encode_plain(representation, values) for values in columns)


def encode_or_fail(representation: Representation, value: Value) -> SqlValue | type[ValueError]:
    try:
        return representation.encode(value)
    except ValueError:
        return ValueError
