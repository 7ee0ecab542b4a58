"""The format `html`: one page with a part for each answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from datalog_gate.base.errors import GateError
from datalog_gate.doors.cli.reports.entries import ReportEntry

if TYPE_CHECKING:
    from datalog_gate.pages.decision_page import DecisionPage, FailedPage


def format_html(entries: Sequence[ReportEntry], _policies: object, _failing: object) -> str:
    """Format the page."""
    from datalog_gate.pages.decision_page import build_failed_page
    from datalog_gate.pages.rendering import render_decisions

    pages: list[DecisionPage | FailedPage] = []
    for entry in entries:
        if isinstance(entry.answer, GateError):
            pages.append(build_failed_page(entry.name, entry.answer))
        elif entry.page:
            pages.append(entry.page)
    return render_decisions(pages)
