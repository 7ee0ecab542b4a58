"""Generations of the inventory."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from datalog_gate.store.tables import LONG_BYTES

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.execute(sa.table("locks", sa.column("name"), sa.column("turn")).insert().values(name="inventory", turn=0))
    _create("inventory_generations", _number("number"), sa.Column("at", sa.Float(53), nullable=False))
    _create(
        "inventory_tables",
        _number("generation"),
        _id("relation", primary_key=True),
        sa.Column("size", sa.Integer, nullable=False),
        _id("digest"),
    )
    _create("inventory_rows", _id("digest", primary_key=True), sa.Column("content", LONG_BYTES, nullable=False))


def _create(name: str, *columns: sa.Column[Any]) -> None:
    options: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
    op.create_table(name, *columns, **options)


def _id(name: str, **arguments: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.String(255), nullable=False, **arguments)


def _number(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=False, primary_key=True, autoincrement=False)
