"""Exit codes, rules and output files, which all commands share."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Never

from datalog_gate.base.errors import UsageError

if TYPE_CHECKING:
    from datalog_gate.api import Rules
    from datalog_gate.decision.query import QueryAnswer
    from datalog_gate.schema.catalogue import Catalogue

OK, DENIED, RULES, INPUT, UNDECIDED, USAGE = 0, 1, 2, 3, 4, 64
FINDINGS = 1
"""The exit code of `fmt --check`, `replay`, `services`, `waivers` and `doctor` if they find a problem."""


def load_rules(options: argparse.Namespace) -> Rules:
    """Load the rules that the options name, or the default ones. Errors: RulesError, InputError."""
    from datalog_gate import api
    from datalog_gate.files.rules import default_rules

    catalogue = load_catalogue(options)
    cache = None
    if getattr(options, "cache", False):
        from datalog_gate.files.program_cache import find_cache_folder

        cache = find_cache_folder()
    rules = options.rules or [default_rules()]
    return api.load_rules(*rules, catalogue=catalogue, congress=options.congress, cache=cache)


def load_catalogue(options: argparse.Namespace) -> Catalogue:
    """Load the catalogue that the options name, with the defaults of their heat.conf. Errors: InputError."""
    from datalog_gate.files.templates import read_catalogue

    if not (heat_conf := getattr(options, "heat_conf", None)):
        return read_catalogue(*options.catalogue)
    from datalog_gate.decision_point.config_options import read_heat_defaults
    from datalog_gate.doors.cli.heat_conf import read_conf

    return read_catalogue(*options.catalogue, heat_defaults=read_heat_defaults(read_conf(Path(heat_conf))))


def find_log(options: argparse.Namespace) -> Path:
    """The decision log that the options or the environment name. Errors: UsageError if neither does."""
    path = options.log or os.environ.get("DATALOG_GATE_LOG")
    if not path:
        raise UsageError(f"{options.command}: name the decision log with --log, or in DATALOG_GATE_LOG")
    return Path(path)


def print_answer(answer: QueryAnswer, form: str) -> int:
    """Print the rows of a query, and errors to stderr; return the exit code."""
    import json

    from datalog_gate.base.diagnostics import render
    from datalog_gate.base.values import show

    for warning in answer.warnings:
        print(render(warning, answer.sources), file=sys.stderr)
    if form == "json":
        print(json.dumps(answer.to_json(), ensure_ascii=False))
    else:
        for row in answer.rows:
            print("\t".join(show(value) for value in row))
    for error in answer.errors:
        print(f"{error.span}: error[evaluation] {error.message}", file=sys.stderr)
    return UNDECIDED if answer.errors else OK


def interrupt_at_sigterm() -> None:
    """Let SIGTERM end a command that repeats, as Ctrl-C does."""
    import signal

    def interrupt(*_: object) -> Never:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def print_note(message: str) -> None:
    print(f"datalog-gate: {message}", file=sys.stderr)


def write_file(path: Path, text: str) -> None:
    """Write a text to a file. Errors: UsageError."""
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from None


def replace_file(path: Path, text: str) -> None:
    """Write a file atomically. An old file's mode is kept, and links are followed. Errors: UsageError."""
    from shutil import copymode
    from tempfile import NamedTemporaryFile

    target = Path(os.path.realpath(path))
    try:
        target.touch()
        with NamedTemporaryFile("w", encoding="utf-8", newline="", dir=target.parent, delete=False) as file:
            try:
                file.write(text)
                file.close()
                copymode(target, file.name)
                os.replace(file.name, target)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror}") from None
