"""Digests of facts are equal for equal facts only."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.values import (
    FALSE,
    SECRET,
    TRUE,
    ResourceId,
    Row,
    Unknown,
    Value,
    hidden_value,
    in_order,
    row_key,
)
from datalog_gate.facts.digests import Summary, summarize
from datalog_gate.facts.factset import FactSet
from datalog_gate.schema.declaration import RelationRef
from tests.expressions import worded

TEXTS = st.sampled_from(["", "a", "b", '"', "a\n", "null", "1", "\ud83d\ude00", "\U0001f600"])
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.sampled_from([None, TRUE, FALSE, 0, 1, 2, Decimal("1.5"), Decimal("0.1")]),
    TEXTS,
    TEXTS.map(ResourceId),
    TEXTS.map(lambda text: worded(text)),
)
ROWS = st.lists(st.tuples(VALUES, VALUES), max_size=4, unique=True)
REASONS = st.none() | st.sampled_from([worded("c"), worded("d")])
PLACE = Span("t.yaml", 1, 1, 1, 2)


def facts_of(*rows: tuple[Row, Unknown | None]) -> FactSet:
    facts = FactSet()
    for row, maybe in rows:
        facts.add("m:p", row, None, maybe)
    return facts


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=6, unique=True))
def test_rows_are_in_the_order_of_their_keys(rows: list[Row]) -> None:
    assert in_order(rows) == sorted(rows, key=row_key)


@given(st.dictionaries(st.tuples(VALUES, VALUES), REASONS, max_size=4), st.data())
def test_two_sets_of_facts_have_one_digest_exactly_if_they_are_equal(
    known: dict[Row, Unknown | None], data: Any
) -> None:
    """The other set is drawn from the first, so that both outcomes are met."""
    other = dict(data.draw(st.permutations(list(known.items()))))
    if other and data.draw(st.booleans()):
        row = data.draw(st.sampled_from(list(other)))
        maybe = other.pop(row)
        other[data.draw(st.tuples(VALUES, st.just(row[1])))] = data.draw(st.just(maybe) | REASONS)
    first, again = summarize(facts_of(*known.items())), summarize(facts_of(*other.items()))
    assert (first.digests == again.digests) == (known == other)


def test_columns_that_hold_an_unknown_are_found_at_any_depth() -> None:
    rows: list[tuple[Row, Unknown | None]] = [
        (("a", 1), None),
        (("b", worded("x")), None),
        (("c", 2), worded("c")),
    ]
    digest = summarize(facts_of(*rows)).digests
    assert summarize(facts_of(*rows)) == Summary(digest, {"m:p": frozenset({1})})
    assert summarize(facts_of(*rows[::2])).unknown == {}


def test_places_are_no_part_of_a_digest() -> None:
    assert summarize(facts_of((("a", worded("x", place=PLACE)), None))) == summarize(
        facts_of((("a", worded("x")), None))
    )


@pytest.mark.parametrize("second", [hidden_value("other"), replace(hidden_value("pw"), place=PLACE), SECRET])
def test_the_digest_has_only_the_presence_of_a_hidden_unknown(second: Unknown) -> None:
    first = summarize(facts_of(((hidden_value("pw"), 1), None), ((hidden_value("q"), 2), None)))
    assert first == summarize(facts_of(((hidden_value("z"), 1), None), ((second, 2), None)))


def test_hidden_cells_do_not_show_in_a_digest_nor_by_the_order_of_rows() -> None:
    def digest(first: str, second: str) -> dict[RelationRef, str]:
        facts = facts_of(((first, "a"), None), ((second, "b"), None))
        facts.hide("m:p", (first, "a"), [0])
        facts.hide("m:p", (second, "b"), [0])
        return summarize(facts).digests

    assert digest("x", "y") == digest("y", "x") != summarize(facts_of((("x", "a"), None), (("y", "b"), None))).digests
