"""The commands `fmt`, `lint` and `rules`, over rule files."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from datalog_gate import api
from datalog_gate.base.diagnostics import did_you_mean
from datalog_gate.base.errors import UsageError
from datalog_gate.base.records import dataclass
from datalog_gate.doors.cli.common import FINDINGS, OK, replace_file
from datalog_gate.files.pack_file import read_pack_file
from datalog_gate.files.rules import GROUP, PACK_FILE, default_rules, find_rules
from datalog_gate.files.templates import read_catalogue, read_text

SCHEMA = "datalog-gate/rules/1"
FIXTURES = "fixtures"
"""The folder in a copied pack for files that its tests read."""
OUTSIDE = re.compile(r"(?:\.\./)+[\w./-]+")
"""A path in a test file that leads out of its folder."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack of rules, with its number of policies."""

    name: str
    version: str
    policies: int
    summary: str
    folder: str


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
    if options.format == "json":
        print(json.dumps({"schema": SCHEMA, "packs": [asdict(pack) for pack in packs]}))
    else:
        print(*(f"{pack.name:12} {pack.version:8} {pack.policies:4}  {pack.summary}" for pack in packs), sep="\n")
    return OK


def find_packs(folder: Path) -> list[Pack]:
    """Find the packs in the folder, then the installed ones, by name. Errors: RulesError, InputError."""
    from importlib.metadata import entry_points

    rules = api.load_rules(folder)
    packs = [_read_pack(name, path, rules) for name, path in _pack_folders(folder).items()]
    for name in sorted({entry_point.name for entry_point in entry_points(group=GROUP)}):
        _, path = find_rules(Path(name))
        packs.append(_read_pack(name, path, api.load_rules(name)))
    return packs


def _pack_folders(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in sorted(folder.iterdir()) if any(path.rglob("*.dl"))}


def _read_pack(name: str, folder: Path, rules: api.Rules) -> Pack:
    fields = read_pack_file(folder / PACK_FILE)
    policies = [policy for policy in rules.policies if Path(policy.span.file).is_relative_to(folder)]
    return Pack(name, fields["version"], len(policies), fields["summary"], str(folder))


def copy_packs(folder: Path, target: Path, names: Sequence[str]) -> list[Path]:
    """Copy the named packs of the folder, or all, into a new or empty folder, with the files that their tests read.
    Return the copies. Errors: UsageError."""
    folders = _pack_folders(folder)
    for name in names:
        if name not in folders:
            similar = did_you_mean(name, folders, f"there are {', '.join(folders)}")
            raise UsageError(f"there is no pack {name}: {similar}")
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise UsageError(f"{target} exists already and is not overwritten: give a new folder")
        return [_copy_pack(folders[name], target / name) for name in names or folders]
    except (OSError, ValueError) as error:
        raise UsageError(f"{target} can't be written: {error}") from None


def _copy_pack(pack: Path, target: Path) -> Path:
    """Copy a pack. Files outside of it that its tests name are copied to its `FIXTURES`, without rules and tests."""
    shutil.copytree(pack, target)
    around = pack.resolve().parent.parent
    for tests in sorted(target.rglob("test.yaml")):
        home = pack / tests.relative_to(target).parent
        text = read_text(tests)
        for name in sorted(set(OUTSIDE.findall(text)), key=len, reverse=True):
            source = (home / name).resolve()
            if not source.exists() or source.is_relative_to(pack.resolve()) or not source.is_relative_to(around):
                continue
            inner = source.relative_to(around)
            copy = target / FIXTURES / (inner.relative_to(FIXTURES) if inner.is_relative_to(FIXTURES) else inner)
            folders = (source, copy) if source.is_dir() else (source.parent, copy.parent)
            shutil.copytree(*folders, ignore=shutil.ignore_patterns("*.dl", "test.yaml"), dirs_exist_ok=True)
            text = text.replace(name, os.path.relpath(copy, tests.parent))
        tests.write_text(text, "utf-8")
    return target
