"""Decisions of a log as text for people, or as JSON (layer 6): for the commands `explain` and `replay`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from datalog_gate.api import Rules
from datalog_gate.base.diagnostics import Diagnostic, printable
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.decision import SHORT, Waiver
from datalog_gate.decision_point.log import Record
from datalog_gate.decision_point.replay import ReplayResult, replay_record
from datalog_gate.doors.cli.decision_text import text


@dataclass(frozen=True, slots=True)
class Told:
    """A line on one decision, or on all; whether the decision is the same."""

    text: str
    same: bool = True


def explained(
    record: Record, rules: Rules, inventory: Inventory | None, waivers: Sequence[Waiver] | None, form: str
) -> str:
    """Who asked for what and what became of it, and the decision with why, made once more."""
    again = replay_record(record, rules, inventory, explain=True, waivers=waivers) if "inputs" in record else None
    decision = again.decision if again else None
    if form == "json":
        told = {name: value for name, value in record.items() if name not in ("inputs", "decision")}
        return json.dumps({**told, "decision": decision.to_json() if decision else record.get("decision")})
    lines = [_head(record)]
    if decision:
        lines.append(text(decision))
    elif again:
        lines.append(f"it can't be decided again: {again.why}")
    if record.get("redacted"):
        lines.append(f"hidden, and not in the log: {', '.join(_names(record))}")
    return "\n".join(lines)


def same_rules(record: Record, rules: Rules) -> bool:
    """Whether the rules are those of the record."""
    was: Any = record["decision"]
    return bool(was["digests"]["rules"] == rules.digest)


def compared(all_of_them: Iterator[ReplayResult | Diagnostic], form: str) -> Iterator[Told | Diagnostic]:
    """A line for each decision that is another now, then one on all; in JSON an object for each."""
    same = other = failed = 0
    for one in all_of_them:
        if isinstance(one, Diagnostic):
            yield one
        elif one.decision and not one.differs:
            same += 1
        else:
            other, failed = other + bool(one.decision), failed + (not one.decision)
            yield Told(_other_json(one) if form == "json" else _other(one), False)
    if form == "text":
        yield Told(f"{same} the same, {other} other{'' if other == 1 else 's'}, {failed} that can't be decided")


def _other(one: ReplayResult) -> str:
    record: Any = one.record
    if "decision" not in record:
        return _head(record)
    now = f"now {one.decision.outcome}" if one.decision else f"can't be decided again: {one.why}"
    hidden = f"; hidden, and not in the log: {', '.join(_names(record))}" if record.get("redacted") else ""
    was = record["decision"]["outcome"]
    lines = [f"{_head(record)}: was {was}, {now}{hidden}", *(f"  {change}" for change in one.changes)]
    if one.decision and not one.changes:
        lines.append(f"  other in {', '.join(one.differs)}")
    return "\n".join(map(printable, lines))


def _other_json(one: ReplayResult) -> str:
    was: Any = one.record.get("decision") or {}
    told: dict[str, object] = {"id": one.record["id"], "was": was.get("outcome")}
    told["now"] = one.decision.outcome if one.decision else None
    return json.dumps({**told, "why": one.why, "differs": one.differs, "changes": one.changes})


def _head(record: Record) -> str:
    who = f"{record['user']} of {record['project']}"
    what = f"{record['action']} of {record['stack_name']} by {who} at door {record['door']}"
    why = f": {record['reason']}" if record["reason"] and "decision" not in record else ""
    return printable(f"{record['time']} {str(record['id'])[:SHORT]} {what}: {record['verdict']}{why}")


def _names(record: Record) -> list[str]:
    names: Any = record["redacted"]
    return [str(name) for name in names]
