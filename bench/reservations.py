"""Compare a reservation in the journal with two transactions.

python -m bench.reservations [ROUNDS [URL...]]: in a file of SQLite, and in the empty stores of these URLs.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

from bench.timing import OURS, Answer, Jobs, measure
from datalog_gate.services.contract import Request
from datalog_gate.services.journal import Journal
from datalog_gate.store.tables import journal as table

NOW = 1_800_000_000.0
COLUMNS = tuple(column.name for column in table.columns)


def main(rounds: int, urls: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for url in (f"sqlite:///{folder}/store", *urls):
            title = f"a reservation in {url.partition(':')[0]}"
            jobs: Jobs = {OURS: in_store(url), "statements alone, in a file": in_file(Path(folder) / f"{uuid4()}")}
            print("\n".join(measure(title, rounds, jobs)))


def in_store(url: str) -> Callable[[], Answer]:
    """A claim that is begun and reserved."""
    journal, numbers = Journal(url), count()

    def reserve() -> Answer:
        request = Request(
            service="seats",
            project="p",
            stack="s",
            stack_name="s",
            grant="s/grant",
            uuid=f"u{next(numbers)}",
            options=MappingProxyType({}),
            scope=(),
        )
        claim = journal.begin(request, "", None, NOW, 30.0)
        journal.move(claim, "reserved", NOW, decision={"vm": {"seat": 1}})
        return {"decision": [(json.dumps({"vm": {"seat": 1}}),)]}

    return reserve


def in_file(path: Path) -> Callable[[], Answer]:
    """The same rows, written by statements alone, each transaction by a connection of its own."""
    numbers, columns = count(), ", ".join(COLUMNS)
    with closing(sqlite3.connect(path)) as rows:
        rows.execute("PRAGMA journal_mode = WAL")
        rows.execute(f"CREATE TABLE claims ({columns}, PRIMARY KEY (uuid))")
        rows.execute("CREATE INDEX claims_by_state ON claims (state)")

    def run(work: Callable[[sqlite3.Connection], object]) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as rows:
            rows.execute("PRAGMA synchronous = FULL")
            rows.execute("BEGIN IMMEDIATE")
            work(rows)
            rows.execute("COMMIT")

    def reserve() -> Answer:
        uuid, decision = f"u{next(numbers)}", json.dumps({"vm": {"seat": 1}})
        values = tuple(uuid if name == "uuid" else uuid4().hex for name in COLUMNS)
        select = "SELECT * FROM claims WHERE uuid = ?"

        def begin(rows: sqlite3.Connection) -> None:
            rows.execute(select, (uuid,)).fetchone()
            rows.execute("INSERT INTO claims (uuid) VALUES (?)", (uuid,))
            assignments = ", ".join(f"{name} = ?" for name in COLUMNS)
            rows.execute(f"UPDATE claims SET {assignments} WHERE uuid = ?", (*values, uuid))
            rows.execute(select, (uuid,)).fetchone()

        def move(rows: sqlite3.Connection) -> None:
            rows.execute(select, (uuid,)).fetchone()
            changes = "UPDATE claims SET state = 'reserved', decision = ?, owner = '' WHERE uuid = ?"
            rows.execute(changes, (decision, uuid))
            rows.execute(select, (uuid,)).fetchone()

        run(begin)
        run(move)
        return {"decision": [(decision,)]}

    return reserve


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2:])
