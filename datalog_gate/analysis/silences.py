"""Comments in rules that silence a warning about the statement below them.

``// datalog-gate: ignore[cartesian] each office is compared with each rule``
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.language.ast import Module, Silence

CODE = "bad-ignore"
_FORM = re.compile(r"ignore\s*\[\s*(?P<code>[a-z-]+)\s*\]\s*(?P<reason>.*)", re.DOTALL)


def check_silences(modules: Iterable[Module]) -> Iterator[Diagnostic]:
    """Report comments of a wrong form, and without a reason."""
    for comment in (comment for module in modules for comment in module.silences):
        form = _FORM.fullmatch(comment.text)
        if not form or not form["reason"].strip():
            problem = "has no reason" if form else "has the wrong form"
            advice = "write `// datalog-gate: ignore[code] reason` above a statement"
            yield Diagnostic(CODE, f"this comment {problem}", comment.span, advice)


def silence(modules: Iterable[Module], diagnostics: Sequence[Diagnostic]) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """The diagnostics that stay, and the warnings that a comment silences."""
    comments = [comment for module in modules for comment in module.silences]
    if not comments:
        return [*diagnostics], []
    silenced = [warning for warning in diagnostics if any(_covers(comment, warning) for comment in comments)]
    return [diagnostic for diagnostic in diagnostics if diagnostic not in silenced], silenced


def find_unused(modules: Iterable[Module], silenced: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Warn about comments that silence none of the warnings."""
    for comment in (comment for module in modules for comment in module.silences):
        if not any(_covers(comment, warning) for warning in silenced):
            message = f"there is no {_code(comment)} to ignore in the statement below"
            yield Diagnostic(CODE, message, comment.span, "remove the comment", "warning")


def _covers(comment: Silence, diagnostic: Diagnostic) -> bool:
    place, statement = diagnostic.span, comment.statement
    return (
        diagnostic.severity == "warning"
        and diagnostic.code == _code(comment)
        and place is not None
        and place.file == statement.file
        and statement.line <= place.line <= statement.end_line
    )


def _code(comment: Silence) -> str:
    form = _FORM.fullmatch(comment.text)
    return form["code"] if form else ""
