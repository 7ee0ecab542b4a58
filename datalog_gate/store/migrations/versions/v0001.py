"""Locks, leases, the journal, outcomes, approvals and claims in Placement."""

from __future__ import annotations

from alembic import op

from datalog_gate.store import tables
from datalog_gate.store.migration import add_tables

revision = "0001"
down_revision = None
TABLES = (
    tables.locks,
    tables.leases,
    tables.journal,
    tables.outcomes,
    tables.approval_requests,
    tables.approval_verdicts,
    tables.approval_claims,
    tables.placement_claims,
)


def upgrade() -> None:
    add_tables(op.get_bind(), TABLES, ("journal", "outcomes", "approvals", "claims"))
