"""A decision as text for people (layer 6), used by the command line and, bounded, by doors with little room."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from datalog_gate.analysis.policy import CHANGING
from datalog_gate.analysis.violation_key import compares
from datalog_gate.base.diagnostics import Diagnostic, Span, excerpt
from datalog_gate.decision.decision import Decision
from datalog_gate.decision.denial_text import SHORT, printable
from datalog_gate.decision.finding import Violation, Waiver

PREEXISTING = "preexisting"
DIAGNOSTICS = "datalog-gate/diagnostics/1"


def text(decision: Decision, asks: Sequence[str] = ()) -> str:
    """All findings with excerpts, what grants ask for, those that unlock nothing, and the counts."""
    lines: list[str] = []
    for one in decision.violations:
        lines += _finding(one, _word(one), decision)
    for one in decision.undetermined:
        lines += _finding(one, "undetermined", decision)
    for one in decision.waived:
        lines += _finding(one, "waived", decision)
    for error in decision.errors:
        lines.append(f"{_at(error.place)}error[{error.policy}] {error.message}")
    for policy, rows in decision.clean().items():
        lines.append(f"clean[{policy}] {_looked_at(rows)}")
    lines += asks
    for grant in decision.grants:
        if not grant.unlocked:
            lines.append(f"grant {grant.grant.path} unlocks nothing of {grant.service}: {grant.reason}")
    return "\n".join(map(printable, [*lines, summary(decision)]))


def compact(decision: Decision) -> str:
    """One line for each finding, and the counts."""
    lines = [_head(one, _word(one)) for one in decision.violations]
    lines += [_head(one, "undetermined") for one in decision.undetermined]
    lines += [_head(one, "waived") for one in decision.waived]
    lines += [f"{_at(one.place)}error[{one.policy}] {one.message}" for one in decision.errors]
    return "\n".join(map(printable, [*lines, summary(decision)]))


def summary(decision: Decision) -> str:
    """The counts in one line."""
    levels = Counter(_word(one) for one in decision.violations)
    counts = [f"{levels['deny']} denied", f"{levels['warn']} warning{'' if levels['warn'] == 1 else 's'}"]
    if decision.compared:
        counts.insert(1, f"{levels[PREEXISTING]} {PREEXISTING}")
    if decision.waived:
        met = dict.fromkeys(one.waiver for one in decision.waived if one.waiver)
        counts.append(
            f"{len(decision.waived)} waived ({'; '.join(f'{one.id}, {one.left(decision.now)}' for one in met)})"
        )
    counts.append(f"{len(decision.undetermined)} undetermined")
    if decision.errors:
        counts.append(f"{len(decision.errors)} in error")
    policies, facts = decision.counts["policies"], decision.counts["facts"]
    size = f"{policies} polic{'y' if policies == 1 else 'ies'}, {facts} fact{'' if facts == 1 else 's'}"
    return f"{', '.join(counts)}; {size}; {decision.outcome}; decision {decision.id[:SHORT]}"


def notes(waivers: Sequence[Waiver], decisions: Sequence[Decision]) -> Iterator[str]:
    """What to tell after a run of its waivers: which it met that end soon, and which met nothing."""
    met = {waiver: decision.now for decision in decisions for waiver in decision.waivers}
    yield from (f"waiver {one.id} ends soon: {one.left(now)}" for one, now in met.items() if one.ends_soon(now))
    if rest := [one.id for one in waivers if one not in met]:
        more = ", ..." if rest[10:] else ""
        yield f"{len(rest)} of {len(waivers)} waivers met nothing here: {', '.join(rest[:10])}{more}"


def uncompared(inputs: Collection[str], decisions: Sequence[Decision]) -> Iterator[str]:
    """What to tell of rules that read what an update changes, where nothing says what was."""
    read = sorted(one for one in inputs if compares([one]))
    if read and any(one.action in CHANGING and not one.compared for one in decisions):
        yield f"the rules read {', '.join(read)}, and nothing says what the stack was: give --against OLD"


def diagnostics_json(diagnostics: tuple[Diagnostic, ...]) -> str:
    """Errors in rules or input as JSON, in one line."""
    return json.dumps({"schema": DIAGNOSTICS, "diagnostics": [one.to_json() for one in diagnostics]})


def _finding(one: Violation, word: str, decision: Decision) -> Iterator[str]:
    mode = f" ({one.mode} only)" if one.mode != "enforce" else ""
    yield f"{_head(one, word)}{mode}"
    if one.place:
        yield from excerpt(one.place, decision.sources)
    for unknown in one.because:
        yield f"  unknown  {unknown.expression}{f'   {unknown.place}' if unknown.place else ''}"
    explained = decision.explanation.of(one) if decision.explanation else None
    if explained:
        from datalog_gate.explain.explanation import told

        yield from told(explained.lines)
    if one.waiver:
        yield f"  waiver  {one.waiver}"
    elif one.hint:
        yield f"  hint  {one.hint}"
    if explained and explained.fix:
        yield f"  fix   {explained.fix.text}" + (f"   {explained.fix.where}" if explained.fix.where else "")


def _head(one: Violation, word: str) -> str:
    return f"{_at(one.place)}{word}[{one.policy}] {one.said if word == PREEXISTING else said(one)}"


def _word(one: Violation) -> str:
    """What a certain finding is: what its policy says of it, unless it was there before."""
    return PREEXISTING if one.tolerated else one.level


def said(one: Violation) -> str:
    """The message, on what the finding hangs, and that it was there before."""
    return f"{one.said} ({PREEXISTING})" if one.change == PREEXISTING else one.said


def _looked_at(rows: Mapping[str, int]) -> str:
    """How many rows a policy had to look at."""
    if not any(rows.values()):
        return f"looked at nothing: there is no row of {', '.join(rows) or 'anything'}"
    counts = ", ".join(f"{name} {count}" for name, count in rows.items() if count)
    total = sum(rows.values())
    return f"looked at {total} row{'' if total == 1 else 's'}: {counts}"


def _at(place: Span | None) -> str:
    return f"{place}: " if place else ""
