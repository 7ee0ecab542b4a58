"""A store on SQLite, PostgreSQL and MariaDB.

These tests take minutes and need Heat and drivers: they run in the tox environment `stores` alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from datalog_gate.store.transaction import Store
from tests.stores.database_servers import DatabaseServer, MariaDB, PostgreSQL

SIZE = os.environ.get("DATALOG_GATE_STORES", "")
SHORT = SIZE == "short"
"""Whether what takes minutes is tried with fewer reservations, transitions and seconds."""
NEEDED = ("heat", "psycopg", "pymysql")
collect_ignore_glob = [] if SIZE and all(map(find_spec, NEEDED)) else ["test_*.py"]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[DatabaseServer]:
    server = PostgreSQL()
    yield server
    server.close()


@pytest.fixture(scope="session")
def mariadb() -> Iterator[DatabaseServer]:
    server = MariaDB()
    yield server
    server.close()


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    server: DatabaseServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store"
    return empty(request.getfixturevalue(request.param))


def empty(server: DatabaseServer, name: str = "gate") -> str:
    """The URL of an empty store of a server."""
    url = server.database(name)
    Store(url).upgrade()
    return url
