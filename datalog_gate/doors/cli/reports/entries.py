"""The answers of a report, and the findings in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, get_args
from typing import Literal as OneOf

from datalog_gate.base.diagnostics import Diagnostic, Severity, Span, printable
from datalog_gate.base.errors import DiagnosticsError, GateError
from datalog_gate.base.records import dataclass, field, replace
from datalog_gate.decision.decision import Change, Decision, Violation
from datalog_gate.files.baseline import FindingKeys
from datalog_gate.files.ignores import Ignore

if TYPE_CHECKING:
    from datalog_gate.pages.decision_page import DecisionPage

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""From the most severe, in the order of policy levels."""
State = OneOf["holds", "waived", "ignored", "preexisting", "unknown", "broken"]
TOLERATED: tuple[State, ...] = ("waived", "ignored", "preexisting")
PREEXISTING = "preexisting"


@dataclass(frozen=True, slots=True)
class ReportEntry:
    """The answer for one template, or for templates judged together."""

    name: str
    answer: Decision | GateError
    templates: tuple[str, ...] = ()
    """The templates that were judged."""
    grant_requests: tuple[str, ...] = ()
    """Lines about what grants request from their services."""
    keys: FindingKeys = field(default_factory=dict)
    """The keys that identify its findings across runs."""
    ignores: tuple[Ignore, ...] = ()
    """The comments in its templates that ignore findings."""
    used: frozenset[Ignore] = frozenset()
    """The ignores that match a finding."""
    refusals: tuple[Diagnostic, ...] = ()
    """What Heat would refuse of its templates."""
    page: DecisionPage | None = None
    """The page of a decision, for the format `html`."""

    @property
    def mistakes(self) -> int:
        """The number of what Heat would refuse, without warnings."""
        return sum(refusal.severity == "error" for refusal in self.refusals)


@dataclass(frozen=True, slots=True)
class ReportedFinding:
    """A finding in a report: a violation, or a diagnostic."""

    rule: str
    """The id of a policy, or the code of a diagnostic."""
    severity: Severity
    state: State
    """Whether it is certain, waived, ignored in its template, preexisting, undetermined, or could not be evaluated."""
    message: str
    place: Span | None
    help: str = ""
    resource: str = ""
    """The path of the resource."""
    because: tuple[tuple[str, Span | None], ...] = ()
    """The unknown expressions that it depends on, with their places."""
    change: Change | None = None
    """Whether a change introduced it; None without an old stack."""
    template: str = ""
    """The judged template, if there are several."""
    key: str = ""
    """The key that identifies it across runs."""

    def __str__(self) -> str:
        words = {"waived": "waived", "ignored": "waived", "unknown": "undetermined", "broken": "error"}
        word = words.get(self.state, self.severity)
        text = self.message + (f" ({self.help})" if self.help else "")
        return printable(
            add_template(f"{format_place(self.place)}{word}[{self.rule}] {text}", self.place, self.template)
        )


def name_findings(entry: ReportEntry, named: bool) -> Iterator[ReportedFinding]:
    """The findings of an entry; if `named`, with its template."""
    for finding in list_findings(entry):
        yield replace(
            finding,
            template=entry.name if named else "",
            key=finding.key and f"{make_relative(entry.name)} {finding.key}",
        )


def list_findings(entry: ReportEntry) -> Iterator[ReportedFinding]:
    """The violations, undetermined and waived findings, and errors of an answer."""
    answer, keys = entry.answer, entry.keys
    for wrong in answer.diagnostics if isinstance(answer, DiagnosticsError) else entry.refusals:
        state: State = "broken" if wrong.severity == "error" else "holds"
        change: Change | None = "introduced" if isinstance(answer, Decision) and answer.compared else None
        yield ReportedFinding(
            wrong.code, wrong.severity, state, wrong.message, wrong.span, wrong.suggestion or "", change=change
        )
    if isinstance(answer, DiagnosticsError):
        return
    if isinstance(answer, GateError):
        yield ReportedFinding("engine", "error", "broken", str(answer), None)
        return
    for violation in answer.violations:
        state = "preexisting" if violation.tolerated else "holds"
        yield _build_finding(violation, keys, violation.severity, state, violation.hint)
    for violation in answer.undetermined:
        if violation.enforced and violation.on_unknown == "deny":
            yield _build_finding(violation, keys, "error", "holds", violation.hint)
        else:
            most = 2 if violation.on_unknown == "allow" else 1
            severity = SEVERITIES[max(SEVERITIES.index(violation.severity), most)]
            yield _build_finding(violation, keys, severity, "unknown", violation.hint)
    ignored = {ignore.waiver for ignore in entry.ignores}
    for violation in answer.waived:
        state = "ignored" if violation.waiver in ignored else "waived"
        yield _build_finding(violation, keys, violation.severity, state, f"waived by {violation.waiver}")
    for failure in answer.errors:
        yield ReportedFinding(
            failure.policy,
            "error" if failure.enforced else "warning",
            "broken",
            failure.message,
            failure.place,
            change="introduced" if answer.compared else None,  # SARIF: all results of a run have it, or none
        )


def _build_finding(
    violation: Violation,
    keys: FindingKeys,
    severity: Severity,
    state: State,
    help_: str,
) -> ReportedFinding:
    return ReportedFinding(
        rule=violation.policy,
        severity=severity,
        state=state,
        message=format_message(violation),
        place=violation.place,
        help=help_,
        resource=violation.resource.path if violation.resource else "",
        because=tuple((unknown.expression, unknown.place) for unknown in violation.unknowns),
        change=violation.change,
        key=keys.get((violation.policy, violation.row), ""),
    )


def format_message(violation: Violation) -> str:
    """Format the message of a violation, and whether it was there before: only what is tolerated is `preexisting`."""
    if violation.change != PREEXISTING:
        return violation.full_message
    return f"{violation.full_message} ({PREEXISTING if violation.tolerated else 'not new'})"


def add_template(line: str, place: Span | None, template: str) -> str:
    """A line on a finding that names the template, unless its place does."""
    before, after = find_template_parts(line, place, template)
    return f"{before}{line}{after}"


def find_template_parts(message: str, place: Span | None, template: str) -> tuple[str, str]:
    """What names the template before and after a line with this message; empty if its place or message does."""
    if not template or template in message.split() or (place and place.file in (template, f"{template}/template.yaml")):
        return "", ""
    return ("", f" (in {template})") if place else (f"{template}: ", "")


def format_place(place: Span | None) -> str:
    return f"{place}: " if place else ""


def make_relative(file: str) -> str:
    """The path from the working directory, if the file lies in it."""
    path = Path(os.path.normpath(file))
    here = Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()
