"""Generations of the inventory."""

from __future__ import annotations

from alembic import op

from datalog_gate.store import tables
from datalog_gate.store.migration import add_tables

revision = "0002"
down_revision = "0001"
TABLES = (
    tables.inventory_generations,
    tables.inventory_tables,
    tables.inventory_rows,
)


def upgrade() -> None:
    add_tables(op.get_bind(), TABLES, ("inventory",))
