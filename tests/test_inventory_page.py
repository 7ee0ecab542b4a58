"""docs/inventory.md says which field of which API fills each column."""

from __future__ import annotations

from datalog_gate.inventory.collector import load_collectors
from datalog_gate.schema import cloud
from tests.inventory_page import inventory_page
from tests.pages import DOCS, assert_generated


def test_the_page_is_the_generated_one() -> None:
    assert_generated(DOCS / "inventory.md", inventory_page())


def test_each_source_is_of_a_table_with_its_mandatory_columns() -> None:
    for collector in load_collectors().values():
        for source in collector.tables:
            relation = cloud.relation(source.relation)
            assert relation is not None, source.relation
            filled = {*(column.column for column in source.columns), *source.lookups}
            assert filled <= set(relation.positions), source.relation
            assert filled >= set(relation.key), source.relation
