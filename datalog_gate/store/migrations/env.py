"""The environment of alembic's migrations of the store."""

from __future__ import annotations

from alembic import context

from datalog_gate.store.tables import METADATA, version

context.configure(context.config.attributes["rows"], target_metadata=METADATA, version_table=version.name)
with context.begin_transaction():
    context.run_migrations()
