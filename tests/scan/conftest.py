"""Stacks judged in databases, in the tox environment `scan` alone."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from datalog_gate.engine.sql.database import Database, open_database
from tests.stores.database_servers import DatabaseServer, PostgreSQL

collect_ignore_glob = [] if os.environ.get("DATALOG_GATE_SCAN") else ["test_*.py"]


@pytest.fixture(scope="session")
def server() -> Iterator[DatabaseServer]:
    server = PostgreSQL()
    yield server
    server.close()


@pytest.fixture
def postgresql(server: DatabaseServer) -> Iterator[Database]:
    """An empty database of PostgreSQL."""
    with open_database(server.database("scan")) as database:
        yield database


@pytest.fixture(params=["duckdb", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database of each sort."""
    if request.param == "postgresql":
        yield request.getfixturevalue("postgresql")
    else:
        with open_database() as database:
            yield database
