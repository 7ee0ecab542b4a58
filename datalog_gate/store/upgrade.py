"""The migrations of the store."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import Connection

from datalog_gate.store.tables import REVISION
from datalog_gate.store.transaction import Store


def upgrade(store: Store) -> str | None:
    """Bring the tables to the revision of this package, and return the one before: None if there were no tables.
    Errors: those of the store."""
    before = store.revision()
    if before != REVISION:
        store.migrate(migrate)
    return before


def migrate(rows: Connection) -> None:
    """Run the migrations that a database lacks."""
    from alembic import command  # the import takes a while, and no service needs it
    from alembic.config import Config

    config = Config(attributes={"rows": rows})
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    command.upgrade(config, REVISION)
