"""The first tables, a block for each.

Later changes of `tables` do not change what this makes.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from datalog_gate.store.tables import LONG_BYTES, Json, LongText

revision = "0001"
down_revision = None
SECONDS = sa.Float(53)


def upgrade() -> None:
    _create_shared_tables()
    _create_service_tables()
    _create_inventory_tables()
    _create_server_tables()


def _create_shared_tables() -> None:
    names = "journal", "approvals", "claims", "inventory", "waivers"
    locks = _create("locks", _id("name", primary_key=True), _filled("turn", sa.BigInteger))
    op.bulk_insert(locks, [{"name": name, "turn": 0} for name in names])

    _create("leases", _id("name", primary_key=True), _id("owner"), _filled("until", SECONDS))


def _create_service_tables() -> None:
    _create(
        "journal",
        _id("uuid", primary_key=True),
        *map(_id, ("key", "project", "service", "stack_name", "replaces", "owner")),
        _id("stack", index=True),
        *(_filled(name, SECONDS) for name in ("since", "due", "late", "until")),
        *(_filled(name, LongText) for name in ("path", "why", "problem")),
        _filled("decision", Json),
        _filled("state", sa.String(16), index=True),
        *(_filled(name, sa.String(16)) for name in ("action", "outcome")),
        sa.Column("expires", SECONDS),
        _filled("abandoned", sa.Boolean),
        _filled("attempts", sa.Integer),
    )

    _create(
        "approval_requests",
        _filled("number", sa.Integer, primary_key=True, autoincrement=False),
        *map(_id, ("project", "stack", "stack_name", "uuid")),
        _id("digest", index=True),
        *(_filled(name, SECONDS) for name in ("at", "until", "since", "polled")),
        _filled("path", LongText),
        _filled("options", Json),
        _filled("scope", Json),
        _filled("state", sa.String(16)),
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
        _id("consumer", index=True),
        *map(_id, ("line", "project", "owner")),
        *(_filled(name, LongText) for name in ("grant", "asked")),
        _filled("items", Json),
        _filled("decision", Json),
        _filled("state", sa.String(16)),
        _filled("since", SECONDS),
    )


def _create_inventory_tables() -> None:
    _create("inventory_generations", _number("number"), _filled("at", SECONDS))

    _create(
        "inventory_tables",
        _number("generation"),
        _id("relation", primary_key=True),
        _filled("size", sa.Integer),
        _id("digest"),
    )

    _create("inventory_rows", _id("digest", primary_key=True), _filled("content", LONG_BYTES))


def _create_server_tables() -> None:
    _create(
        "api_writes",
        _id("key", primary_key=True),
        _filled("at", SECONDS, index=True),
        *map(_id, ("user", "operation", "request_id", "digest")),
        _id("project", index=True),
        _filled("path", LongText),
        _filled("status", sa.Integer),
        _filled("answer", Json),
    )

    _create(
        "api_decisions",
        _id("id", primary_key=True),
        _id("project", primary_key=True),
        _filled("at", SECONDS, index=True),
        _id("user"),
        _filled("stack_name", LongText),
        _filled("action", sa.String(16)),
        _filled("outcome", sa.String(32)),
        _id("request_id"),
        _filled("content", Json),
    )

    _create(
        "waivers",
        _number("number"),
        _id("project", index=True),
        _filled("entry", Json),
        _filled("at", SECONDS),
        _id("who"),
    )


def _create(name: str, *columns: sa.Column[Any]) -> sa.Table:
    options: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
    return op.create_table(name, *columns, **options)


def _id(name: str, **arguments: Any) -> sa.Column[Any]:
    return _filled(name, sa.String(255), **arguments)


def _number(name: str) -> sa.Column[Any]:
    return _filled(name, sa.BigInteger, primary_key=True, autoincrement=False)


def _filled(name: str, type_: Any, **arguments: Any) -> sa.Column[Any]:
    return sa.Column(name, type_, nullable=False, **arguments)
