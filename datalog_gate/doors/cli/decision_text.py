"""Decisions as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from datalog_gate.analysis.policy import CHANGING
from datalog_gate.analysis.violation_key import compares_states
from datalog_gate.api import ExplainedDecision
from datalog_gate.base.diagnostics import Span, excerpt, printable
from datalog_gate.decision.decision import SHORT, Decision, Violation, Waiver
from datalog_gate.schema.declaration import RelationRef

if TYPE_CHECKING:
    from datalog_gate.explain.explanation import Explanation

PREEXISTING = "preexisting"


def format_decision(decision: Decision, grant_requests: Sequence[str] = ()) -> str:
    """Format all findings with excerpts, the requests of grants, grants that unlock nothing, and the counts."""
    lines: list[str] = []
    explanation = decision.explanation if isinstance(decision, ExplainedDecision) else None
    for violation, word in _findings(decision):
        lines += _format_violation(violation, word, decision.sources, explanation)
    lines += _format_errors(decision)
    if explanation:
        lines += [f"clean[{policy}] {_format_examined(rows)}" for policy, rows in explanation.clean().items()]
    lines += grant_requests
    for grant in decision.grants:
        if not grant.unlocked:
            lines.append(f"grant {grant.grant.path} unlocks nothing of {grant.service}: {grant.reason}")
    return "\n".join(map(printable, [*lines, _format_counts(decision)]))


def format_compact(decision: Decision) -> str:
    """Format one line for each finding, and the counts."""
    lines = [_head(violation, word) for violation, word in _findings(decision)]
    return "\n".join(map(printable, [*lines, *_format_errors(decision), _format_counts(decision)]))


def _findings(decision: Decision) -> Iterator[tuple[Violation, str]]:
    """All findings of a decision, each with the word that it begins with."""
    yield from ((violation, _word(violation)) for violation in decision.violations)
    yield from ((violation, "undetermined") for violation in decision.undetermined)
    yield from ((violation, "waived") for violation in decision.waived)


def _format_errors(decision: Decision) -> list[str]:
    return [f"{_at(error.place)}error[{error.policy}] {error.message}" for error in decision.errors]


def _format_counts(decision: Decision) -> str:
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


def format_waiver_notes(waivers: Sequence[Waiver], decisions: Sequence[Decision]) -> Iterator[str]:
    """Format notes on the waivers of a run: which of those used end soon, and which were unused."""
    used = {waiver: decision.now for decision in decisions for waiver in decision.waivers}
    for waiver, now in used.items():
        if waiver.ends_soon(now):
            yield f"waiver {waiver.id} ends soon: {waiver.left(now)}"
    if unused := [waiver.id for waiver in waivers if waiver not in used]:
        more = ", ..." if unused[10:] else ""
        yield f"{len(unused)} of {len(waivers)} waivers met nothing here: {', '.join(unused[:10])}{more}"


def format_comparison_notes(inputs: Collection[RelationRef], decisions: Sequence[Decision]) -> Iterator[str]:
    """Format a note if rules read what an update changes, and the old stack is not given."""
    read = sorted(str(relation) for relation in inputs if compares_states([relation]))
    if read and any(decision.action in CHANGING and not decision.compared for decision in decisions):
        yield f"the rules read {', '.join(read)}, and nothing says what the stack was: give --against OLD"


def _format_violation(
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
        from datalog_gate.explain.explanation import format_lines

        yield from format_lines(explained.lines)
    if violation.waiver:
        yield f"  waiver  {violation.waiver}"
    elif violation.hint:
        yield f"  hint  {violation.hint}"
    if explained and explained.fix:
        yield f"  fix   {explained.fix.text}" + (f"   {explained.fix.where}" if explained.fix.where else "")


def _head(violation: Violation, word: str) -> str:
    message = violation.full_message if word == PREEXISTING else format_message(violation)
    return f"{_at(violation.place)}{word}[{violation.policy}] {message}"


def _word(violation: Violation) -> str:
    """The level of a violation, or `preexisting`."""
    return PREEXISTING if violation.tolerated else violation.level


def format_message(violation: Violation) -> str:
    """Format the message of a violation, and whether it was there before."""
    return f"{violation.full_message} ({PREEXISTING})" if violation.change == PREEXISTING else violation.full_message


def _format_examined(rows: Mapping[str, int]) -> str:
    """Format how many rows a policy examined."""
    if not any(rows.values()):
        return f"looked at nothing: there is no row of {', '.join(rows) or 'anything'}"
    counts = ", ".join(f"{name} {count}" for name, count in rows.items() if count)
    total = sum(rows.values())
    return f"looked at {total} row{'' if total == 1 else 's'}: {counts}"


def _at(place: Span | None) -> str:
    return f"{place}: " if place else ""
