"""The record of an answer (layer 6): in, what was asked, answered and judged; out, an object for the decision log.

It holds what gives the same decision again, without secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from datalog_gate.api import Rules
from datalog_gate.decision.decision import Decision
from datalog_gate.decision_point.log import SCHEMA
from datalog_gate.decision_point.operation import Answer, Asked
from datalog_gate.decision_point.redaction import redacted
from datalog_gate.decision_point.stack_definition import Definition
from datalog_gate.stack.model import Stack

NOT_ASKED = "no policy judges it"


@dataclass(frozen=True, slots=True)
class Judged:
    """What was decided on; `before` is the stack as it was, where the door says what that is."""

    rules: Rules
    definition: Definition
    stack: Stack
    before: tuple[Definition, Stack] | None
    decision: Decision
    inputs: Mapping[str, object]
    seconds: Mapping[str, float]
    ages: Mapping[str, float]


def record(asked: Asked, answer: Answer, judged: Judged | None, why: str, now: datetime) -> dict[str, object]:
    """The record of an answer; `why` it is none that policies gave."""
    told: dict[str, object] = {
        "schema": SCHEMA,
        "kind": "decision",
        "time": now.isoformat(),
        "id": answer.id,
        "verdict": answer.verdict,
        "reason": answer.reason or why,
        "door": asked.door,
        "action": asked.action,
        "stack_name": asked.stack_name,
        "stack_id": asked.stack_id,
        "project": asked.project,
        "user": (asked.credentials or {}).get("user_id"),
        "request_id": asked.request_id,
        "dry_run": asked.dry_run,
    }
    if judged is None and answer.id and why != NOT_ASKED:
        told["unjudged"] = answer.reason or why
    if judged:
        stacks = [judged.stack, *([judged.before[1]] if judged.before else [])]
        definition, names = redacted(judged.definition.to_json(), stacks)
        inputs = {**judged.inputs, "definition": definition}
        if judged.before:
            inputs["against"], _ = redacted(judged.before[0].to_json(), stacks)
        told |= {
            "decision": judged.decision.to_json(),
            "inputs": inputs,
            "redacted": names,
            "seconds": {name: round(value, 6) for name, value in judged.seconds.items()},
            "ages": {name: round(value) for name, value in judged.ages.items()},
        }
    return told
