"""Decisions once more (layer 6): of the log's records, by the same rules or by others.

In: a decision log, rules. Out: what each decision is now, and where it differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datalog_gate.api import Rules
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import EngineError, InputError
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.decision import Decision
from datalog_gate.decision.denial_text import SHORT
from datalog_gate.decision.finding import Waiver
from datalog_gate.decision_point.log import Record, read_log
from datalog_gate.decision_point.stack_definition import Definition

INPUTS = ("id", "digests")
"""What of a decision says what it was made of, and not what was decided."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """A record with the decision that is made of it now, or why none is. `differs` says in which parts of its JSON they
    differ, and `changes` which findings are new (+), gone (-) or of another mode (~)."""

    record: Record
    decision: Decision | None
    why: str = ""
    differs: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


def replay(
    path: Path,
    rules: Rules,
    inventory: Inventory | None = None,
    mode: str = "",
    waivers: Sequence[Waiver] | None = None,
) -> Iterator[Replayed | Diagnostic]:
    """Every decision of the log once more, in order, and a diagnostic for each line that is none. With a `mode`, as in
    that mode, and what was not judged then too: that may stop in another one. Given waivers stand for those of the
    time. Errors: InputError if there is no log."""
    for record in read_log(path):
        if isinstance(record, Diagnostic):
            yield record
        elif "inputs" in record:
            yield replayed(record, rules, inventory, mode=mode, waivers=waivers)
        elif mode and record.get("unjudged"):
            yield Replayed(record, None, str(record["unjudged"]))


def find(path: Path, decision: str) -> Record:
    """The last record of the decision whose id begins so. Errors: InputError if there is none, or more than one id."""
    records = (one for one in read_log(path) if not isinstance(one, Diagnostic) and one["kind"] == "decision")
    found = {str(record["id"]): record for record in records if decision and str(record["id"]).startswith(decision)}
    if len(found) != 1:
        message = f"{path} holds {'several decisions' if found else 'no decision'} {decision}"
        known = f"one of {', '.join(sorted(found))}" if found else f"a reason ends with {SHORT} characters of the id"
        raise InputError([Diagnostic("unreadable", message, None, known)])
    [record] = found.values()
    return record


def replayed(
    record: Record,
    rules: Rules,
    inventory: Inventory | None = None,
    explain: bool = False,
    mode: str = "",
    waivers: Sequence[Waiver] | None = None,
) -> Replayed:
    """The decision of a record that has `inputs`, made now of the same, but for the `mode` and waivers if given. A
    record has the waivers that its findings met: all that matter, while the rules find the same."""
    was: Any = record["decision"]
    inputs: Any = record["inputs"]
    try:
        name, before = inputs["stack_name"], inputs.get("against")
        stack = Definition.from_json(inputs["definition"]).stack(name, rules.catalogue)
        older = Definition.from_json(before).stack(name, rules.catalogue, undeclared=True) if before else ()
        decision = rules.decide(
            stack,
            inputs["action"],
            against=older,
            caller=inputs["caller"],
            services=inputs["services"],
            inventory=inventory,
            waivers=[Waiver.from_json(one) for one in inputs.get("waivers", ())] if waivers is None else waivers,
            now=inputs["now"],
            mode=mode or inputs["mode"],
            modes=inputs["modes"],
            explain=explain,
        )
    except (InputError, EngineError) as error:
        return Replayed(record, None, str(error))
    now = decision.to_json()
    differs = [name for name in was if name not in INPUTS and was[name] != now[name]]
    changes = [f"{sign}{one}" for sign, one in _changes(was, now)]
    return Replayed(record, decision, "", tuple(differs), tuple(changes))


def _changes(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for kind, word in (("violations", ""), ("undetermined", "undetermined "), ("waived", "waived ")):
        before, after = (
            {f"{word}{one['policy']}: {one['message']}": one["mode"] for one in side[kind]} for side in (was, now)
        )
        yield from (("-", one) for one in before if one not in after)
        yield from (("+", one) for one in after if one not in before)
        both = [one for one in after if before.get(one, after[one]) != after[one]]
        yield from (("~", f"{one} ({before[one]}, now {after[one]})") for one in both)
