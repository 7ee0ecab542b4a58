"""All formats of reports: those for people and programs, and documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from datalog_gate.analysis.policy import Policy
from datalog_gate.base.diagnostics import Severity
from datalog_gate.decision.decision import Decision
from datalog_gate.doors.cli.colours import Paint, leave_plain
from datalog_gate.doors.cli.reports.entries import SEVERITIES, ReportEntry
from datalog_gate.doors.cli.reports.github import format_annotations
from datalog_gate.doors.cli.reports.html import format_html
from datalog_gate.doors.cli.reports.json_lines import format_line
from datalog_gate.doors.cli.reports.junit import format_junit
from datalog_gate.doors.cli.reports.sarif import format_sarif
from datalog_gate.doors.cli.reports.text import Detail, format_compact, format_decision, format_total

FOR_PEOPLE: dict[str, Callable[[Decision, Sequence[str], str, Detail, Paint, int], str]] = {
    "text": format_decision,
    "compact": format_compact,
}
FOR_PROGRAMS = {"json": format_line, "github": format_annotations}
DOCUMENTS = {
    "junit": format_junit,
    "sarif": format_sarif,
    "html": format_html,
}
"""The formats with all answers in one document. In other formats each answer is printed by itself."""


def format_report(
    form: str,
    entries: Sequence[ReportEntry],
    policies: Sequence[Policy] = (),
    failing: Sequence[Severity] = SEVERITIES[:1],
) -> str:
    """Format entries as a document. `policies` are those that judged, `failing` the levels that fail a test."""
    if form in DOCUMENTS:
        return DOCUMENTS[form](entries, policies, failing)
    several = len(entries) > 1
    total = f"{format_total(entries)}\n" if several and form in FOR_PEOPLE else ""
    return "".join(format_entry(form, entry, several) for entry in entries) + total


def format_entry(
    form: str, entry: ReportEntry, named: bool, detail: Detail = "findings", paint: Paint = leave_plain
) -> str:
    """Format one entry in a format where each is printed by itself. If `named`, each line names its template."""
    name = entry.name if named else ""
    if form in FOR_PROGRAMS:
        return FOR_PROGRAMS[form](entry, name)
    if not isinstance(entry.answer, Decision):
        return f"{entry.answer}\n"
    text = FOR_PEOPLE[form](entry.answer, entry.grant_requests, name, detail, paint, entry.mistakes)
    return f"{text}\n" if text else ""
