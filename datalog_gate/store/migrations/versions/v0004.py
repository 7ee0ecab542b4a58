"""Policies, rules and sources of data that come over the API."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from datalog_gate.store.tables import LONG_BYTES, Json, LongText

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.execute(sa.table("locks", sa.column("name"), sa.column("turn")).insert().values(name="rules", turn=0))
    _create("rule_generations", _id("name", primary_key=True), _number("number"))
    _create(
        "rule_policies",
        _id("name", primary_key=True),
        *map(_id, ("id", "kind", "abbreviation")),
        _filled("description", LongText),
        _id("author"),
        _number("position"),
    )
    _create(
        "stored_rules",
        _id("id", primary_key=True),
        _id("policy", index=True),
        _number("position"),
        sa.Column("name", sa.String(255)),
        _filled("comment", LongText),
        _filled("rule", LongText),
        _id("author"),
        _filled("at", sa.Float(53)),
    )
    _create(
        "rule_changes",
        _number("number", primary_key=True, autoincrement=False),
        _filled("at", sa.Float(53)),
        _id("author"),
        _filled("change", sa.String(32)),
        _id("subject"),
        _filled("content", Json),
    )
    _create(
        "data_sources",
        _id("name", primary_key=True),
        *map(_id, ("id", "driver")),
        _filled("description", LongText),
        _filled("config", Json),
        _number("position"),
    )
    _create(
        "pushed_rows",
        _id("source", primary_key=True),
        _id("table", primary_key=True),
        _number("number"),
        _filled("size", sa.Integer),
        _filled("content", LONG_BYTES),
    )
    _create("library_policies", _id("id", primary_key=True), _id("name"), _filled("content", Json))


def _create(name: str, *columns: sa.Column[Any]) -> None:
    options: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
    op.create_table(name, *columns, **options)


def _id(name: str, **arguments: Any) -> sa.Column[Any]:
    return _filled(name, sa.String(255), **arguments)


def _number(name: str, **arguments: Any) -> sa.Column[Any]:
    return _filled(name, sa.BigInteger, **arguments)


def _filled(name: str, type_: Any, **arguments: Any) -> sa.Column[Any]:
    return sa.Column(name, type_, nullable=False, **arguments)
