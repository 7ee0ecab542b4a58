"""The tables of docs/truth.md, docs/builtins.md and docs/inventory.md hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from datalog_gate.inventory.collector import load_collectors
from datalog_gate.schema import cloud
from datalog_gate.schema.signatures import BUILTINS, INTERPOLATE
from tests.inventory_page import inventory_page
from tests.pages import DOCS, EXAMPLES, NOW, TABLES, Table, answer, assert_generated, builtins_page, outcome, truth_page

LINES = [pytest.param(table, literal, id=f"{table.title}: {literal}") for table in TABLES for literal in table.answers]


@pytest.mark.parametrize(("table", "literal"), LINES)
def test_the_truth_is(table: Table, literal: str) -> None:
    assert " ".join(answer(table, literal, row) for row in table.rows) == table.answers[literal]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_a_builtin_is_true(example: str) -> None:
    assert outcome(f'p("true") :- {example}.', NOW, 0) == "true"


def test_each_builtin_has_an_example_of_its_own() -> None:
    for name, example in zip(BUILTINS, EXAMPLES, strict=True):
        sign = ' f"' if name == INTERPOLATE else f" {name} "
        assert example.removeprefix("not ").startswith(f"{name}(") or sign in example


@pytest.mark.parametrize(
    ("name", "page"), [("truth.md", truth_page), ("builtins.md", builtins_page), ("inventory.md", inventory_page)]
)
def test_the_page_is_the_generated_one(name: str, page: Callable[[], str]) -> None:
    assert_generated(DOCS / name, page())


def test_each_source_is_of_a_table_with_its_mandatory_columns() -> None:
    for collector in load_collectors().values():
        for source in collector.tables:
            relation = cloud.relation(source.relation)
            assert relation is not None, source.relation
            filled = {*(column.column for column in source.columns), *source.lookups}
            assert filled <= set(relation.positions), source.relation
            assert filled >= set(relation.key), source.relation
