"""The format `html`: one page with a part for each answer."""

from __future__ import annotations

from collections.abc import Sequence

from datalog_gate.doors.cli.reports.entries import ReportEntry


def format_html(entries: Sequence[ReportEntry], _policies: object, _failing: object) -> str:
    """Format the page."""
    from datalog_gate.pages.rendering import FailedPage, render_decisions

    return render_decisions([entry.page or FailedPage(entry.name, str(entry.answer)) for entry in entries])
