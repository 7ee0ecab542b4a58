"""Comments of rule files that say something to the gate."""

from __future__ import annotations

from collections.abc import Sequence

from datalog_gate.base.diagnostics import Span
from datalog_gate.language import ast
from datalog_gate.language.lexer import Source

MARK = "datalog-gate:"


def find_silences(source: Source, statements: Sequence[ast.Statement]) -> tuple[ast.Silence, ...]:
    """The comments that ignore something in the statement below them."""
    silences: list[ast.Silence] = []
    for comment in source.comments:
        text = comment.text.strip("/#* \n")
        if text.startswith(MARK):
            span = source.span(comment.start, comment.end)
            below = next((place for place in map(_whole_span, statements) if place.line > span.end_line), span)
            silences.append(ast.Silence(text.removeprefix(MARK).strip(), below, span=span))
    return tuple(silences)


def _whole_span(statement: ast.Statement) -> Span:
    """The place of a statement with its annotation."""
    annotation = statement.annotation if isinstance(statement, ast.Rule) else None
    start, end = annotation.span if annotation else statement.span, statement.span
    return Span(start.file, start.line, start.column, end.end_line, end.end_column)
