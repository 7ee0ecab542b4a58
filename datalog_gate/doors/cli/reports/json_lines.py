"""The format `json`: a line for each answer."""

from __future__ import annotations

import json

from datalog_gate.base.errors import DiagnosticsError
from datalog_gate.decision.decision import Decision
from datalog_gate.doors.cli.reports.entries import ReportEntry

DIAGNOSTICS = "datalog-gate/diagnostics/1"


def format_line(entry: ReportEntry, name: str) -> str:
    """Format an answer; the failure of an engine has no JSON."""
    answer, template = entry.answer, {"template": name} if name else {}
    if isinstance(answer, Decision):
        refusals = {"refusals": [refusal.to_json() for refusal in entry.refusals]}
        return f"{json.dumps(template | answer.to_json() | refusals, ensure_ascii=False)}\n"
    if isinstance(answer, DiagnosticsError):
        diagnostics = [diagnostic.to_json() for diagnostic in answer.diagnostics]
        return f"{json.dumps({**template, 'schema': DIAGNOSTICS, 'diagnostics': diagnostics})}\n"
    return ""
