"""The command `scan`: judges every stack, and keeps the findings."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from datalog_gate.api import Rules
from datalog_gate.base.diagnostics import Span, format_count, printable, render
from datalog_gate.base.errors import GateError, InputError, UsageError
from datalog_gate.base.secrecy import MASK
from datalog_gate.doors.cli.common import (
    DENIED,
    INPUT,
    OK,
    UNDECIDED,
    interrupt_at_sigterm,
    load_rules,
    print_answer,
    print_note,
)
from datalog_gate.doors.cli.impact import PolicyImpact, format_impacts

if TYPE_CHECKING:
    from datalog_gate.decision.decision import Waiver
    from datalog_gate.doors.cli.reports.entries import ReportedFinding
    from datalog_gate.doors.cli.reports.entries import State as ReportState
    from datalog_gate.scan.feed import Feed, Item
    from datalog_gate.scan.scan_run import RunReport
    from datalog_gate.scan.scan_store import ScanStore, StoredFinding
    from datalog_gate.scan.stored_judgement import StackCounts

Kind = tuple[str, str, bool]
"""The keys by which findings are counted: level, state, and whether they deny."""
COLUMNS = (
    *("policy", "level", "state", "stack", "project", "resource", "message", "hint"),
    *("first_seen", "last_seen", "resolved_at", "root", "key", "row", "place"),
)
"""The columns of findings as CSV, and the keys as JSON."""

CLOUD_VARIABLES = ("OS_AUTH_URL", "OS_REGION_NAME", "OS_ENDPOINT")
"""The variables that say which cloud is meant if none is named."""


def scan(options: argparse.Namespace) -> int:
    """Run a part of the command. Errors: UsageError without the extra `scan`; InputError; EngineError."""
    try:
        import duckdb  # noqa: F401

        import datalog_gate.scan.scan_store  # noqa: F401
    except ImportError:
        raise UsageError("scan needs DuckDB and sqlglot: pip install 'datalog-gate[scan]'") from None
    parts: dict[str, Callable[[argparse.Namespace], int]] = {
        "run": _run,
        "watch": _watch,
        "findings": _findings,
        "history": _history,
        "rejudge": _rejudge,
        "query": _query,
        "verify": _verify,
        "export": _export,
    }
    return parts[options.part](options)


def _run(options: argparse.Namespace) -> int:
    """Judge once. The exit code is that of the findings that are open then."""
    rules = load_rules(options)
    for warning in rules.warnings:
        print(render(warning, rules.sources), file=sys.stderr)
    report, code = _run_once(options, rules)
    for root, reason in sorted(report.unread.items()):
        print_note(printable(f"{root}: {reason}"))
    return code


def _watch(options: argparse.Namespace) -> int:
    """Judge repeatedly until the service is stopped. A failed run prints a line, and the next one continues."""
    interrupt_at_sigterm()
    try:
        while True:
            try:
                _run_once(options, load_rules(options))
            except (GateError, OSError) as error:
                print(printable(f"failed: {error}"), flush=True)
            gc.collect()  # main disables the collector for commands that end
            time.sleep(options.every)
    except KeyboardInterrupt:
        return OK


def _run_once(options: argparse.Namespace, rules: Rules) -> tuple[RunReport, int]:
    from datalog_gate.decision_point.inventory_source import STORE
    from datalog_gate.scan.folder_feed import FolderFeed
    from datalog_gate.scan.scan_run import Judges, run

    waivers = _read_stored_waivers(options, rules) if options.waivers == STORE else options.waivers or ()
    request = rules.scan_request(options.now, options.inventory, waivers, options.services)
    with Judges(request, options.processes) as judges, _open_store(options, rules) as store:
        name = _feed_name(options)
        feed = _open_feed(options, store, name)
        report = run(feed, name, store, judges, request, _show_progress)
        if isinstance(feed, FolderFeed):
            store.write_file_records(name, feed.changed)
        counts = store.counts()
    print(_format_run(report, counts), flush=True)
    return report, INPUT if report.unread else _exit_code(counts)


def _read_stored_waivers(options: argparse.Namespace, rules: Rules) -> tuple[Waiver, ...]:
    """The waivers in the store of a policy server. Errors: UsageError, InputError."""
    if not options.heat_conf:
        raise UsageError("--waivers store needs --heat-conf, the configuration that names the store")
    from datalog_gate.decision_point.policy_reload import read_stored_waivers
    from datalog_gate.doors.cli.heat_conf import read_settings

    settings, _ = read_settings(Path(options.heat_conf))
    return read_stored_waivers(settings, rules)


def _format_run(report: RunReport, counts: Mapping[Kind, int]) -> str:
    """The line about a run: what was judged, and what is open now."""
    levels: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for (level, state, _), count in counts.items():
        levels[level] += count if state == "holds" else 0
        states[state] += count
    judged = f"{report.judged} judged, {report.unchanged} unchanged, {report.gone} gone, {len(report.unread)} unread"
    holding = f"{levels['deny']} denied, {levels['warn']} warned, {levels['record']} recorded"
    return (
        f"{judged}; open: {holding}, {states['waived']} waived, {states['undetermined']} undetermined, "
        f"{states['error']} in error"
    )


def _exit_code(kinds: Iterable[Kind]) -> int:
    """The exit code of open findings."""
    kinds = set(kinds)
    if any(denies for _, _, denies in kinds):
        return DENIED
    return UNDECIDED if any(kind[:2] == ("deny", "error") for kind in kinds) else OK


def _open_feed(options: argparse.Namespace, store: ScanStore, name: str) -> Feed:
    """The feed of that name, which the options describe. Errors: UsageError, InputError."""
    known = {root: stack.listing for root, stack in store.known(name).items()}
    if options.folder:
        if options.since:
            raise UsageError("--since needs --cloud or --log: a folder does not say when a template changed")
        from datalog_gate.scan.folder_feed import FolderFeed

        folders = _find_others(store, name)
        present = {root: folder for root, folder in folders.items() if os.path.exists(os.path.join(folder, root))}
        return FolderFeed(options.folder, known, present, store.file_records(name))
    if options.log:
        for other in filter(os.path.exists, sorted({*_find_others(store, name).values()})):
            message = f"the store has stacks of the log {other}, and this one would replace them"
            advice = "join the logs of all hosts in one file, or give each its own --store"
            raise InputError.of(message, suggestion=advice)
        from datalog_gate.decision_point.log import read_log
        from datalog_gate.scan.log_feed import LogFeed

        return LogFeed(read_log(options.log), known, options.since)
    from datalog_gate.inventory.cloud_api import CloudApi
    from datalog_gate.scan.heat_feed import HeatFeed

    return HeatFeed(CloudApi(options.cloud or None, options.rate), known, since=options.since)


def _find_others(store: ScanStore, name: str) -> dict[str, str]:
    """The path of the other feed of the same kind, by root, that the store has a stack from."""
    kind = name.partition(" ")[0]
    others = ((root, feed.partition(" ")) for root, feed in store.other_feeds(name).items())
    return {root: path for root, (other, _, path) in others if other == kind}


def _show_progress(feed: Feed) -> Iterator[Item]:
    """Yield the items of a feed, and show the progress and the remaining time on a terminal."""
    from tqdm import tqdm

    with tqdm(unit=" stacks", disable=None, file=sys.stderr) as bar:
        for item in feed:
            bar.total = feed.total
            bar.update()
            yield item


def _feed_name(options: argparse.Namespace) -> str:
    """The name of a feed in the store, so that stacks of other feeds are not removed."""
    if options.folder or options.log:
        return f"{'folder' if options.folder else 'log'} {os.path.realpath(options.folder or options.log)}"
    if named := options.cloud or os.environ.get("OS_CLOUD"):
        return f"cloud {named}"
    return " ".join(["cloud", *(os.environ[name] for name in CLOUD_VARIABLES if name in os.environ)])


def _findings(options: argparse.Namespace) -> int:
    """Print the open findings."""
    from datalog_gate.scan.scan_store import Page

    rules = load_rules(options) if options.format == "sarif" else None
    page = Page(None if options.project is None else [options.project])
    with _open_store(options, rules) as store:
        findings = store.findings(page, options.policy, options.since and options.since.isoformat())
    match options.format:
        case "json":
            for finding in findings:
                print(json.dumps(_to_json(finding), ensure_ascii=False))
        case "csv":
            from datalog_gate.doors.cli.reports.csv_table import format_table

            print(format_table(COLUMNS, [[getattr(finding, name) for name in COLUMNS] for finding in findings]), end="")
        case "sarif":
            from datalog_gate.doors.cli.reports.sarif import format_findings

            assert rules
            print(format_findings(list(map(_reported, findings)), rules.policies), end="")
        case _:
            for finding in findings:
                print(_format_finding(finding))
            print_note(format_count(len(findings), "open finding"))
    return _exit_code((finding.level, finding.state, finding.denies) for finding in findings)


def _format_finding(finding: StoredFinding) -> str:
    word = {"holds": finding.level, "error": "error"}.get(finding.state, finding.state)
    hint = f" ({finding.hint})" if finding.hint else ""
    project = f" of {finding.project}" if finding.project else ""
    where = f"{finding.stack}{project}: " if finding.stack else ""
    span = _span(finding)
    place = f" at {span}" if span else ""
    return printable(f"{finding.first_seen[:10]} {where}{word}[{finding.policy}] {finding.message}{hint}{place}")


def _span(finding: StoredFinding) -> Span | None:
    """The place of the finding in its text, if it has lines."""
    place: dict[str, Any] = json.loads(finding.place) if finding.place else {"line": None}
    line, column = place["line"], place.get("column")
    return Span(place["file"], line, column or 0, line, column or 0) if line else None


def _to_json(finding: StoredFinding) -> dict[str, object]:
    data: dict[str, object] = {name: getattr(finding, name) for name in COLUMNS}
    encoded = {name: json.loads(text) if (text := getattr(finding, name)) else None for name in ("key", "row", "place")}
    return {**data, **encoded, "denies": finding.denies}


def _reported(finding: StoredFinding) -> ReportedFinding:
    from datalog_gate.analysis.policy import LEVELS
    from datalog_gate.doors.cli.reports.entries import SEVERITIES, ReportedFinding

    severity = SEVERITIES[LEVELS.index(finding.level)]
    return ReportedFinding(
        rule=finding.policy,
        severity="warning" if severity == "error" and finding.state == "holds" and not finding.denies else severity,
        state=_STATES[finding.state],
        message=f"{finding.stack}: {finding.message}" if finding.stack else finding.message,
        place=_span(finding),
        help=finding.hint,
        resource=finding.resource,
    )


_STATES: Mapping[str, ReportState] = {
    "holds": "holds",
    "waived": "waived",
    "undetermined": "unknown",
    "error": "broken",
}
"""The states of findings in reports."""


def _history(options: argparse.Namespace) -> int:
    """Print the number of new, resolved and open findings for each day."""
    from datalog_gate.scan.open_findings import read_days

    with _open_store(options) as store:
        days = read_days(store.database, None, options.policy)
    for day, new, resolved, open_ in days:
        print(f"{day}  {new} new, {resolved} resolved, {open_} open")
    return OK


def _rejudge(options: argparse.Namespace) -> int:
    """Print the findings of rules in the stored stacks, by project and policy, and what differs from the open ones."""
    from datalog_gate.scan.open_findings import count_open_by_stack
    from datalog_gate.scan.scan_run import Judges
    from datalog_gate.scan.stored_judgement import rejudge, sum_by_project

    rules = load_rules(options)
    request = rules.scan_request(options.now, options.inventory, (), options.services)
    impacts: dict[str, PolicyImpact] = {}
    if options.engine == "spark":
        from datalog_gate.scan.spark_judgement import rejudge_store

        forecasts = rejudge_store(options.store, request, options.processes)
    else:
        with Judges(request, options.processes) as judges, _open_store(options, rules) as store:
            if options.engine not in (None, "native", store.database.dialect):
                raise UsageError(f"the store is not a store of {options.engine}: remove --engine")
            counts = rejudge(store, request, judges, ask_facts=options.engine != "native")
            stacks = store.stacks()
            forecasts = sum_by_project(counts, stacks)
            impacts = _find_impacts(count_open_by_stack(store.database), counts, stacks)
    rows = [("project", "policy", "findings", "stacks")]
    rows += [(row.project or "-", row.policy, str(row.findings), str(row.stacks)) for row in forecasts]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for project, policy, findings, number in rows:
        line = f"{project:{widths[0]}}  {policy:{widths[1]}}  {findings:>{widths[2]}}  {number:>{widths[3]}}"
        print(printable(line))
    for line in format_impacts(impacts, "stacks"):
        print(line)
    return OK


def _find_impacts(
    before: StackCounts, after: StackCounts, stacks: Mapping[str, tuple[str, str | None]]
) -> dict[str, PolicyImpact]:
    """By policy, the stacks in which it has another number of findings than before."""
    impacts: dict[str, PolicyImpact] = {}
    for root, policy in sorted(before.keys() | after.keys()):
        was, now = (counts.get((root, policy), 0) for counts in (before, after))
        if was != now:
            how = "new finding" if not was else "finding gone" if not now else "more" if now > was else "fewer"
            name, project = stacks.get(root) or (root, None)
            impacts.setdefault(policy, PolicyImpact()).add(how, project or "", name or root or "-")
    return impacts


def _query(options: argparse.Namespace) -> int:
    """Print the rows of a query over the stored facts of all stacks."""
    from datalog_gate.api import answer_query
    from datalog_gate.files.rules import read_rules

    files = read_rules(map(Path, options.rules))
    with _open_store(options) as store:
        facts = store.facts_named([options.query, *(file.text for file in files)])
        answer = answer_query(files, options.query, [facts], catalogue=store.catalogue)
    return print_answer(answer, options.format)


def _verify(options: argparse.Namespace) -> int:
    """Judge random stacks in two ways, and print the rows that only one of them derives."""
    from datalog_gate.scan.stored_judgement import verify

    rules = load_rules(options)
    request = rules.scan_request(options.now, options.inventory, (), options.services)
    with _open_store(options, rules) as store:
        count = min(options.count, len(store.stacks()))
        differences = verify(store, request, options.count, Random(options.seed))
    for difference in differences:
        way = "the stored facts" if difference.stored else "the stack"
        row = ", ".join(map(_show_value, json.loads(difference.row)))
        print(printable(f"{difference.root}: {difference.policy}({row}) by {way} alone"))
    print_note(f"{count} stacks, {len(differences)} differences")
    return UNDECIDED if differences else OK


def _show_value(value: object) -> str:
    """A value of a stored row, as in messages."""
    from datalog_gate.base.values import from_python, show

    match value:
        case {"$resource": str(text)} | {"$unknown": str(text)}:
            return text
        case dict():
            return MASK
    return show(from_python(value))


def _export(options: argparse.Namespace) -> int:
    """Write each table of the store as a Parquet file."""
    with _open_store(options) as store:
        tables = store.export(options.parquet)
    print_note(f"{len(tables)} tables in {options.parquet}")
    return OK


def _open_store(options: argparse.Namespace, rules: Rules | None = None) -> AbstractContextManager[ScanStore]:
    """Open the store; `run` creates it if it is missing. Errors: InputError."""
    from datalog_gate.scan.store_file import open_store

    return open_store(options.store, rules.catalogue if rules else None, options.part in ("run", "watch"))
