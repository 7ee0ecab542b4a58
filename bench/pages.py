"""CPU and size of the server's pages, with lists of 10,000 rows.

``python -m bench.pages [ROWS]`` prints the best of five times of each page, and what judging a stack of 501 resources
costs before its page is made.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import yaml
from sqlalchemy import Table
from sqlalchemy.engine import Connection

from bench.templates import attached
from datalog_gate.doors.server.pages.views import VIEWS
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.scan.feed import StackEntry
from datalog_gate.store.stored_waivers import add_waiver
from datalog_gate.store.tables import api_decisions, approval_requests, waivers
from tests.page_site import ask_for_approval, fill
from tests.unit.doors.server.test_pages import RULE, Browser, location

ROUNDS = 5


def main(rows: int) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = yaml.safe_dump(attached(167), sort_keys=False)
        large = StackEntry("large", "large", "p1", StackDefinition(text), caller={"user": "u", "project": "p1"})
        fill(folder, stacks=100, days=2, more=[large])
        browser = Browser(folder)
        trial, _ = measure(lambda: browser.post("/pages/playground", {"rules": RULE, "template": text}))
        judged, seconds = measure(lambda: browser.post("/pages/stacks/large", {}))
        multiply(folder, browser.server, rows)
        print(f"judge 501 resources and keep the page: {seconds * 1000:.0f} ms\n\n| page | ms | kB |\n|---|---|---|")
        names = {"stack": "large", "policy": "size", "approval": "A-1"}
        names |= {"decision": location(judged)[17:], "trial": location(trial)[18:]}
        for view in VIEWS:
            path = view.path.format(**names)
            page, seconds = measure(partial(browser.get, path))
            assert page.status_code == 200
            print(f"| {view.path} | {seconds * 1000:.0f} | {len(page.content) / 1000:.0f} |")


def multiply(folder: Path, server: Any, rows: int) -> None:
    """Copy stored stacks, findings, requests, waivers and decisions until there are so many."""
    ask_for_approval(server, "p1", "web")
    entry = {"policy": "size", "project": "none", "reason": "load", "expires": "2127-01-01", "owner": "u"}
    add_waiver(server.records.store, entry, "u", server.now().timestamp())
    with duckdb.connect(str(folder / "scan")) as database:
        for name in ("definition", "finding"):
            database.execute(
                f"INSERT INTO {name} SELECT * EXCLUDE (copy) REPLACE (root || '-' || copy AS root) FROM "
                f"{name}, range({rows // 100}) AS copies(copy) WHERE root <> 'large'"
            )
    for table in (approval_requests, waivers, api_decisions):
        server.records.store.run(None, partial(copy, table=table, rows=rows))


def copy(connection: Connection, table: Table, rows: int) -> None:
    """Copy the first row of a table."""
    row: dict[str, Any] = dict(connection.execute(table.select()).mappings().all()[0])
    copies: list[dict[str, Any]] = []
    for number in range(2, rows):
        if "number" not in row:
            copies.append(row | {"id": f"{number:064}", "at": row["at"] - number, "content": {}})
        elif "entry" in row:
            copies.append(row | {"number": number, "entry": row["entry"] | {"id": f"S-{number}"}})
        else:
            copies.append(row | {"number": number})
    connection.execute(table.insert(), copies)


def measure(ask: Callable[[], Any]) -> tuple[Any, float]:
    """The answer, and the least seconds of a processor."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        answer = ask()
        best = min(best, time.process_time() - began)
    return answer, best


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
