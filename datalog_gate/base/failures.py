"""The log of exceptions that nobody expects.

What such an exception says may hold what a template hides or a service's password: only the messages of our own
exceptions, which are masked, and of the operating system are logged.
"""

from __future__ import annotations

import sys
import traceback
from logging import Logger

from datalog_gate.base.errors import GateError


def log_failure(log: Logger, message: str, *arguments: object) -> None:
    """Log the exception that is being handled as an error: its frames and type, and those of its causes."""
    log.error(f"{message}\n%s", *arguments, format_failure(sys.exception()))


def format_failure(error: BaseException | None) -> str:
    """The frames, the type and where it is harmless the message of an exception, after those of its causes."""
    lines: list[str] = []
    while error:
        lines[:0] = [*traceback.format_tb(error.__traceback__), _describe(error)]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "".join(lines).rstrip()


def _describe(error: BaseException) -> str:
    message = ""
    if isinstance(error, GateError):
        message = str(error)
    elif isinstance(error, OSError) and error.strerror:
        message = error.strerror
    return f"{type(error).__qualname__}{': ' if message else ''}{message}\n"
