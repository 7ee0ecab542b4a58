"""Comments in rules that silence a warning about the statement below them.

``// datalog-gate: ignore[cartesian] each office is compared with each rule``
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.language.ast import Ignore, Module

CODE = "bad-ignore"
_FORM = re.compile(r"ignore\s*\[\s*(?P<code>[a-z-]+)\s*\]\s*(?P<reason>.*)", re.DOTALL)


def check_ignores(modules: Iterable[Module]) -> Iterator[Diagnostic]:
    """Report comments of a wrong form, and without a reason."""
    for ignore in (ignore for module in modules for ignore in module.ignores):
        form = _FORM.fullmatch(ignore.text)
        if not form or not form["reason"].strip():
            problem = "has no reason" if form else "has the wrong form"
            advice = "write `// datalog-gate: ignore[code] reason` above a statement"
            yield Diagnostic(CODE, f"this comment {problem}", ignore.span, advice)


def silence(modules: Iterable[Module], diagnostics: Sequence[Diagnostic]) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """The diagnostics that stay, and the warnings that a comment silences."""
    ignores = [ignore for module in modules for ignore in module.ignores]
    if not ignores:
        return [*diagnostics], []
    silenced = [warning for warning in diagnostics if any(_covers(ignore, warning) for ignore in ignores)]
    return [diagnostic for diagnostic in diagnostics if diagnostic not in silenced], silenced


def find_unused(modules: Iterable[Module], silenced: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Warn about comments that silence none of the warnings."""
    for ignore in (ignore for module in modules for ignore in module.ignores):
        if not any(_covers(ignore, warning) for warning in silenced):
            message = f"there is no {_code(ignore)} to ignore in the statement below"
            yield Diagnostic(CODE, message, ignore.span, "remove the comment", "warning")


def _covers(ignore: Ignore, diagnostic: Diagnostic) -> bool:
    place, statement = diagnostic.span, ignore.statement
    return (
        diagnostic.severity == "warning"
        and diagnostic.code == _code(ignore)
        and place is not None
        and place.file == statement.file
        and statement.line <= place.line <= statement.end_line
    )


def _code(ignore: Ignore) -> str:
    form = _FORM.fullmatch(ignore.text)
    return form["code"] if form else ""
