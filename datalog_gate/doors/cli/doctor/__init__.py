"""The checks of the command `doctor`, and the result of one.

A check yields results and never stops the others: an unreadable file is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, get_args

from datalog_gate.base.diagnostics import Span, format_count, printable
from datalog_gate.base.errors import DiagnosticsError, UsageError
from datalog_gate.base.records import dataclass

Level = Literal["finding", "note", "ok"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A finding, a note, or a confirmation.

    A finding is a door that is missing or judges nothing, or hosts that judge by different rules. A note is what an
    operator may have meant.
    """

    level: Level
    about: str
    """The checked part: door, engine, rules, ..."""
    message: str
    place: Span | None = None
    fix: str = ""
    """What to write or do."""

    def __str__(self) -> str:
        place = f"{self.place.file}:{self.place.line}: " if self.place else ""
        text = printable(f"{place}{self.level}[{self.about}] {self.message}")
        return text + (f"\n  fix   {printable(self.fix)}" if self.fix else "")


def run_check(about: str, check: Callable[..., Iterable[CheckResult]], *arguments: Any) -> Iterator[CheckResult]:
    """Yield the results of a check, or a finding if it fails, so that the other checks continue."""
    try:
        yield from check(*arguments)
    except UsageError:  # the command can't continue without a missing library
        raise
    except DiagnosticsError as error:
        yield CheckResult("finding", about, format_first(error), None, error.diagnostics[0].suggestion or "correct it")
    except OSError as error:
        message = f"{error.filename or 'something'} can't be read: {error.strerror or error}"
        yield CheckResult("finding", about, message, None, "run the doctor as the user of Heat's services")
    except Exception as error:  # noqa: BLE001 - the doctor meets whatever is broken, and goes on
        message = f"this could not be checked: {type(error).__name__}: {' '.join(str(error).split())}"
        yield CheckResult("finding", about, message, None, "correct what it names, or report it as a bug of the doctor")


def format_first(error: DiagnosticsError) -> str:
    """Format the first problem with its place, and the number of others."""
    first, *rest = error.diagnostics
    place = f"{first.span}: " if first.span else ""
    return f"{place}{first.message}" + (f", and {len(rest)} more" if rest else "")


def format_results(results: Sequence[CheckResult]) -> str:
    """Format the results, each on its line, and their numbers."""
    findings, notes, in_order = (sum(result.level == level for result in results) for level in get_args(Level))
    counts = [format_count(findings, "finding"), format_count(notes, "note")]
    return "\n".join([*map(str, results), ", ".join([*counts, f"{in_order} in order"])]) + "\n"
