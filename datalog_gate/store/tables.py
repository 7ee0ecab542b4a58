"""The tables of the store.

Names such as `key`, `grant` and `until` are quoted by SQLAlchemy. Times are seconds since 1970. A change after a
release needs a new `REVISION`, and a migration to it.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Float, Integer, LargeBinary, MetaData, String, Table, Text
from sqlalchemy.dialects.mysql import MEDIUMBLOB, MEDIUMTEXT
from sqlalchemy.types import TypeDecorator

REVISION = "0001"
METADATA = MetaData()
LOCKS = ("journal", "approvals", "claims", "inventory", "waivers")
"""Rows of `locks`. Each writing transaction locks one first."""


class LongText(TypeDecorator):  # type: ignore[type-arg]  # not generic in SQLAlchemy 1.4
    """Text of any length. In MySQL the type TEXT is limited to 64 KiB."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Any) -> Any:
        return dialect.type_descriptor(MEDIUMTEXT() if dialect.name in ("mysql", "mariadb") else Text())


class Json(LongText):
    """Plain data as JSON text that keeps the order of keys."""

    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Any) -> str:
        return json.dumps(value)

    def process_result_value(self, value: Any, _dialect: Any) -> Any:
        return json.loads(value)


def _table(name: str, *columns: Column[Any]) -> Table:
    """A table whose texts MariaDB compares by bytes, like the other databases."""
    return Table(name, METADATA, *columns, mysql_engine="InnoDB", mysql_charset="utf8mb4", mysql_collate="utf8mb4_bin")


def _id(name: str, **arguments: Any) -> Column[Any]:
    return Column(name, String(255), nullable=False, **arguments)


def _filled(name: str, type_: Any, **arguments: Any) -> Column[Any]:
    return Column(name, type_, nullable=False, **arguments)


SECONDS = Float(53)
LONG_BYTES = LargeBinary().with_variant(MEDIUMBLOB(), "mysql").with_variant(MEDIUMBLOB(), "mariadb")

locks = _table("locks", _id("name", primary_key=True), _filled("turn", BigInteger))
"""`turn` counts the transactions that locked the row."""

leases = _table("leases", _id("name", primary_key=True), _id("owner"), _filled("until", SECONDS))

journal = _table(
    "journal",
    _id("uuid", primary_key=True),
    _id("key"),
    _id("project"),
    _filled("decision", Json),
    _id("service"),
    _id("stack", index=True),
    _id("stack_name"),
    _filled("action", String(16)),
    _filled("outcome", String(16)),
    _filled("path", LongText),
    _id("replaces"),
    _filled("state", String(16), index=True),
    _filled("since", SECONDS),
    Column("expires", SECONDS),
    _filled("abandoned", Boolean),
    _filled("attempts", Integer),
    _filled("due", SECONDS),
    _filled("late", SECONDS),
    _filled("why", LongText),
    _filled("problem", LongText),
    _id("owner"),
    _filled("until", SECONDS),
)
"""A row is a `services.journal_claim.Claim`."""

approval_requests = _table(
    "approval_requests",
    _filled("number", Integer, primary_key=True, autoincrement=False),
    _id("digest", index=True),
    _id("project"),
    _id("stack"),
    _id("stack_name"),
    _filled("path", LongText),
    _filled("options", Json),
    _filled("scope", Json),
    _filled("at", SECONDS),
    _filled("state", String(16)),
    _filled("until", SECONDS),
    _filled("verdicts", Json),
    _id("uuid"),
    _filled("since", SECONDS),
    _filled("polled", SECONDS),
)
"""A row is a `services.approval.ApprovalRequest`."""

approval_claims = _table("approval_claims", _id("key", primary_key=True), Column("number", Integer))
"""The request that a claim uses. A claim without a number is dead."""

placement_claims = _table(
    "placement_claims",
    _id("key", primary_key=True),
    _id("consumer", index=True),
    _id("line"),
    _id("project"),
    _filled("grant", LongText),
    _filled("items", Json),
    _filled("decision", Json),
    _filled("state", String(16)),
    _id("owner"),
    _filled("asked", LongText),
    _filled("since", SECONDS),
)
"""A row is a `services.claims.PlacementClaim`."""

inventory_generations = _table(
    "inventory_generations",
    _filled("number", BigInteger, primary_key=True, autoincrement=False),
    _filled("at", SECONDS),
)
"""The newest generation has the largest number; `at` is the time of writing."""

inventory_tables = _table(
    "inventory_tables",
    _filled("generation", BigInteger, primary_key=True, autoincrement=False),
    _id("relation", primary_key=True),
    _filled("size", Integer),
    _id("digest"),
)
"""The tables of a generation, with their numbers of rows."""

inventory_rows = _table("inventory_rows", _id("digest", primary_key=True), _filled("content", LONG_BYTES))
"""A table's rows as lines of facts, compressed by zlib, by the digest of the lines. Generations share them."""

api_writes = _table(
    "api_writes",
    _id("key", primary_key=True),
    _filled("at", SECONDS, index=True),
    _id("user"),
    _id("project", index=True),
    _id("operation"),
    _filled("path", LongText),
    _id("request_id"),
    _id("digest"),
    _filled("status", Integer),
    _filled("answer", Json),
)
"""The write requests to the server; see `api_records`."""

api_decisions = _table(
    "api_decisions",
    _id("id", primary_key=True),
    _id("project", primary_key=True),
    _filled("at", SECONDS, index=True),
    _id("user"),
    _filled("stack_name", LongText),
    _filled("action", String(16)),
    _filled("outcome", String(32)),
    _id("request_id"),
    _filled("content", Json),
)
"""The decisions of the server, with the data that explains them."""

api_trials = _table(
    "api_trials",
    _id("id", primary_key=True),
    _filled("at", SECONDS, index=True),
    _filled("content", Json),
)
"""The trials of rules at the server, with the time of their last change."""

waivers = _table(
    "waivers",
    _filled("number", BigInteger, primary_key=True, autoincrement=False),
    _id("project", index=True),
    _filled("entry", Json),
    _filled("at", SECONDS),
    _id("who"),
)
"""The waivers that people created at the server; `entry` is that of a `waivers.yaml`."""

version = Table("datalog_gate_version", METADATA, Column("version_num", String(32), primary_key=True))
"""The revision of the tables, in the form that alembic has it, so that it can migrate them one day."""
