"""Tables as CSV, for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence


def format_table(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> str:
    """Format rows below a header."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(columns)
    table.writerows(map(_escape, row) for row in rows)
    return text.getvalue()


def _escape(cell: str | None) -> str | None:
    """The text of a cell, escaped so that a spreadsheet never reads it as a formula."""
    return f"'{cell}" if cell and cell[0] in "=+-@\t\r" else cell
