"""Waivers for people (layer 6): written for a violation that was found, and looked at before they end.

In: a decision, or a file of waivers. Out: the file's new text, what needs a look, notes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from textwrap import indent
from typing import Any

from datalog_gate.analysis.violation_key import computed_cells, key_columns
from datalog_gate.api import Rules
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.decision.decision import SCHEMA, Waiver
from datalog_gate.decision_point.log import read_log
from datalog_gate.decision_point.replay import find_record
from datalog_gate.doors.cli.output_files import replace, write
from datalog_gate.files.templates import read_text
from datalog_gate.template.document import read_document

NUMBERED = re.compile(r"W-(\d{1,9})")


def waive(file: Path, rules: Rules, options: argparse.Namespace) -> tuple[str, list[str]]:
    """Write a waiver for the violation that the options name at the end of the file, and give its entry and what to
    think of. Errors: InputError, UsageError."""
    decision, project = _decision(options.decision, options.log or os.environ.get("DATALOG_GATE_LOG"))
    violations = dict(enumerate(decision["violations"], 1))
    found = violations.get(options.number)
    if found is None:
        raise UsageError(f"the decision has no violation {options.number}, but {len(violations)} of them")
    policy = next((policy for policy in rules.policies if policy.id == found["policy"]), None)
    if policy is None or len(policy.columns) != len(found["row"]):
        raise UsageError(f"the rules have no policy {found['policy']} like the one that found it: name them by --rules")
    row = {name: value for name, value in zip(policy.columns, found["row"], strict=True) if name}
    blamed = policy.columns[policy.subject] if policy.subject is not None and found["resource"] else ""
    keys = key_columns(policy, computed_cells(rules.program))
    hidden = [name for name in keys if isinstance(row[name], dict)]
    key = {name: row[name] for name in keys if name not in (blamed, *hidden)}
    notes = [f"{name} is hidden or not known: the waiver holds whatever it is" for name in hidden]
    free = [name for name, value in row.items() if name not in keys and type(value) in (int, float)]
    for name in free if not options.bound else ():
        notes.append(f"the waiver holds however {name} changes: bound it, --while '{name} <= {row[name]}'")
    texts = {name: getattr(options, name) for name in ("owner", "reason", "ticket", "expires")}
    named = {"policy": policy.id, "subject": found["resource"], "key": key, "project": project}
    entry = {name: value for name, value in {**named, **texts, "while": options.bound}.items() if value}
    new, written = _appended(file, rules, entry)
    replace(file, new) if file.exists() else write(file, new)
    return written, notes


def looked_at(file: str, rules: Rules, now: datetime | None, log: Path | None) -> tuple[list[str], bool]:
    """A line for each waiver that is expired, ends soon, or met nothing in the log, and one on all; whether all is
    well. Errors: InputError."""
    document = read_document(read_text(file), file)
    waivers = rules.waivers(document)
    now = (now or datetime.now(UTC)).replace(tzinfo=UTC)
    met = [one for record in (read_log(log) if log else ()) if isinstance(record, dict) for one in _met(record)]
    lines = []
    for at, waiver in enumerate(waivers):
        said = [f"expired[{waiver.id}] on {waiver.expires}"] if now >= waiver.until else []
        said += [f"soon[{waiver.id}] {waiver.left(now)}"] if waiver.ends_soon(now) else []
        said += [f"unused[{waiver.id}] by any decision of {log}"] if log and waiver.id not in met else []
        subject = f" of {waiver.subject}" if waiver.subject else ""
        what = f"{waiver.policy}{subject}, {', '.join(filter(None, (waiver.owner, waiver.ticket)))}"
        lines += [f"{document.place(('waivers', at))}: {each}: {what}" for each in said]
    expired = sum(now >= waiver.until for waiver in waivers)
    return [*lines, f"{len(waivers)} waiver{'' if len(waivers) == 1 else 's'}, {expired} expired"], not expired


def _decision(named: str, log: str | None) -> tuple[dict[str, Any], str]:
    """The JSON of a decision in a file or a log, and the project that asked, if it is told."""
    record: Any
    if Path(named).is_file():
        try:
            record = {"decision": json.loads(read_text(named))}
        except (ValueError, RecursionError):
            record = {"decision": None}
        if not isinstance(record["decision"], dict) or record["decision"].get("schema") != SCHEMA:
            raise InputError([Diagnostic("unreadable", f"{named} is no decision as `check --format json` writes it")])
        return record["decision"], ""
    if not log:
        raise UsageError("waive: name the decision log with --log, or in DATALOG_GATE_LOG")
    record = find_record(Path(log), named)
    if "decision" not in record:
        raise InputError([Diagnostic("unreadable", f"{named} was not judged: there is nothing to waive")])
    return record["decision"], (record["inputs"]["caller"] or {}).get("project") or ""


def _met(record: Any) -> list[str]:
    """The ids of the waivers that a decision of the log met."""
    return [one["id"] for one in record.get("inputs", {}).get("waivers", ())]


def _appended(file: Path, rules: Rules, entry: dict[str, Any]) -> tuple[str, str]:
    """The text of the file with the entry below what is there, which stays as it is; and the entry."""
    text = read_text(file) if file.exists() else "waivers:\n"
    document = read_document(text, str(file))
    before = rules.waivers(document)
    taken = [int(found[1]) for waiver in before if (found := NUMBERED.fullmatch(waiver.id))]
    entry = {"id": f"W-{max(taken, default=0) + 1}", **entry}
    place = document.place(("waivers", 0)) if before else None
    margin = text.splitlines()[place.line - 1][: place.column - 1].rfind("-") if place else 2
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in entry.items()]
    written = f"- {'  '.join(lines)}"
    new = f"{text}{'' if text.endswith(chr(10)) else chr(10)}{indent(written, ' ' * margin)}"
    after: tuple[Waiver, ...] = ()
    try:
        after = rules.waivers(read_document(new, str(file)))
    except InputError as error:
        if all(diagnostic.code == "bad-waiver" for diagnostic in error.diagnostics):
            raise
    if after != (*before, Waiver.from_json(entry)):
        raise UsageError(f"{file}: nothing can be added below: write the list with a dash for each waiver")
    return new, written
