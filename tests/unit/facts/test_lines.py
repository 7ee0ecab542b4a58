"""Facts as lines: writing, reading and bad lines."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import InputError
from datalog_gate.base.values import FALSE, TRUE, ResourceId, Row, Value, from_python, hidden_value, row_key
from datalog_gate.facts.factset import FactSet
from datalog_gate.facts.lines import FactLine, read, write, write_text
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.stack.model import EnvironmentFile
from tests.expressions import worded
from tests.refusals import refusals

DB = ResourceId("web/db")
PLACE = Span("web.yaml", 7, 3, 7, 9)
FIELDS = ("code", "message", "span", "suggestion")
VALUES: tuple[Value, ...] = (
    None, TRUE, FALSE, 0, -(10**30), Decimal("1.5"), Decimal("0.12345678901234567890123"), "", "1", '") :- p(x).\n',
    "\u2028\x85\x0b\x1c\r", "\ud800 \U0001f600 \x00", DB, worded("get_attr [db, name]"),
)  # fmt: skip


def facts_of(values: tuple[Value, ...], place: Span | None = None) -> FactSet:
    facts = FactSet()
    for at, value in enumerate(values):
        facts.add(
            "heat:property", (DB, f"p.{at}", value), (EnvironmentFile("", {}, lambda _: place), ()) if place else None
        )
    return facts


def rows_of(text: str) -> list[Row]:
    relation = SHIPPED.relation("heat:property")
    assert relation is not None
    return sorted((line.positional(relation) for line in read(text, "facts.jsonl")), key=row_key)


def test_a_fact_is_written_as_one_sorted_line_of_json() -> None:
    facts = facts_of(("b", worded("get_attr [v, x]", place=PLACE), hidden_value("key")), PLACE)
    facts.add("gate:request", ("create",))
    place = '"place": {"file": "web.yaml", "line": 7, "column": 3}'
    head = '{"relation": "heat:property", "row": {"id": {"$resource": "web/db"}, "path":'
    assert list(write(facts)) == [
        '{"relation": "gate:request", "row": {"action": "create"}, "place": null}',
        f'{head} "p.0", "value": "b"}}, {place}}}',
        f'{head} "p.1", "value": {{"$unknown": {{"expression": "get_attr [v, x]", {place}}}}}}}, {place}}}',
        f'{head} "p.2", "value": {{"$hidden": true}}}}, {place}}}',
    ]


def test_a_long_text_is_shown_by_length_and_digest_and_written_whole() -> None:
    short, long = "\u00e4" * 1000, "x" * 1001
    facts = facts_of((short, long))
    digest = "cbe4a2e86e808c9b51174c17d56b401791a6282036247a95c3fb2098f098ff79"
    assert list(write_text(facts)) == [
        f'heat:property(id=web/db, path="p.0", value="{short}")',
        f'heat:property(id=web/db, path="p.1", value=text(1001 bytes, sha256 {digest}))',
    ]
    assert [row[2] for row in rows_of("\n".join(write(facts)))] == [short, long]


def test_a_fact_is_written_as_text_without_its_nulls() -> None:
    facts = facts_of(("b", None, TRUE, DB, worded("get_attr [v, x]")), PLACE)
    facts.add("gate:request", ("create",))
    assert list(write_text(facts)) == [
        'gate:request(action="create")',
        'heat:property(id=web/db, path="p.0", value="b")   web.yaml:7:3',
        'heat:property(id=web/db, path="p.1")   web.yaml:7:3',
        'heat:property(id=web/db, path="p.2", value=true)   web.yaml:7:3',
        'heat:property(id=web/db, path="p.3", value=web/db)   web.yaml:7:3',
        'heat:property(id=web/db, path="p.4", value=?(get_attr [v, x]))   web.yaml:7:3',
    ]


def test_every_kind_of_value_comes_back_as_itself() -> None:
    facts = facts_of(tuple(value for value in VALUES if value != VALUES[6]))
    assert rows_of("\n".join(write(facts))) == sorted(facts.rows["heat:property"], key=row_key)


@given(st.lists(st.text() | st.integers() | st.booleans() | st.none() | st.floats(), max_size=5))
def test_whatever_a_template_holds_comes_back_as_itself(data: list[object]) -> None:
    facts = facts_of(tuple(from_python(value) for value in data))
    assert rows_of("\n".join(write(facts))) == sorted(facts.rows.get("heat:property", ()), key=row_key)


def test_a_decimal_that_no_double_holds_comes_back_as_its_text() -> None:
    assert rows_of("\n".join(write(facts_of((VALUES[6],))))) == [(DB, "p.0", "0.12345678901234567890123")]


def test_a_row_may_be_an_array_or_name_some_columns_and_empty_lines_are_skipped() -> None:
    text = '\n{"relation": "q", "row": [1, "a"], "more": 1}\r\n \n{"relation": "q", "row": {"b": true}}\n'
    assert read(text, "f") == [
        FactLine("q", (1, "a"), Span("f", 2, 1, 2, 47)),
        FactLine("q", {"b": TRUE}, Span("f", 4, 1, 4, 38)),
    ]


def test_hidden_values_of_two_lines_are_not_equal() -> None:
    line = '{"relation": "q", "row": [{"$hidden": true}]}\n'
    assert [fact.row for fact in read(line * 2, "f")] == [
        (worded("hidden value of f:1:1"),),
        (worded("hidden value of f:2:1"),),
    ]


@pytest.mark.parametrize(
    ("line", "message", "suggestion"),
    [
        ("p(1).", "this is not JSON: Expecting value: line 1 column 1 (char 0)", None),
        ('{"relation": "q", "row": [NaN]}', "this is not JSON: NaN is not a number", None),
        ("[1]", "a fact must be an object with a relation and a row", '{"relation": "name", "row": ["value"]}'),
        ('{"row": [1]}', "a fact must be an object with a relation and a "
        "row", '{"relation": "name", "row": ["value"]}'),
        ('{"relation": "q"}', "a row must be an object or an array", '"row": {"column": "value"}'),
        ('{"relation": "q", "row": 1}', "a row must be an object or an array", '"row": {"column": "value"}'),
        ('{"relation": "q", "row": [[1]]}', "[1] is not a value", "a value must be a scalar"),
        ('{"relation": "q", "row": [{"$unknwon": 1}]}', '{"$unknwon": 1} is not a value', "a value must be a scalar"),
        ('{"relation": "q", "row": [{"$hidden": 0}]}', '{"$hidden": 0} is not a value', "a value must be a scalar"),
        ('{"relation": "q", "row": [1e9999]}', "a number must be finite and of at most 4000 digits", None),
    ],
)  # fmt: skip
def test_a_bad_line_is_reported_with_its_place(line: str, message: str, suggestion: str | None) -> None:
    place = Span("f", 2, 1, 2, len(line) + 1)
    assert refusals(lambda: read(f"\n{line}\n", "f"), *FIELDS) == [("bad-facts", message, place, suggestion)]


def test_all_bad_lines_are_reported_at_once_with_their_text() -> None:
    with pytest.raises(InputError) as error:
        read("1\n2\n", "f")
    assert [diagnostic.span for diagnostic in error.value.diagnostics] == [Span("f", 1, 1, 1, 2), Span("f", 2, 1, 2, 2)]
    assert error.value.sources == {"f": "1\n2\n"}


@pytest.mark.parametrize(
    ("row", "message", "suggestion"),
    [
        ((DB, "p"), "heat:property has 3 columns, found 2", None),
        ({"id": DB, "pth": "p"}, "heat:property has no column pth", "did you mean path?"),
        ({"colour": "red"}, "heat:property has no column colour", None),
    ],
)
def test_a_row_that_does_not_fit_its_relation_is_reported(
    row: dict[str, Value] | Row, message: str, suggestion: str | None
) -> None:
    relation = SHIPPED.relation("heat:property")
    assert relation is not None
    fact = FactLine("heat:property", row, PLACE)
    assert refusals(lambda: fact.positional(relation), *FIELDS) == [("bad-facts", message, PLACE, suggestion)]
