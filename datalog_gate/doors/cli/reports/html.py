"""The format `html`: one page with a part for each answer."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from datalog_gate.base.errors import GateError, UsageError
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


def require_pages() -> None:
    """Check that pages of HTML can be written. Errors: UsageError without the extra `pages`."""
    if find_spec("jinja2") is None:
        raise UsageError("the format html needs Jinja2: pip install 'datalog-gate[pages]'")
