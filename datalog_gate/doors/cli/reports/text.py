"""The formats for people, `text` and `compact`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from datalog_gate.analysis.policy import CHANGING
from datalog_gate.api import ExplainedDecision
from datalog_gate.base.diagnostics import Span, excerpt, format_count, printable, split_numbers
from datalog_gate.decision.decision import SHORT, Decision, Violation, Waiver
from datalog_gate.doors.cli.colours import CYAN, GREEN, WORDS, Paint, leave_plain
from datalog_gate.doors.cli.reports.entries import (
    PREEXISTING,
    ReportEntry,
    add_template,
    find_template_parts,
    format_message,
    format_place,
)

MOST_ALIKE = 3
"""The maximum number of findings of one policy at one place that are shown separately, and of names of the others."""
SERIOUSNESS = ("deny", "warn", "undetermined", "record", PREEXISTING, "waived")
"""The first words of findings in the order in which they are shown."""
Detail = Literal["new", "findings", "all"]
"""What is shown: findings that were not there before, and nothing else; all findings; also the clean policies."""
MANY = 20
"""The number of findings from which the text ends with counts by policy."""


def format_decision(
    decision: Decision,
    grant_requests: Sequence[str] = (),
    name: str = "",
    detail: Detail = "findings",
    paint: Paint = leave_plain,
    mistakes: int = 0,
) -> str:
    """Format findings with excerpts, the requests of grants, grants that unlock nothing, and the counts.

    Many findings of a policy at one place, such as of members of a group, are one with a count. With several templates,
    `name` is that of this one. `mistakes` is the number of what Heat would refuse.
    """
    lines: list[str] = []
    explanation = decision.explanation if isinstance(decision, ExplainedDecision) else None
    alike: dict[object, list[tuple[Violation, str]]] = {}
    for at, (violation, word) in enumerate(_list_shown(decision, detail)):
        resource = violation.resource
        if violation.place is None or resource is None:
            alike[at] = [(violation, word)]
            continue
        others = tuple(value for value in violation.row if value != resource)
        said = violation.hint, violation.waiver, violation.change, violation.because, violation.depends
        alike.setdefault((violation.policy, word, violation.place, others, said), []).append((violation, word))
    for findings in alike.values():
        shown = findings if len(findings) <= MOST_ALIKE else findings[:1]
        for violation, word in shown:
            head = _format_head(violation, word, name, paint)
            lines.append(head if violation.mode == "enforce" else f"{head} ({violation.mode} only)")
            if violation.place:
                lines += excerpt(violation.place, decision.sources, lambda text: paint(text, GREEN))
            lines += map(printable, _format_details(violation, decision))
        if rest := [violation.resource for violation, _ in findings[len(shown) :]]:
            paths = list(dict.fromkeys(resource.path for resource in rest if resource))
            more = ", ..." if paths[MOST_ALIKE:] else ""
            lines.append(printable(f"  and {len(rest)} more here: {', '.join(paths[:MOST_ALIKE])}{more}"))
    lines += _format_errors(decision, name, paint)
    if detail == "new":
        return "\n".join(lines)
    clean = explanation.clean() if explanation else {}
    if detail == "all":
        for policy, rows in clean.items():
            lines.append(_format_line(None, "clean", policy, _format_examined(rows), "", paint))
    elif clean:
        count = format_count(len(clean), "policy", "policies")
        lines.append(f"{paint('clean', CYAN)}: {count} found nothing; --explain=all lists them")
    lines += map(printable, grant_requests)
    for grant in decision.grants:
        if not grant.unlocked:
            lines.append(printable(f"grant {grant.grant.path} does not unlock {grant.service}: {grant.reason}"))
    by_policy = Counter(violation.policy for violation, _ in _worded(decision))
    if by_policy.total() > MANY:
        counts = ", ".join(f"{policy} {count}" for policy, count in by_policy.most_common())
        lines.append(printable(f"by policy: {counts}"))
    return "\n".join([*lines, printable(add_template(_format_counts(decision, mistakes), None, name))])


def format_compact(
    decision: Decision, _grant_requests: object, name: str, detail: Detail, paint: Paint, mistakes: int
) -> str:
    """Format one line for each finding, and the counts; each names the template of that name."""
    lines = [_format_head(violation, word, name, paint) for violation, word in _list_shown(decision, detail)]
    counts = [] if detail == "new" else [printable(add_template(_format_counts(decision, mistakes), None, name))]
    return "\n".join([*lines, *_format_errors(decision, name, paint), *counts])


def format_total(entries: Sequence[ReportEntry]) -> str:
    """Format the counts of all entries together."""
    decisions = [entry.answer for entry in entries if isinstance(entry.answer, Decision)]
    outcomes = Counter(decision.outcome for decision in decisions)
    parts = [f"{count} {outcome}" for outcome, count in sorted(outcomes.items())]
    if len(decisions) < len(entries):
        parts.append(f"{len(entries) - len(decisions)} without a decision")
    levels = Counter(_find_word(violation) for decision in decisions for violation in decision.violations)
    open_findings = sum(len(decision.undetermined) for decision in decisions)
    counts = f"{levels['deny']} denied, {format_count(levels['warn'], 'warning')}, {open_findings} undetermined"
    if mistakes := sum(entry.mistakes for entry in entries):
        counts = f"{format_count(mistakes, 'mistake')}, {counts}"
    return f"total of {len(entries)}: {counts}; {', '.join(parts)}"


def format_preexisting(entries: Sequence[ReportEntry]) -> str:
    """Format the number of findings that were there before; empty if there is none."""
    decisions = [entry.answer for entry in entries if isinstance(entry.answer, Decision)]
    count = sum(violation.tolerated for decision in decisions for violation, _ in _worded(decision))
    return f"{format_count(count, 'finding')} {PREEXISTING}: not shown" if count else ""


def _list_shown(decision: Decision, detail: Detail) -> list[tuple[Violation, str]]:
    return [(violation, word) for violation, word in _worded(decision) if detail != "new" or not violation.tolerated]


def _worded(decision: Decision) -> list[tuple[Violation, str]]:
    """All findings of a decision, each with its first word, the most serious first, then by place."""
    worded = [(violation, _find_word(violation)) for violation in decision.violations]
    worded += ((violation, "undetermined") for violation in decision.undetermined)
    worded += ((violation, "waived") for violation in decision.waived)
    return sorted(worded, key=_rank)


def _rank(worded: tuple[Violation, str]) -> tuple[object, ...]:
    violation, word = worded
    path = violation.resource.path if violation.resource else ""
    return SERIOUSNESS.index(word), violation.place or (), violation.policy, split_numbers(path)


def _format_errors(decision: Decision, name: str, paint: Paint) -> list[str]:
    return [_format_line(error.place, "error", error.policy, error.message, name, paint) for error in decision.errors]


def _format_counts(decision: Decision, mistakes: int) -> str:
    levels = Counter(_find_word(violation) for violation in decision.violations)
    counts = [f"{levels['deny']} denied", format_count(levels["warn"], "warning")]
    if decision.compared:
        counts.insert(1, f"{levels[PREEXISTING]} {PREEXISTING}")
    if mistakes:
        counts.insert(0, format_count(mistakes, "mistake"))
    if decision.waived:
        met = dict.fromkeys(violation.waiver for violation in decision.waived if violation.waiver)
        waivers = "; ".join(f"{waiver.id}, {waiver.left(decision.now)}" for waiver in met)
        counts.append(f"{len(decision.waived)} waived ({waivers})")
    counts.append(f"{len(decision.undetermined)} undetermined")
    if decision.errors:
        counts.append(f"{len(decision.errors)} in error")
    policies, facts = decision.counts["policies"], decision.counts["facts"]
    size = f"{format_count(policies, 'policy', 'policies')}, {format_count(facts, 'fact')}"
    if skipped := len(decision.skipped):
        size += f"; {format_count(skipped, 'policy judges', 'policies judge')} the whole cloud: skipped"
    return f"{', '.join(counts)}; {size}; {decision.outcome}; decision {decision.id[:SHORT]}"


def format_waiver_notes(waivers: Sequence[Waiver], decisions: Sequence[Decision]) -> Iterator[str]:
    """Format notes on waivers that end soon, and on those that no finding used."""
    used = {waiver: decision.now for decision in decisions for waiver in decision.waivers}
    for waiver, now in used.items():
        if waiver.ends_soon(now):
            yield f"waiver {waiver.id} ends soon: {waiver.left(now)}"
    if unused := [waiver.id for waiver in waivers if waiver not in used]:
        more = ", ..." if unused[10:] else ""
        yield f"{len(unused)} of {len(waivers)} waivers matched nothing here: {', '.join(unused[:10])}{more}"


def format_comparison_notes(read: Sequence[str], decisions: Sequence[Decision]) -> Iterator[str]:
    """Format a note if rules read these changes of an update, but no old stack is given."""
    if read and any(decision.action in CHANGING and not decision.compared for decision in decisions):
        yield f"the rules read {', '.join(read)}, but the state of the stack before is not given: use --against OLD"


def _format_details(violation: Violation, decision: Decision) -> Iterator[str]:
    """The lines below the excerpt: what it depends on, why it holds, and what to change."""
    for unknown in violation.unknowns:
        yield f"  unknown  {unknown.expression}{f'   {unknown.place}' if unknown.place else ''}"
    explained = decision.explanation.of(violation) if isinstance(decision, ExplainedDecision) else None
    if explained:
        yield from explained.format_why()
    if violation.waiver:
        yield f"  waiver  {violation.waiver}"
    elif violation.hint:
        yield f"  hint  {violation.hint}"
    if explained and explained.fix:
        yield f"  fix   {explained.fix.text}" + (f"   {explained.fix.where}" if explained.fix.where else "")


def _format_head(violation: Violation, word: str, name: str, paint: Paint) -> str:
    message = violation.full_message if word == PREEXISTING else format_message(violation)
    return _format_line(violation.place, word, violation.policy, message, name, paint)


def _format_line(place: Span | None, word: str, rule: str, message: str, name: str, paint: Paint) -> str:
    """The line about a finding, with its first word in a colour."""
    before, after = find_template_parts(message, place, name)
    beginning, rest = printable(f"{before}{format_place(place)}"), printable(f"[{rule}] {message}{after}")
    return f"{beginning}{paint(word, WORDS.get(word, CYAN))}{rest}"


def _find_word(violation: Violation) -> str:
    """The level of a violation, or `preexisting`."""
    return PREEXISTING if violation.tolerated else violation.level


def _format_examined(rows: Mapping[str, int]) -> str:
    """Format how many rows a policy examined."""
    if not any(rows.values()):
        return f"looked at nothing: there is no row of {', '.join(rows) or 'anything'}"
    counts = ", ".join(f"{name} {count}" for name, count in rows.items() if count)
    total = sum(rows.values())
    empty = ", ".join(name for name, count in rows.items() if not count)
    return f"looked at {format_count(total, 'row')}: {counts}" + (f"; no row of {empty}" if empty else "")
