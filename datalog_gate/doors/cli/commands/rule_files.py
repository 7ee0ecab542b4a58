"""The commands `fmt`, `lint`, `rules` and `docs`, over rule files."""

from __future__ import annotations

import argparse
from pathlib import Path

from datalog_gate import api
from datalog_gate.base.errors import UsageError
from datalog_gate.doors.cli.common import FINDINGS, OK, load_rules, replace_file, write_file
from datalog_gate.files.packs import copy_packs, find_packs
from datalog_gate.files.rules import default_rules
from datalog_gate.files.templates import read_catalogue


def fmt(options: argparse.Namespace) -> int:
    """Format rule files in place, or check them, and print those that differ. All files must be readable."""
    paths = options.path or ["rules"]
    if not options.path and not Path("rules").is_dir():
        raise UsageError("fmt: there is no folder rules here; name the rule files or folders")
    if options.from_congress:
        print("\n".join(api.convert_congress(*paths).values()), end="")
        return OK
    changed = api.format_rules(*paths, modern=options.modern)
    for file, text in changed.items():
        if not options.check:
            replace_file(Path(file), text)
        print(file)
    return FINDINGS if options.check and changed else OK


def lint(options: argparse.Namespace) -> int:
    """Print warnings about rules that are valid but probably wrong. Errors: RulesError with the warnings."""
    api.lint(*(options.path or options.rules or [default_rules()]), catalogue=read_catalogue(*options.catalogue))
    return OK


def rules(options: argparse.Namespace) -> int:
    """List the packs, or copy them."""
    if options.init:
        print(*copy_packs(default_rules(), options.folder, options.pack), sep="\n")
        return OK
    packs = find_packs(default_rules())
    print(*(f"{pack.name:12} {pack.version:8} {pack.policies:4}  {pack.summary}" for pack in packs), sep="\n")
    return OK


def docs(options: argparse.Namespace) -> int:
    """Print one document about the policies, or write a page for each into a folder."""
    rules, folder = load_rules(options), options.folder
    if folder is None:
        print(rules.document(), end="")
        return OK
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"can't write to {folder}: {error.strerror}") from None
    for name, text in rules.pages().items():
        write_file(folder / name, text)
    return OK
