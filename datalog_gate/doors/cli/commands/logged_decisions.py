"""The commands `explain` and `replay`, which decide again what a log holds."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from datalog_gate.api import Rules
from datalog_gate.base.diagnostics import Diagnostic, printable, render
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.decision import SHORT, Waiver
from datalog_gate.decision_point.log import Record
from datalog_gate.decision_point.replay import ReplayResult, find_record, replay_log, replay_record
from datalog_gate.doors.cli.common import FINDINGS, OK, find_log, load_rules, print_note
from datalog_gate.doors.cli.reports import format_decision


def explain(options: argparse.Namespace) -> int:
    """Print a decision of a log with an explanation."""
    record = find_record(find_log(options), options.decision)
    rules, inventory, waivers = _load(options)
    result = replay_record(record, rules, inventory, explain=True, waivers=waivers) if "inputs" in record else None
    decided: Any = record.get("decision")
    if options.format == "json":
        fields = {name: value for name, value in record.items() if name not in ("inputs", "decision")}
        again = result.decision.to_json() if result and result.decision else decided
        print(json.dumps({**fields, "decision": again}))
    else:
        print("\n".join(_explanation_lines(record, result)))
    if result and decided["digests"]["rules"] != rules.digest:
        print_note("the rules have changed since: this is what they say now")
    return OK


def replay(options: argparse.Namespace) -> int:
    """Print the decisions of a log that the rules change."""
    rules, inventory, waivers = _load(options)
    same = other = failed = 0
    for result in replay_log(options.log, rules, inventory, options.mode, waivers):
        if isinstance(result, Diagnostic):
            print(render(result, {}), file=sys.stderr)
        elif result.decision and not result.differs:
            same += 1
        else:
            print(_difference_json(result) if options.format == "json" else _format_difference(result))
            if result.decision:
                other += 1
            else:
                failed += 1
    if options.format == "text":
        print(f"{same} the same, {other} other{'' if other == 1 else 's'}, {failed} that can't be decided")
    return FINDINGS if other or failed else OK


def _load(options: argparse.Namespace) -> tuple[Rules, Inventory | None, tuple[Waiver, ...] | None]:
    rules = load_rules(options)
    inventory = rules.inventory(Path(options.inventory)) if options.inventory else None
    return rules, inventory, rules.waivers(options.waivers) if options.waivers else None


def _explanation_lines(record: Record, result: ReplayResult | None) -> list[str]:
    lines = [_format_head(record)]
    if result and result.decision:
        lines.append(format_decision(result.decision))
    elif result:
        lines.append(f"it can't be decided again: {result.why}")
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
    if result.decision and not result.changes:
        lines.append(f"  other in {', '.join(result.differs)}")
    return "\n".join(map(printable, lines))


def _difference_json(result: ReplayResult) -> str:
    before: Any = result.record.get("decision") or {}
    difference = {
        "id": result.record["id"],
        "was": before.get("outcome"),
        "now": result.decision.outcome if result.decision else None,
        "why": result.why,
        "differs": result.differs,
        "changes": result.changes,
    }
    return json.dumps(difference)


def _format_head(record: Record) -> str:
    """Who asked for what, and the verdict."""
    user = f"{record['user']} of {record['project']}"
    request = f"{record['action']} of {record['stack_name']} by {user} at door {record['door']}"
    why = f": {record['reason']}" if record["reason"] and "decision" not in record else ""
    return printable(f"{record['time']} {str(record['id'])[:SHORT]} {request}: {record['verdict']}{why}")


def _hidden_names(record: Record) -> str:
    names: Any = record["redacted"]
    return ", ".join(map(str, names))
