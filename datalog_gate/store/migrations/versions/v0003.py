"""Answers of the server's API, and waivers."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from datalog_gate.store.tables import Json, LongText

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute(sa.table("locks", sa.column("name"), sa.column("turn")).insert().values(name="waivers", turn=0))
    _create(
        "waivers",
        sa.Column("number", sa.BigInteger, nullable=False, primary_key=True, autoincrement=False),
        _id("project", index=True),
        sa.Column("entry", Json, nullable=False),
        _seconds("at"),
        _id("who"),
    )
    _create(
        "api_writes",
        _id("key", primary_key=True),
        _seconds("at", index=True),
        _seconds("until"),
        _id("user"),
        _id("project", index=True),
        _id("operation"),
        sa.Column("path", LongText, nullable=False),
        _id("request_id"),
        _id("digest"),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("answer", Json, nullable=False),
    )
    _create(
        "api_decisions",
        _id("id", primary_key=True),
        _id("project", primary_key=True),
        _seconds("at", index=True),
        _id("user"),
        sa.Column("stack_name", LongText, nullable=False),
        sa.Column("action", sa.String(16), nullable=False),
        sa.Column("outcome", sa.String(32), nullable=False),
        _id("request_id"),
        sa.Column("content", Json, nullable=False),
    )


def _create(name: str, *columns: sa.Column[Any]) -> None:
    options: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
    op.create_table(name, *columns, **options)


def _id(name: str, **arguments: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.String(255), nullable=False, **arguments)


def _seconds(name: str, **arguments: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Float(53), nullable=False, **arguments)
