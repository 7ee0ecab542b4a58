"""Databases give the values back that they were given."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlglot import exp

from datalog_gate.engine.sql.database import Database, open_database
from datalog_gate.engine.sql.tables import identifier
from tests.stores.database_servers import DatabaseServer
from tests.unit.engine.test_sql_tables import ROWS, TABLE, insert_and_fail, store_and_read
from tests.waiting import wait


def test_values_come_back(database: Database) -> None:
    assert store_and_read(database, ROWS) == sorted(ROWS, key=repr)


def test_what_an_error_ends_is_not_kept(database: Database) -> None:
    database.execute(TABLE.create())
    place = exp.Table(this=identifier(TABLE.name))
    rows = TABLE.encode(ROWS).rows[:1]
    with pytest.raises(ValueError, match="too few"), database.transaction():
        insert_and_fail(database, rows)
    with database.transaction(), database.transaction():
        database.insert(TABLE.name, TABLE.names, rows)
    assert database.fetch(exp.select("n").from_(place)) == [(1,)]


def test_a_writer_waits_for_one_that_ends(server: DatabaseServer) -> None:
    url = server.database("locked")
    waits = exp.select("pid").from_("pg_locks").where("locktype = 'advisory' AND NOT granted")
    with ThreadPoolExecutor() as threads, open_database(url) as first, open_database(url) as second:
        assert first.lock()
        is_alone = threads.submit(second.lock)
        with open_database(url) as third:
            wait(lambda: bool(third.fetch(waits)))
        first.close()
        assert is_alone.result()
