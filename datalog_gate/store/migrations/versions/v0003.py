"""Answers of the server's API, and waivers."""

from __future__ import annotations

from alembic import op

from datalog_gate.store import tables
from datalog_gate.store.migration import add_tables

revision = "0003"
down_revision = "0002"
TABLES = (
    tables.waivers,
    tables.api_writes,
    tables.api_decisions,
)


def upgrade() -> None:
    add_tables(op.get_bind(), TABLES, ("waivers",))
