"""The format `github`: workflow commands, which annotate lines."""

from __future__ import annotations

from collections.abc import Iterable

from datalog_gate.base.diagnostics import Diagnostic, printable
from datalog_gate.decision.decision import Decision
from datalog_gate.doors.cli.reports.entries import (
    TOLERATED,
    ReportedFinding,
    ReportEntry,
    add_template,
    make_relative,
    name_findings,
)
from datalog_gate.files.ignores import CODE as BAD_IGNORE


def format_annotations(entry: ReportEntry, name: str) -> str:
    """Format a command for each finding of an entry, and for comments in its templates that ignore nothing."""
    lines = [f"{_format_annotation(finding)}\n" for finding in name_findings(entry, bool(name))]
    warnings = entry.answer.near_misses if isinstance(entry.answer, Decision) else ()
    return "".join(lines) + format_warnings(warning for warning in warnings if warning.code == BAD_IGNORE)


def format_warnings(warnings: Iterable[Diagnostic]) -> str:
    """Format a command for each warning."""
    findings = (
        ReportedFinding(
            warning.code, warning.severity, "holds", warning.message, warning.span, warning.suggestion or ""
        )
        for warning in warnings
    )
    return "".join(f"{_format_annotation(finding)}\n" for finding in findings)


def _format_annotation(finding: ReportedFinding) -> str:
    """Format a finding as a workflow command of GitHub, which annotates the line."""
    properties = {"title": finding.rule}
    if finding.place and finding.place.line:
        place = {"file": make_relative(finding.place.file), "line": finding.place.line, "col": finding.place.column}
        properties = {key: str(value) for key, value in place.items()} | properties
    arguments = ",".join(f"{key}={_escape(value, ':,')}" for key, value in properties.items())
    command = "notice" if finding.severity == "note" or finding.state in TOLERATED else finding.severity
    message = finding.message + (f" ({finding.help})" if finding.help else "")
    return f"::{command} {arguments}::{_escape(add_template(message, finding.place, finding.template))}"


def _escape(value: str, more: str = "") -> str:
    """Escape a value as the workflow runner reads it back."""
    value = value.replace("%", "%25")
    for char in f"\r\n{more}":
        value = value.replace(char, f"%{ord(char):02X}")
    return printable(value)
