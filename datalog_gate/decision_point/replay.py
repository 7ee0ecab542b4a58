"""The replay of logged decisions, by the same rules or others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datalog_gate.api import Rules
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import EngineError, InputError
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.decision import SHORT, Decision, Waiver
from datalog_gate.decision_point.log import Record, read_log
from datalog_gate.decision_point.stack_definition import StackDefinition

IDENTITY = ("id", "digests")
"""The fields of a decision that identify its inputs, and are not compared."""
FINDINGS = (("violations", ""), ("undetermined", "undetermined "), ("waived", "waived "))


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A record with the decision that the rules make of it now."""

    record: Record
    decision: Decision | None
    why: str = ""
    """Why there is no decision."""
    differs: tuple[str, ...] = ()
    """The fields of the decision's JSON that differ."""
    changes: tuple[str, ...] = ()
    """The findings that are new (+), gone (-) or of another mode (~)."""


def replay_log(
    path: Path,
    rules: Rules,
    inventory: Inventory | None = None,
    mode: str = "",
    waivers: Sequence[Waiver] | None = None,
) -> Iterator[ReplayResult | Diagnostic]:
    """Replay every decision of the log in order; yield a diagnostic for each line that is no record.

    A `mode` replaces that of the records; then what was not judged is yielded too, since another mode may stop it.
    `waivers` replace those of the records. Errors: InputError if there is no log.
    """
    for record in read_log(path):
        if isinstance(record, Diagnostic):
            yield record
        elif "inputs" in record:
            yield replay_record(record, rules, inventory, mode=mode, waivers=waivers)
        elif mode and record.get("unjudged"):
            yield ReplayResult(record, None, str(record["unjudged"]))


def find_record(path: Path, decision: str) -> Record:
    """Find the last record of the decision whose id begins so. Errors: InputError unless there is exactly one id."""
    matches: dict[str, Record] = {}
    for record in read_log(path):
        if isinstance(record, Diagnostic) or record["kind"] != "decision":
            continue
        if decision and str(record.get("id", "")).startswith(decision):
            matches[str(record["id"])] = record
    if len(matches) != 1:
        message = f"{path} holds {'several decisions' if matches else 'no decision'} {decision}"
        help_ = (
            f"one of {', '.join(sorted(matches))}" if matches else f"a reason ends with {SHORT} characters of the id"
        )
        raise InputError.of(message, suggestion=help_)
    [record] = matches.values()
    return record


def replay_record(
    record: Record,
    rules: Rules,
    inventory: Inventory | None = None,
    explain: bool = False,
    mode: str = "",
    waivers: Sequence[Waiver] | None = None,
) -> ReplayResult:
    """Replay a record that has `inputs`, with another mode or other waivers if they are given.

    A record holds the waivers that its findings met, which are all that matter while the rules find the same.
    """
    before: Any = record["decision"]
    inputs: Any = record["inputs"]
    try:
        name, against = inputs["stack_name"], inputs.get("against")
        stack = StackDefinition.from_json(inputs["definition"]).stack(name, rules.catalogue)
        old = StackDefinition.from_json(against).stack(name, rules.catalogue, undeclared=True) if against else ()
        decision = rules.decide(
            stack,
            inputs["action"],
            against=old,
            caller=inputs["caller"],
            services=inputs["services"],
            inventory=inventory,
            waivers=[Waiver.from_json(data) for data in inputs.get("waivers", ())] if waivers is None else waivers,
            now=inputs["now"],
            mode=mode or inputs["mode"],
            modes=inputs["modes"],
            explain=explain,
        )
    except (InputError, EngineError) as error:
        return ReplayResult(record, None, str(error))
    after = decision.to_json()
    differs = [name for name in before if name not in IDENTITY and before[name] != after[name]]
    return ReplayResult(record, decision, "", tuple(differs), tuple(_changes(before, after)))


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for kind, label in FINDINGS:
        old, new = (
            {f"{label}{finding['policy']}: {finding['message']}": finding["mode"] for finding in decision[kind]}
            for decision in (before, after)
        )
        yield from (f"-{text}" for text in old if text not in new)
        yield from (f"+{text}" for text in new if text not in old)
        yield from (f"~{text} ({old[text]}, now {mode})" for text, mode in new.items() if old.get(text, mode) != mode)
