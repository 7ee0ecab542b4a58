"""Waivers of logged or printed decisions, in the file `waivers.yaml`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from textwrap import indent
from typing import Any

from datalog_gate.analysis.violation_key import computed_cells, key_columns
from datalog_gate.api import Rules
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.decision.decision import SCHEMA, Waiver
from datalog_gate.decision_point.log import find_record, read_log
from datalog_gate.files.templates import read_text
from datalog_gate.template.document import read_document

NUMBERED_ID = re.compile(r"W-(\d{1,9})")


def read_decision(source: str, log: Path | None) -> tuple[Mapping[str, Any], str]:
    """Read the JSON of a decision from a file, or by its id from a log, and the project of its caller if known. Errors:
    InputError."""
    if log is None:
        try:
            decision: Any = json.loads(read_text(source))
        except (ValueError, RecursionError):
            decision = None
        if not isinstance(decision, dict) or decision.get("schema") != SCHEMA:
            raise InputError.of(f"{source} is not a decision as `check --format json` writes it")
        return decision, ""
    record: Any = find_record(log, source)
    if "decision" not in record:
        raise InputError.of(f"{source} was not judged: there is nothing to waive")
    return record["decision"], (record["inputs"]["caller"] or {}).get("project") or ""


def find_waiver_key(
    rules: Rules, decision: Mapping[str, Any], number: int, bound: str
) -> tuple[dict[str, object], list[str]]:
    """Find the policy, subject and key that waive the violation of a decision with this number, and notes on what else
    they waive, unless there is a bound. Errors: UsageError."""
    violations = dict(enumerate(decision["violations"], 1))
    violation = violations.get(number)
    if violation is None:
        raise UsageError(f"the decision has no violation {number}, only {len(violations)}")
    policy = next((policy for policy in rules.policies if policy.id == violation["policy"]), None)
    if policy is None or len(policy.columns) != len(violation["row"]):
        message = f"the rules have no policy {violation['policy']} like the one that found it: give them with --rules"
        raise UsageError(message)
    row = {name: value for name, value in zip(policy.columns, violation["row"], strict=True) if name}
    subject = policy.columns[policy.subject] if policy.subject is not None and violation["resource"] else ""
    keys = key_columns(policy, computed_cells(rules.program))
    hidden = [name for name in keys if isinstance(row[name], dict)]
    notes = [f"{name} is hidden or not known: the waiver holds for any value" for name in hidden]
    for name, value in row.items() if not bound else ():
        if name not in keys and type(value) in (int, float):
            notes.append(f"the waiver holds for any {name}: bound it with --while '{name} <= {value}'")
    key = {name: row[name] for name in keys if name not in (subject, *hidden)}
    return {"policy": policy.id, "subject": violation["resource"], "key": key}, notes


def append_waiver(file: Path, rules: Rules, fields: dict[str, Any]) -> tuple[str, str]:
    """Append a waiver to the text of the file. Return the new text, and the entry alone. Errors: InputError,
    UsageError."""
    text = read_text(file) if os.path.exists(file) else "waivers:\n"
    document = read_document(text, str(file))
    before = rules.waivers(document)
    numbers = [int(match[1]) for waiver in before if (match := NUMBERED_ID.fullmatch(waiver.id))]
    fields = {"id": f"W-{max(numbers, default=0) + 1}", **fields}
    margin = 2
    if before and (place := document.place(("waivers", 0))):
        first_entry = text.splitlines()[place.line - 1]
        margin = first_entry.rfind("-", 0, place.column - 1)
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in fields.items()]
    entry = f"- {'  '.join(lines)}"
    end = "" if text.endswith("\n") else "\n"
    new_text = f"{text}{end}{indent(entry, ' ' * margin)}"
    after: tuple[Waiver, ...] = ()
    try:
        after = rules.waivers(read_document(new_text, str(file)))
    except InputError as error:
        if all(diagnostic.code == "bad-waiver" for diagnostic in error.diagnostics):
            raise
    if after != (*before, Waiver.from_json(fields)):
        raise UsageError(f"{file}: no waiver can be appended: write the list with a dash for each waiver")
    return new_text, entry


def review_waivers(file: str, rules: Rules, now: datetime, log: Path | None) -> tuple[tuple[Waiver, ...], list[str]]:
    """Read the waivers of a file, and a line about each that is expired, ends soon, or that no decision of the log
    used. Errors: InputError."""
    document = read_document(read_text(file), file)
    waivers = rules.waivers(document)
    records: list[Any] = [record for record in read_log(log) if isinstance(record, dict)] if log else []
    used = {waiver["id"] for record in records for waiver in record.get("inputs", {}).get("waivers", ())}
    lines = []
    for index, waiver in enumerate(waivers):
        subject = f" of {waiver.subject}" if waiver.subject else ""
        description = f"{waiver.policy}{subject}, {', '.join(filter(None, (waiver.owner, waiver.ticket)))}"
        problems = []
        if now >= waiver.until:
            problems.append(f"expired[{waiver.id}] on {waiver.expires}")
        if waiver.ends_soon(now):
            problems.append(f"soon[{waiver.id}] {waiver.left(now)}")
        if log and waiver.id not in used:
            problems.append(f"unused[{waiver.id}] by any decision of {log}")
        lines += [f"{document.place(('waivers', index))}: {problem}: {description}" for problem in problems]
    return waivers, lines
