"""The entry point of the command line.

The result of a command goes to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from datalog_gate.base.errors import EngineError, InputError, RulesError, UsageError
from datalog_gate.doors.cli.common import INPUT, RULES, UNDECIDED, USAGE, print_note, write_file
from datalog_gate.doors.cli.option_parser import parse_options

BROKEN_PIPE = 141
"""The exit code of a shell for a closed pipe: a denial that nobody reads must not look like success."""
COMMANDS = {
    "approval": ("approval_requests", "run"),
    "check": ("check_stacks", "check"),
    "check-rules": ("rule_files", "check_rules"),
    "docs": ("docs", "docs"),
    "doctor": ("doctor", "doctor"),
    "explain": ("logged_decisions", "explain"),
    "facts": ("facts_and_queries", "facts"),
    "fmt": ("rule_files", "fmt"),
    "lint": ("rule_files", "lint"),
    "query": ("facts_and_queries", "query"),
    "replay": ("logged_decisions", "replay"),
    "rules": ("packs", "rules"),
    "services": ("services", "run"),
    "test": ("policy_tests", "test"),
    "waive": ("waive", "waive"),
    "waivers": ("waive", "check_waivers"),
}
"""Module and function of each command. A module is imported only when its command runs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = parse_options(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # JSON can hold half of a surrogate pair, which is not UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")
    module, function = COMMANDS[options.command]
    try:
        try:
            code: int = getattr(import_module(f"datalog_gate.doors.cli.commands.{module}"), function)(options)
            return code
        except (RulesError, InputError) as error:
            return _print_diagnostics(error, options)
    except UsageError as error:
        print_note(str(error))
        return USAGE
    except EngineError as error:
        print_note(str(error))
        return UNDECIDED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the flush at exit fails again
        return BROKEN_PIPE


def _print_diagnostics(error: RulesError | InputError, options: argparse.Namespace) -> int:
    """Print what is wrong: to stdout and the outputs in a format for programs, else to stderr with excerpts."""
    from datalog_gate.doors.cli.reports import ReportEntry, format_report

    entry = ReportEntry("rules" if isinstance(error, RulesError) else "input", error)
    if options.format in ("json", "junit", "sarif", "github"):
        print(format_report(options.format, [entry]), end="", flush=True)
    else:
        to_stdout = options.command == "lint" and isinstance(error, RulesError)
        print(error, file=sys.stdout if to_stdout else sys.stderr, flush=True)
    for form, path in options.output:
        write_file(path, format_report(form, [entry]))
    return RULES if isinstance(error, RulesError) else INPUT


if __name__ == "__main__":
    sys.exit(main())
