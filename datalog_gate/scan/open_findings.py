"""Counts of findings in the store of a scan, and stored stacks.

The functions only read, so that a store that is opened `read_only` will do. `projects` are those whose stacks count, or
None for all.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import NamedTuple

from sqlglot import exp, parse_one

from datalog_gate.engine.sql.database import Database
from datalog_gate.scan.feed import StackEntry
from datalog_gate.scan.scan_store import filter_projects

BATCH = 50
"""The number of stacks that are read at once."""
Projects = Collection[str] | None


class OpenFindings(NamedTuple):
    """The number of open findings of a policy in the stacks of a project and an owner."""

    policy: str
    level: str
    state: str
    project: str
    owner: str
    """The user who requested the stack, if known."""
    number: int


class Day(NamedTuple):
    """The number of new and resolved findings on a day, and of open ones at its end."""

    day: str
    new: int
    resolved: int
    open: int


def count_open(database: Database, projects: Projects) -> list[OpenFindings]:
    """Count the open findings, the largest count first. Errors: those of the database."""
    query = _select(
        "SELECT policy, level, state, project, caller, count(*) FROM finding LEFT JOIN definition ON "
        "definition.root = finding.root WHERE resolved_at IS NULL GROUP BY policy, level, state, project, caller"
    )
    numbers: dict[tuple[str, str, str, str, str], int] = {}
    for policy, level, state, project, caller, number in database.fetch(filter_projects(query, projects)):
        owner = str((json.loads(caller) or {}).get("user") or "") if caller else ""
        key = policy, level, state, project or "", owner
        numbers[key] = numbers.get(key, 0) + number
    return sorted(
        (OpenFindings(*key, number) for key, number in numbers.items()), key=lambda row: (-row.number, row[:5])
    )


def count_open_by_stack(database: Database) -> dict[tuple[str, str], int]:
    """Count the open findings by the root of their stack and policy, waived ones too. Errors: those of the database."""
    query = _select(
        "SELECT root, policy, count(*) FROM finding WHERE resolved_at IS NULL AND state <> 'error' "
        "GROUP BY root, policy"
    )
    return {(root, policy): number for root, policy, number in database.fetch(query)}


def read_days(database: Database, projects: Projects, policy: str | None = None) -> list[Day]:
    """The days with changes, in order. Errors: those of the database."""
    changes: dict[str, list[int]] = {}
    for at, column in enumerate(("first_seen", "resolved_at")):
        query = _select(
            f"SELECT substring({column}, 1, 10) AS day, count(*) FROM finding LEFT JOIN definition ON "
            f"definition.root = finding.root WHERE {column} IS NOT NULL GROUP BY substring({column}, 1, 10)"
        )
        if policy is not None:
            query = query.where(exp.column("policy").eq(policy))
        for day, count in database.fetch(filter_projects(query, projects)):
            changes.setdefault(day, [0, 0])[at] = count
    days, left = [], 0
    for day, (new, resolved) in sorted(changes.items()):
        left += new - resolved
        days.append(Day(day, new, resolved, left))
    return days


def count_stacks(database: Database, projects: Projects) -> int:
    """Count the stacks in the store. Errors: those of the database."""
    query = filter_projects(_select("SELECT count(*) FROM definition"), projects)
    return int(database.fetch(query)[0][0])


def find_entry(database: Database, projects: Projects, root: str) -> StackEntry | None:
    """The stack with a root. Errors: those of the database."""
    query = _select("SELECT entry FROM definition").where(exp.column("root").eq(root))
    rows = database.fetch(filter_projects(query, projects))
    return StackEntry.from_json(json.loads(rows[0][0])) if rows else None


def read_entries(database: Database, projects: Projects) -> Iterator[StackEntry]:
    """The stored stacks, in the order of their roots. Errors: those of the database."""
    last = ""
    while True:
        query = _select("SELECT root, entry FROM definition ORDER BY root").limit(BATCH)
        rows = database.fetch(filter_projects(query.where(exp.column("root") > exp.Literal.string(last)), projects))
        for root, entry in rows:
            yield StackEntry.from_json(json.loads(entry))
            last = root
        if len(rows) < BATCH:
            return


def _select(text: str) -> exp.Select:
    query = parse_one(text, read="duckdb")
    assert isinstance(query, exp.Select)
    return query
