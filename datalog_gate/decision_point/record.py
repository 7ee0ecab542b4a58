"""The record of an answer in the decision log, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from datalog_gate.api import Rules
from datalog_gate.decision.decision import Decision
from datalog_gate.decision_point.log import SCHEMA
from datalog_gate.decision_point.operation import Answer, Operation
from datalog_gate.decision_point.redaction import redact_definition
from datalog_gate.decision_point.stack_definition import StackDefinition
from datalog_gate.stack.model import Stack

NOT_JUDGED = "no policy judges it"


@dataclass(frozen=True, slots=True)
class DecisionTrace:
    """A decision with everything that it was made from."""

    rules: Rules
    definition: StackDefinition
    stack: Stack
    before: tuple[StackDefinition, Stack] | None
    """The stack as it was before a change; None where the door does not know it."""
    decision: Decision
    inputs: Mapping[str, object]
    """The other inputs of the decision, as JSON data."""
    seconds: Mapping[str, float]
    """How long each phase took."""
    ages: Mapping[str, float]
    """How old the inventory is, in seconds."""


def build_record(
    operation: Operation, answer: Answer, trace: DecisionTrace | None, why: str, now: datetime
) -> dict[str, object]:
    """Build the record of an answer. `why` says why the answer is not that of the policies."""
    record: dict[str, object] = {
        "schema": SCHEMA,
        "kind": "decision",
        "time": now.isoformat(),
        "id": answer.id,
        "verdict": answer.verdict,
        "reason": answer.reason or why,
        "door": operation.door,
        "action": operation.action,
        "stack_name": operation.stack_name,
        "stack_id": operation.stack_id,
        "project": operation.project,
        "user": (operation.credentials or {}).get("user_id"),
        "request_id": operation.request_id,
        "dry_run": operation.dry_run,
    }
    if trace is None:
        if answer.id and why != NOT_JUDGED:
            record["unjudged"] = answer.reason or why
        return record
    stacks = [trace.stack, *([trace.before[1]] if trace.before else [])]
    definition, names = redact_definition(trace.definition.to_json(), stacks)
    inputs = {**trace.inputs, "definition": definition}
    if trace.before:
        inputs["against"], _ = redact_definition(trace.before[0].to_json(), stacks)
    return record | {
        "decision": trace.decision.to_json(),
        "inputs": inputs,
        "redacted": names,
        "seconds": {phase: round(seconds, 6) for phase, seconds in trace.seconds.items()},
        "ages": {name: round(age) for name, age in trace.ages.items()},
    }
