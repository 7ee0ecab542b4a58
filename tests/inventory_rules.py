"""What a rule over each table of an inventory derives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datalog_gate.base.values import to_json
from datalog_gate.decision.policy_set import RuleFile
from datalog_gate.decision.query import QueryInputs, ask
from datalog_gate.files.inputs import fact_lines
from datalog_gate.schema import cloud

Rows = dict[str, list[dict[str, Any]]]


def derive_rows(path: Path) -> Rows:
    """The rows that a rule over each table of a file derives from it, by column, without nulls."""
    by_table: dict[str, list[Any]] = {}
    for line in fact_lines(path):
        by_table.setdefault(line.relation, []).append(line)
    return {table: _derive(table, lines) for table, lines in by_table.items()}


def _derive(table: str, lines: list[Any]) -> list[dict[str, Any]]:
    relation = cloud.relation(table)
    assert relation is not None
    names = [column.name for column in relation.columns]
    columns = ", ".join(f'"{name}"=v{at}' for at, name in enumerate(names))
    head = f"t({', '.join(f'v{at}' for at in range(len(names)))})"
    answer = ask([RuleFile("m", "m.dl", f"{head} :- {table}({columns}).")], head, QueryInputs(lines=lines))
    assert answer.errors == (), table
    return [
        {name: to_json(value) for name, value in zip(names, row, strict=True) if value is not None}
        for row in answer.rows
    ]


def sort_rows(tables: Rows) -> Rows:
    """The tables with their rows in one order, without nulls."""

    def rank(row: dict[str, Any]) -> list[tuple[str, str]]:
        return sorted((name, str(float(value) if isinstance(value, int) else value)) for name, value in row.items())

    return {
        table: sorted(({name: row[name] for name in row if row[name] is not None} for row in rows), key=rank)
        for table, rows in sorted(tables.items())
    }
