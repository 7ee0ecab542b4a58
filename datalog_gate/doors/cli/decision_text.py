"""A decision as text for people (layer 6), used by the command line and, bounded, by doors with little room."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from datalog_gate.analysis.policy import CHANGING
from datalog_gate.analysis.violation_key import compares_states
from datalog_gate.api import ExplainedDecision
from datalog_gate.base.diagnostics import Diagnostic, Span, excerpt, printable
from datalog_gate.decision.decision import SHORT, Decision, Violation, Waiver
from datalog_gate.schema.declaration import RelationRef

if TYPE_CHECKING:
    from datalog_gate.explain.explanation import Explanation

PREEXISTING = "preexisting"
DIAGNOSTICS = "datalog-gate/diagnostics/1"


def text(decision: Decision, asks: Sequence[str] = ()) -> str:
    """All findings with excerpts, what grants ask for, those that unlock nothing, and the counts."""
    lines: list[str] = []
    explanation = decision.explanation if isinstance(decision, ExplainedDecision) else None
    for violation in decision.violations:
        lines += _finding(violation, _word(violation), decision.sources, explanation)
    for violation in decision.undetermined:
        lines += _finding(violation, "undetermined", decision.sources, explanation)
    for violation in decision.waived:
        lines += _finding(violation, "waived", decision.sources, explanation)
    for error in decision.errors:
        lines.append(f"{_at(error.place)}error[{error.policy}] {error.message}")
    if explanation:
        lines += [f"clean[{policy}] {_looked_at(rows)}" for policy, rows in explanation.clean().items()]
    lines += asks
    for grant in decision.grants:
        if not grant.unlocked:
            lines.append(f"grant {grant.grant.path} unlocks nothing of {grant.service}: {grant.reason}")
    return "\n".join(map(printable, [*lines, summary(decision)]))


def compact(decision: Decision) -> str:
    """One line for each finding, and the counts."""
    lines = [_head(violation, _word(violation)) for violation in decision.violations]
    lines += [_head(violation, "undetermined") for violation in decision.undetermined]
    lines += [_head(violation, "waived") for violation in decision.waived]
    lines += [f"{_at(error.place)}error[{error.policy}] {error.message}" for error in decision.errors]
    return "\n".join(map(printable, [*lines, summary(decision)]))


def summary(decision: Decision) -> str:
    """The counts in one line."""
    levels = Counter(_word(violation) for violation in decision.violations)
    counts = [f"{levels['deny']} denied", f"{levels['warn']} warning{'' if levels['warn'] == 1 else 's'}"]
    if decision.compared:
        counts.insert(1, f"{levels[PREEXISTING]} {PREEXISTING}")
    if decision.waived:
        met = dict.fromkeys(violation.waiver for violation in decision.waived if violation.waiver)
        waivers = "; ".join(f"{waiver.id}, {waiver.left(decision.now)}" for waiver in met)
        counts.append(f"{len(decision.waived)} waived ({waivers})")
    counts.append(f"{len(decision.undetermined)} undetermined")
    if decision.errors:
        counts.append(f"{len(decision.errors)} in error")
    policies, facts = decision.counts["policies"], decision.counts["facts"]
    size = f"{policies} polic{'y' if policies == 1 else 'ies'}, {facts} fact{'' if facts == 1 else 's'}"
    return f"{', '.join(counts)}; {size}; {decision.outcome}; decision {decision.id[:SHORT]}"


def notes(waivers: Sequence[Waiver], decisions: Sequence[Decision]) -> Iterator[str]:
    """What to tell after a run of its waivers: which it met that end soon, and which met nothing."""
    met = {waiver: decision.now for decision in decisions for waiver in decision.waivers}
    yield from (
        f"waiver {waiver.id} ends soon: {waiver.left(now)}" for waiver, now in met.items() if waiver.ends_soon(now)
    )
    if rest := [waiver.id for waiver in waivers if waiver not in met]:
        more = ", ..." if rest[10:] else ""
        yield f"{len(rest)} of {len(waivers)} waivers met nothing here: {', '.join(rest[:10])}{more}"


def uncompared(inputs: Collection[RelationRef], decisions: Sequence[Decision]) -> Iterator[str]:
    """What to tell of rules that read what an update changes, where nothing says what was."""
    read = sorted(str(relation) for relation in inputs if compares_states([relation]))
    if read and any(decision.action in CHANGING and not decision.compared for decision in decisions):
        yield f"the rules read {', '.join(read)}, and nothing says what the stack was: give --against OLD"


def diagnostics_json(diagnostics: tuple[Diagnostic, ...]) -> str:
    """Errors in rules or input as JSON, in one line."""
    return json.dumps({"schema": DIAGNOSTICS, "diagnostics": [diagnostic.to_json() for diagnostic in diagnostics]})


def _finding(
    violation: Violation, word: str, sources: Mapping[str, str], explanation: Explanation | None
) -> Iterator[str]:
    mode = f" ({violation.mode} only)" if violation.mode != "enforce" else ""
    yield f"{_head(violation, word)}{mode}"
    if violation.place:
        yield from excerpt(violation.place, sources)
    for unknown in violation.because:
        yield f"  unknown  {unknown.expression}{f'   {unknown.place}' if unknown.place else ''}"
    explained = explanation.of(violation) if explanation else None
    if explained:
        from datalog_gate.explain.explanation import told

        yield from told(explained.lines)
    if violation.waiver:
        yield f"  waiver  {violation.waiver}"
    elif violation.hint:
        yield f"  hint  {violation.hint}"
    if explained and explained.fix:
        yield f"  fix   {explained.fix.text}" + (f"   {explained.fix.where}" if explained.fix.where else "")


def _head(violation: Violation, word: str) -> str:
    message = violation.full_message if word == PREEXISTING else said(violation)
    return f"{_at(violation.place)}{word}[{violation.policy}] {message}"


def _word(violation: Violation) -> str:
    """What a certain finding is: what its policy says of it, unless it was there before."""
    return PREEXISTING if violation.tolerated else violation.level


def said(violation: Violation) -> str:
    """The message, on what the finding hangs, and that it was there before."""
    return f"{violation.full_message} ({PREEXISTING})" if violation.change == PREEXISTING else violation.full_message


def _looked_at(rows: Mapping[str, int]) -> str:
    """How many rows a policy had to look at."""
    if not any(rows.values()):
        return f"looked at nothing: there is no row of {', '.join(rows) or 'anything'}"
    counts = ", ".join(f"{name} {count}" for name, count in rows.items() if count)
    total = sum(rows.values())
    return f"looked at {total} row{'' if total == 1 else 's'}: {counts}"


def _at(place: Span | None) -> str:
    return f"{place}: " if place else ""
