"""The exceptions of the package.

A denial is a decision, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from datalog_gate.base.diagnostics import Diagnostic, Span, in_order, render
from datalog_gate.base.secrecy import mask_urls


class GateError(Exception):
    """The base class of all exceptions of this package."""


class UsageError(GateError):
    """A call with wrong arguments: exit code 64."""


class DiagnosticsError(GateError):
    """Input that can't be read: its diagnostics in order, and the texts for their excerpts."""

    def __init__(self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, str] | None = None) -> None:
        self.diagnostics = in_order(diagnostics)
        self.sources = dict(sources or {})
        super().__init__("\n".join(render(diagnostic, self.sources) for diagnostic in self.diagnostics))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by diagnostics, since worker processes raise it too."""
        return type(self), (self.diagnostics, self.sources)


class RulesError(DiagnosticsError):
    """Rules that can't be loaded: exit code 2."""


class InputError(DiagnosticsError):
    """A template, environment, facts or test file that can't be read: exit code 3.

    `stack` is what was read of a template all the same, or None."""

    stack: object = None

    @classmethod
    def of(cls, message: str, code: str = "unreadable", suggestion: str | None = None) -> InputError:
        """The error for one problem without a place. Passwords of URLs are masked."""
        return cls([Diagnostic(code, mask_urls(message), None, suggestion)])


class EngineError(GateError):
    """An engine has no answer: it refuses the program, exceeded its time, or its worker died."""


class BudgetError(EngineError):
    """An evaluation that exceeds its budget. The rule at `span` used most of it."""

    def __init__(self, message: str, span: Span | None = None) -> None:
        self.span = span
        super().__init__(message)
