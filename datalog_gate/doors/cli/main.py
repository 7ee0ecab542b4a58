"""The entry point of the command line.

The result of a command goes to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from datalog_gate.base.errors import EngineError, InputError, RulesError, UsageError
from datalog_gate.base.gc import paused
from datalog_gate.base.secrecy import mask_urls
from datalog_gate.doors.cli.common import INPUT, RULES, UNDECIDED, USAGE, print_note, write_file
from datalog_gate.doors.cli.option_parser import parse_options

BROKEN_PIPE = 141
"""A shell's exit code for a closed pipe: a denial that nobody reads must not look like success."""

INTERRUPTED = 130
"""A shell's exit code for Ctrl-C."""

SERVERS = ("editor_tools", "http_server")
"""The modules of commands that run for days, for which the collector of cycles stays enabled."""

CLEANING = {"coverage", "duckdb", "sqlalchemy"}
"""The modules that write files as Python exits."""

atexit.register(gc.freeze)  # at exit Python would search for cycles in everything it frees


def run() -> NoReturn:
    """Run the command of this process and exit, without freeing each object: a thirtieth of the time of a check."""
    codes: list[int] = []
    atexit.register(_exit_at_once, codes)  # it is called after what the command registers
    codes.append(main())
    sys.exit(codes[0])


def _exit_at_once(codes: Sequence[int]) -> None:
    """Exit with the code of the command, if it returned one and nothing else is left to do."""
    if codes and CLEANING.isdisjoint(sys.modules):
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            return  # Python reports it, and exits with 120
        os._exit(codes[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = None
    if isinstance(sys.stdout, io.TextIOWrapper):  # JSON can hold half of a surrogate pair, which is not UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            with paused():
                try:
                    options = parse_options(arguments)
                except SystemExit:  # `--help` was printed, or what is wrong with the options
                    sys.stdout.flush()
                    raise
                module = import_module(f"datalog_gate.doors.cli.commands.{options.home}")  # only this command
                if arguments is None and options.home not in SERVERS:  # most objects live until the command ends
                    gc.set_threshold(1_000_000)
            code: int = getattr(module, options.command.replace("-", "_"))(options)
            sys.stdout.flush()
            return code
        except (RulesError, InputError) as error:
            return _print_diagnostics(error, options)
        except BrokenPipeError:
            raise
        except OSError as error:
            from datalog_gate.files.templates import unreadable

            _leave_out_unwritten()
            failed = InputError.of(f"reading or writing failed: {error.strerror or error}")
            return _print_diagnostics(unreadable(error.filename, error) if error.filename else failed, options)
    except (UsageError, EngineError) as error:
        print_note(mask_urls(str(error)))
        return USAGE if isinstance(error, UsageError) else UNDECIDED
    except BrokenPipeError:
        _leave_out_unwritten()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        _leave_out_unwritten()
        print_note("interrupted")
        return INTERRUPTED


def _leave_out_unwritten() -> None:
    """Discard what stdout does not accept: the flush at exit would fail again, and Python would exit with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_diagnostics(error: RulesError | InputError, options: argparse.Namespace | None) -> int:
    """Print diagnostics: to stdout and the outputs in formats for programs, else to stderr with excerpts. A page says
    what is wrong with a stack or its rules, so `replay` has none for a log that it can't read."""
    from datalog_gate.doors.cli.reports.entries import ReportEntry
    from datalog_gate.doors.cli.reports.formats import DOCUMENTS, FOR_PROGRAMS, format_report

    if options is None:
        print(error, file=sys.stderr)
        return INPUT

    entry = ReportEntry("rules" if isinstance(error, RulesError) else "input", error)
    if options.format in {**FOR_PROGRAMS, **DOCUMENTS} and (options.format, options.command) != ("html", "replay"):
        print(format_report(options.format, [entry]), end="", flush=True)
    else:
        to_stdout = options.command == "lint" and isinstance(error, RulesError)
        print(error, file=sys.stdout if to_stdout else sys.stderr, flush=True)
    for form, path in options.output:
        write_file(path, format_report(form, [entry]))
    return RULES if isinstance(error, RulesError) else INPUT


if __name__ == "__main__":
    run()
