"""The commands `explain`, `replay`, `waive` and `waivers`, over logged decisions."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import Diagnostic, format_count, printable, render
from datalog_gate.decision.decision import SHORT
from datalog_gate.decision_point.log import (
    FindingChange,
    Record,
    ReplayResult,
    find_record,
    replay_log,
    replay_record,
)
from datalog_gate.decision_point.waiver_file import append_waiver, find_waiver_key, read_decision, review_waivers
from datalog_gate.doors.cli.common import FINDINGS, OK, find_log, load_rules, print_note, replace_file
from datalog_gate.doors.cli.impact import PolicyImpact, format_impacts, sort_impacts
from datalog_gate.doors.cli.reports.html import require_pages
from datalog_gate.doors.cli.reports.text import format_decision

HOW = {
    "+violations": "new finding",
    "-violations": "finding gone",
    "+undetermined": "undetermined",
    "-undetermined": "settled",
    "+waived": "waived",
    "-waived": "no longer waived",
    "+errors": "error",
    "-errors": "error gone",
}
"""The words for a change in a table, by sign and field; those of another level or mode are left out."""
SERIOUSNESS = ("deny", "errors", "undetermined", "warn", "record", "waived")
"""Levels of findings, and fields of other findings, the most serious first."""
MOST = 100
"""The maximum number of decisions on a page."""


def explain(options: argparse.Namespace) -> int:
    """Print a decision of a log with an explanation."""
    record = find_record(find_log(options), options.decision)
    rules = load_rules(options)
    inventory = rules.inventory(Path(options.inventory)) if options.inventory else None
    waivers = rules.waivers(options.waivers) if options.waivers else None
    result = replay_record(record, rules, inventory, explain=True, waivers=waivers) if "inputs" in record else None
    decided: Any = record.get("decision")
    print("\n".join(_explanation_lines(record, result)))
    if result and decided["digests"]["rules"] != rules.digest:
        print_note("the rules have changed since: this is their result now")
    return OK


def replay(options: argparse.Namespace) -> int:
    """Print the logged decisions that the rules would change, and a table by policy."""
    if options.format == "html":
        require_pages()
    rules = load_rules(options)
    inventory = rules.inventory(Path(options.inventory)) if options.inventory else None
    waivers = rules.waivers(options.waivers) if options.waivers else None
    same = other = failed = 0
    impacts: dict[str, PolicyImpact] = {}
    differences: list[str] = []
    for result in replay_log(options.log, rules, inventory, options.mode, waivers):
        if isinstance(result, Diagnostic):
            print(render(result, {}), file=sys.stderr)
        elif result.decision and not result.differs:
            same += 1
        else:
            if options.format != "html":
                print(_difference_json(result) if options.format == "json" else _format_difference(result))
            elif len(differences) < MOST:
                differences.append(_format_difference(result))
            if result.decision:
                other += 1
                _count_impacts(impacts, result)
            else:
                failed += 1
    _print_impacts(options.format, {"same": same, "other": other, "failed": failed}, impacts, differences)
    return FINDINGS if other or failed else OK


def _print_impacts(
    form: str, counts: Mapping[str, int], impacts: dict[str, PolicyImpact], differences: Sequence[str]
) -> None:
    """Print the numbers of decisions, and the table by policy; on a page also the first decisions."""
    table = [{"policy": policy, **impact.to_json()} for policy, impact in sort_impacts(impacts)]
    other, failed = counts["other"], counts["failed"]
    numbers = f"{counts['same']} the same, {format_count(other, 'other')}, {failed} that can't be decided"
    match form:
        case "json":
            print(json.dumps({**counts, "policies": table}))
        case "html":
            from datalog_gate.pages.rendering import render_document

            shown = [difference.splitlines() for difference in differences]
            more = other + failed - len(shown)
            print(render_document("replay.html", numbers=numbers, policies=table, differences=shown, more=more))
        case _:
            print("\n".join([numbers, *format_impacts(impacts, "decisions")]))


def _count_impacts(impacts: dict[str, PolicyImpact], result: ReplayResult) -> None:
    """Count a decision for each policy whose findings change. Its new outcome is ascribed to the policies with the most
    serious changes."""
    record: Any = result.record
    assert result.decision
    seriousness = {change: SERIOUSNESS.index(_name_effect(change)) for change in result.changes}
    most = min(seriousness.values(), default=0)
    before, after = record["decision"]["outcome"], result.decision.outcome
    for policy in dict.fromkeys(change.policy for change in result.changes) or ("-",):
        changes = [change for change in result.changes if change.policy == policy]
        how = " and ".join(dict.fromkeys(_name_change(change) for change in changes))
        if before != after and (not changes or any(seriousness[change] == most for change in changes)):
            how = f"{before} to {after}"
        example = f"{record['stack_name']} {str(record['id'])[:SHORT]}"
        impacts.setdefault(policy, PolicyImpact()).add(how, str(record["project"]), example)


def _name_change(change: FindingChange) -> str:
    return HOW.get(f"{change.sign}{change.field}", "other level or mode")


def _name_effect(change: FindingChange) -> str:
    """The level of a finding that holds, else the field that it is in."""
    return change.level if change.field == "violations" else change.field


def _explanation_lines(record: Record, result: ReplayResult | None) -> list[str]:
    lines = [_format_head(record)]
    if result and result.decision:
        lines.append(format_decision(result.decision, detail="all"))
    elif result:
        lines.append(f"the decision can't be repeated: {result.why}")
    if record.get("redacted"):
        lines.append(f"hidden, and not in the log: {_hidden_names(record)}")
    return lines


def _format_difference(result: ReplayResult) -> str:
    record: Any = result.record
    if "decision" not in record:
        return _format_head(record)
    after = f"now {result.decision.outcome}" if result.decision else f"can't be decided again: {result.why}"
    hidden = f"; hidden, and not in the log: {_hidden_names(record)}" if record.get("redacted") else ""
    before = record["decision"]["outcome"]
    lines = [f"{_format_head(record)}: was {before}, {after}{hidden}", *(f"  {change}" for change in result.changes)]
    return "\n".join(map(printable, lines))


def _difference_json(result: ReplayResult) -> str:
    before: Any = result.record.get("decision") or {}
    difference = {
        "id": result.record["id"],
        "was": before.get("outcome"),
        "now": result.decision.outcome if result.decision else None,
        "why": result.why,
        "differs": result.differs,
        "changes": list(map(str, result.changes)),
    }
    return json.dumps(difference)


def _format_head(record: Record) -> str:
    """Format who requested what, and the verdict."""
    user = f"{record['user']} of {record['project']}"
    request = f"{record['action']} of {record['stack_name']} by {user} at door {record['door']}"
    why = f": {record['reason']}" if record["reason"] and "decision" not in record else ""
    return printable(f"{record['time']} {str(record['id'])[:SHORT]} {request}: {record['verdict']}{why}")


def _hidden_names(record: Record) -> str:
    names: Any = record["redacted"]
    return ", ".join(map(str, names))


def waive(options: argparse.Namespace) -> int:
    """Append a waiver of a violation to the file, and print it. Errors: InputError, UsageError."""
    file, rules = Path(options.waivers), load_rules(options)
    log = None if os.path.isfile(options.decision) else find_log(options)
    decision, project = read_decision(options.decision, log)
    key, notes = find_waiver_key(rules, decision, options.number, options.bound)
    fields = {
        **key,
        "project": project,
        "owner": options.owner,
        "reason": options.reason,
        "ticket": options.ticket,
        "expires": options.expires,
        "while": options.bound,
    }
    text, entry = append_waiver(file, rules, {name: value for name, value in fields.items() if value})
    replace_file(file, text)
    print(entry, end="")
    for note in notes:
        print_note(note)
    return OK


def waivers(options: argparse.Namespace) -> int:
    """Print each waiver that is expired, ends soon or is unused in the log, and the counts. Errors: InputError."""
    now = (options.now or datetime.now(UTC)).replace(tzinfo=UTC)
    waivers, problems = review_waivers(options.waivers, load_rules(options), now, options.log)
    for problem in problems:
        print(problem)
    expired = sum(now >= waiver.until for waiver in waivers)
    print(f"{format_count(len(waivers), 'waiver')}, {expired} expired")
    return FINDINGS if expired else OK
