"""The command `inventory`: reads what there is in the cloud."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from datalog_gate.base.diagnostics import printable
from datalog_gate.base.errors import InputError
from datalog_gate.doors.cli.common import INPUT, OK, print_note
from datalog_gate.inventory.cloud_api import CloudApi
from datalog_gate.inventory.pull import PullResult, pull, select_sources
from datalog_gate.inventory.snapshot import Snapshot, Table, format_time, read_snapshot, snapshot_lines, write_snapshot
from datalog_gate.plugins.plugin_errors import PluginLoadError


def inventory(options: argparse.Namespace) -> int:
    """Run the command. Errors: InputError, UsageError."""
    try:
        sources = select_sources(options.tables)
    except PluginLoadError as error:
        raise InputError.of(str(error)) from None
    older = read_snapshot(options.output_file) if options.output_file and options.output_file.exists() else Snapshot()
    result = pull(CloudApi(options.cloud, options.rate), sources, older)
    if options.output_file:
        write_snapshot(options.output_file, result.snapshot)
    else:
        for line in snapshot_lines(result.snapshot):
            print(line)
    return report_pull(result)


def report_pull(result: PullResult) -> int:
    """Print what was not read. Return the exit code: INPUT if a table has no rows of an older reading either."""
    for problem, names in _by_problem(result.missing).items():
        print_note(printable(f"left out: {', '.join(names)}: {problem}"))
    for problem, names in _by_problem(result.problems).items():
        tables = ", ".join(f"{name} ({_age(result.snapshot.tables[name])})" for name in names)
        print_note(printable(f"{tables}: {problem}"))
    return INPUT if result.unread else OK


def _by_problem(problems: Mapping[str, str]) -> dict[str, list[str]]:
    """The relations by problem."""
    relations: dict[str, list[str]] = {}
    for relation, problem in problems.items():
        relations.setdefault(problem, []).append(relation)
    return relations


def _age(table: Table) -> str:
    if table.read:
        return f"of {format_time(table.read)}"
    return "as it was" if table.rows else "never read"
