"""Locks, leases, the journal, outcomes, approvals and claims in Placement."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from datalog_gate.store.tables import Json, LongText

revision = "0001"
down_revision = None
SECONDS = sa.Float(53)


def upgrade() -> None:
    locks = _create("locks", _id("name", primary_key=True), _filled("turn", sa.BigInteger))
    op.bulk_insert(locks, [{"name": name, "turn": 0} for name in ("journal", "outcomes", "approvals", "claims")])
    _create("leases", _id("name", primary_key=True), _id("owner"), _filled("until", SECONDS))
    _create(
        "journal",
        _id("uuid", primary_key=True),
        *map(_id, ("key", "project", "service", "stack", "stack_name", "replaces", "owner")),
        *(_filled(name, SECONDS) for name in ("since", "due", "late", "until")),
        *(_filled(name, LongText) for name in ("path", "why", "problem")),
        _filled("decision", Json),
        _filled("state", sa.String(16)),
        sa.Column("expires", SECONDS),
        _filled("abandoned", sa.Boolean),
        _filled("attempts", sa.Integer),
        indexes=("stack", "state"),
    )
    _create(
        "outcomes",
        _filled("id", sa.BigInteger, primary_key=True, autoincrement=False),
        _filled("snapshot", Json),
        _filled("plugins", Json),
        _filled("began", SECONDS),
        _filled("outcome", sa.String(16)),
        _filled("attempts", sa.Integer),
        _filled("due", SECONDS),
    )
    _create(
        "approval_requests",
        _filled("number", sa.Integer, primary_key=True, autoincrement=False),
        *map(_id, ("digest", "project", "stack", "stack_name", "uuid")),
        *(_filled(name, SECONDS) for name in ("at", "until", "since", "polled")),
        _filled("path", LongText),
        _filled("options", Json),
        _filled("scope", Json),
        _filled("state", sa.String(16)),
        indexes=("digest",),
    )
    _create(
        "approval_verdicts",
        _filled("number", sa.Integer, primary_key=True, autoincrement=False),
        _filled("position", sa.Integer, primary_key=True, autoincrement=False),
        _filled("verdict", sa.String(16)),
        _filled("who", LongText),
        _filled("at", SECONDS),
        _filled("why", LongText),
    )
    _create("approval_claims", _id("key", primary_key=True), sa.Column("number", sa.Integer))
    _create(
        "placement_claims",
        _id("key", primary_key=True),
        *map(_id, ("consumer", "line", "project", "owner")),
        *(_filled(name, LongText) for name in ("grant", "asked")),
        _filled("items", Json),
        _filled("decision", Json),
        _filled("state", sa.String(16)),
        _filled("since", SECONDS),
        indexes=("consumer",),
    )


def _create(name: str, *columns: sa.Column[Any], indexes: tuple[str, ...] = ()) -> sa.Table:
    options: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
    table = op.create_table(name, *columns, **options)
    for column in indexes:
        op.create_index(f"ix_{name}_{column}", name, [column])
    return table


def _id(name: str, **arguments: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.String(255), nullable=False, **arguments)


def _filled(name: str, type_: Any, **arguments: Any) -> sa.Column[Any]:
    return sa.Column(name, type_, nullable=False, **arguments)
