"""The tables of docs/truth.md, docs/builtins.md and docs/inventory.md hold."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from datalog_gate.schema.signatures import BUILTINS, INTERPOLATE
from tests.inventory_page import inventory_page
from tests.pages import DOCS, EXAMPLES, NOW, Table, answer, assert_generated, builtins_page, outcome, read_tables

LINES = [
    pytest.param(table, literal, id=f"{table.title}: {literal}") for table in read_tables() for literal in table.answers
]


@pytest.mark.parametrize(("table", "literal"), LINES)
def test_the_truth_is(table: Table, literal: str) -> None:
    assert [answer(table, literal, row) for row in table.rows] == table.answers[literal]


def test_each_section_of_the_truth_has_a_table() -> None:
    sections = re.findall("^## (.+)", (DOCS / "truth.md").read_text("utf-8"), re.M)
    assert [table.title for table in read_tables()] == sections


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_of_a_builtin_is_true(example: str) -> None:
    assert outcome(f'p("true") :- {example}.', NOW, 0) == "true"


def test_each_builtin_has_an_example_of_its_own() -> None:
    for name, example in zip(BUILTINS, EXAMPLES, strict=True):
        sign = ' f"' if name == INTERPOLATE else f" {name} "
        assert example.removeprefix("not ").startswith(f"{name}(") or sign in example


@pytest.mark.parametrize(("name", "page"), [("builtins.md", builtins_page), ("inventory.md", inventory_page)])
def test_the_page_is_the_generated_one(name: str, page: Callable[[], str]) -> None:
    assert_generated(DOCS / name, page())
