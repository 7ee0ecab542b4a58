"""The migrations of the store."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import Connection

from datalog_gate.store.tables import REVISION


def migrate(rows: Connection) -> None:
    """Run the missing migrations of a database."""
    from alembic import command  # the import takes a while, and no service needs it
    from alembic.config import Config

    config = Config(attributes={"rows": rows})
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    command.upgrade(config, REVISION)
