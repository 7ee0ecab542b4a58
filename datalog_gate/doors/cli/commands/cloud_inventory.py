"""The command `inventory`: reads the tables of a cloud."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from datalog_gate.base.diagnostics import printable
from datalog_gate.base.errors import DiagnosticsError, InputError, UsageError
from datalog_gate.doors.cli.common import INPUT, OK, interrupt_at_sigterm, print_note
from datalog_gate.doors.cli.heat_conf import read_settings
from datalog_gate.inventory.cloud_api import CloudApi
from datalog_gate.inventory.pull import PullResult, pull, select_sources
from datalog_gate.inventory.snapshot import Snapshot, Table, format_time, snapshot_lines
from datalog_gate.inventory.targets import FileTarget, StoreTarget
from datalog_gate.plugins.plugin_errors import PluginLoadError

if TYPE_CHECKING:  # who pulls into a file needs no SQLAlchemy
    from datalog_gate.doors.cli.turns import Turns

Target = FileTarget | StoreTarget


def inventory(options: argparse.Namespace) -> int:
    """Run the command. Errors: InputError, UsageError."""
    try:
        sources = select_sources(options.tables)
    except PluginLoadError as error:
        raise InputError.of(str(error)) from None
    target = _open_target(options)

    def pull_once() -> PullResult:
        api = CloudApi(options.cloud, options.rate)
        if api.limit:
            print_note(api.limit)
        result = pull(api, sources, target.read() if target else Snapshot())
        if target:
            target.write(result.snapshot)
        return result

    if options.every is not None:
        return _serve(pull_once, target, options.every)
    result = pull_once()
    if not target:
        for line in snapshot_lines(result.snapshot):
            print(line)
    return report_pull(result)


def pull_repeatedly(
    pull_once: Callable[[], PullResult],
    turns: Turns | None,
    every: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[str]:
    """Pull repeatedly, in turns with other hosts. Yields a line for each pull, including failed ones."""
    while True:
        began, line = clock(), ""
        try:
            other = turns.take() if turns else None
            if other is None:
                line = _summarize(pull_once(), clock() - began)
            elif other:
                line = f"waiting: {other}"
        except DiagnosticsError as error:
            line = f"failed: {error.diagnostics[0].message}"
        except OSError as error:
            line = f"failed: {error}"
        if line:
            yield printable(line)
        sleep(every)


def _open_target(options: argparse.Namespace) -> Target | None:
    """The target in which the options store the pull; None for stdout. Errors: InputError, UsageError."""
    url = options.store
    if options.heat_conf:
        settings, _ = read_settings(options.heat_conf)
        url = settings.store
        if not url:
            raise InputError.of(f"{options.heat_conf}: store is not set")
    if url:
        try:
            from datalog_gate.store.transaction import Store
        except ImportError:
            raise UsageError("a store needs SQLAlchemy: pip install 'datalog-gate[openstack]'") from None
        try:
            return StoreTarget(Store(url, InputError.of))
        except ValueError as error:
            raise InputError.of(str(error)) from None
    if options.output_file:
        return FileTarget(options.output_file)
    if options.every is not None:
        raise UsageError("--every needs --output, --store or --heat-conf")
    return None


def _serve(pull_once: Callable[[], PullResult], target: Target | None, every: float) -> int:
    """Pull until the service is stopped, then let another host continue."""
    turns = None
    if isinstance(target, StoreTarget):
        from datalog_gate.doors.cli.turns import Turns

        turns = Turns(target.store, "inventory", every)
    interrupt_at_sigterm()
    try:
        for line in pull_repeatedly(pull_once, turns, every):
            print(line, flush=True)
    except KeyboardInterrupt:
        pass
    finally:
        if turns:
            with suppress(InputError):  # the lease ends by itself
                turns.end()
    return OK


def _summarize(result: PullResult, seconds: float) -> str:
    tables = result.snapshot.tables
    rows = sum(len(table.rows) for table in tables.values())
    failed = "".join(f"; {', '.join(names)}: {why}" for why, names in _by_problem(result.problems).items())
    return f"pulled {len(tables)} tables with {rows} rows in {seconds:.1f} s{failed}"


def report_pull(result: PullResult) -> int:
    """Print the tables that were not read. Return the exit code: INPUT if a table has no older rows either."""
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
