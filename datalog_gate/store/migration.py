"""The migrations of the store.

A migration creates tables as `tables` defines them. To change a table, first copy its old definition to the migration
that creates it: a test compares what all migrations make with `tables`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import Table
from sqlalchemy.engine import Connection

from datalog_gate.store.tables import REVISION, locks


def migrate(rows: Connection) -> None:
    """Run the missing migrations of a database."""
    from alembic import command  # the import takes a while, and no service needs it
    from alembic.config import Config

    config = Config(attributes={"rows": rows})
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    command.upgrade(config, REVISION)


def add_tables(rows: Connection, tables: Iterable[Table], names: Iterable[str]) -> None:
    """Create tables, and the locks of these names."""
    for table in tables:
        table.create(rows)
    rows.execute(locks.insert(), [{"name": name, "turn": 0} for name in names])
