"""The commands `fmt`, `lint` and `check-rules`, which work on rule files."""

from __future__ import annotations

import argparse
from pathlib import Path

from datalog_gate import api
from datalog_gate.base.errors import UsageError
from datalog_gate.doors.cli.common import FINDINGS, OK, replace_file
from datalog_gate.files.rules import default_rules
from datalog_gate.files.templates import read_catalogue


def fmt(options: argparse.Namespace) -> int:
    """Format rule files in place, or check them, and print those that differ; all of them must be readable."""
    paths = options.path or ["rules"]
    if not options.path and not Path("rules").is_dir():
        raise UsageError("fmt: there is no folder rules here; name the rule files or folders")
    if options.from_congress:
        print("\n".join(api.convert_congress(*paths).values()), end="")
        return OK
    changed = api.format_rules(*paths)
    for file, text in changed.items():
        if not options.check:
            replace_file(Path(file), text)
        print(file)
    return FINDINGS if options.check and changed else OK


def lint(options: argparse.Namespace) -> int:
    """Print what is valid in rules, but probably a mistake. Errors: RulesError with what is found."""
    api.lint(*(options.path or [default_rules()]), catalogue=read_catalogue(*options.catalogue))
    return OK


def check_rules(options: argparse.Namespace) -> int:
    """Print the rules that an upgrade of Heat would break. Errors: RulesError with what is found."""
    before, after = (read_catalogue(*options.catalogue, upgrade=upgrade) for upgrade in (False, True))
    paths = options.rules or [default_rules()]
    api.check_rules(*paths, catalogue=after, before=before, congress=options.congress)
    return OK
