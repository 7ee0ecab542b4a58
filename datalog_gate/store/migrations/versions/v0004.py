"""Policies, rules and sources of data that come over the API."""

from __future__ import annotations

from alembic import op

from datalog_gate.store import tables
from datalog_gate.store.migration import add_tables

revision = "0004"
down_revision = "0003"
TABLES = (
    tables.rule_generations,
    tables.rule_policies,
    tables.stored_rules,
    tables.rule_changes,
    tables.data_sources,
    tables.pushed_rows,
    tables.library_policies,
)


def upgrade() -> None:
    add_tables(op.get_bind(), TABLES, ("rules",))
