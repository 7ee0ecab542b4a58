"""The exceptions of the package.

A denial is a decision, never an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from datalog_gate.base.diagnostics import Diagnostic, Span, in_order, render


class GateError(Exception):
    """What every exception of this package is."""


class UsageError(GateError):
    """A call that makes no sense: exit code 64."""


class DiagnosticsError(GateError):
    """Something unreadable: all its diagnostics in order, and the texts that their excerpts come from."""

    def __init__(self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, str] | None = None) -> None:
        self.diagnostics = in_order(diagnostics)
        self.sources = dict(sources or {})
        super().__init__("\n".join(render(diagnostic, self.sources) for diagnostic in self.diagnostics))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle it by its diagnostics: other processes raise it too."""
        return type(self), (self.diagnostics, self.sources)


class RulesError(DiagnosticsError):
    """Rules that can't be loaded: exit code 2."""


class InputError(DiagnosticsError):
    """A template, environment, facts or test file that can't be read: exit code 3."""

    @classmethod
    def of(cls, message: str, code: str = "unreadable", suggestion: str | None = None) -> InputError:
        """The error for one problem that has no place."""
        return cls([Diagnostic(code, message, None, suggestion)])


class EngineError(GateError):
    """An engine that can't give an answer: it refuses the program, exceeded its time, or its worker died."""


class BudgetError(EngineError):
    """An evaluation that would take more facts, rounds or time than it may, most of it for the rule at `span`."""

    def __init__(self, message: str, span: Span | None = None) -> None:
        self.span = span
        super().__init__(message)
