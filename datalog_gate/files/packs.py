"""Packs of rules: their list, and copies of them to be changed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from datalog_gate.analysis.policy import Policy
from datalog_gate.base.diagnostics import closest, suggest_name
from datalog_gate.base.errors import UsageError
from datalog_gate.base.records import dataclass
from datalog_gate.decision.policy_set import load
from datalog_gate.files.rules import GROUP, PACK_FILE, find_rules, read_pack_file, read_rules
from datalog_gate.files.templates import read_text

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


def find_packs(folder: Path) -> list[Pack]:
    """Find the packs in the folder, then the installed ones, by name. Errors: RulesError, InputError."""
    from importlib.metadata import entry_points

    policies = load(read_rules([folder])).policies
    packs = [_read_pack(name, path, policies) for name, path in _pack_folders(folder).items()]
    for name in sorted({entry_point.name for entry_point in entry_points(group=GROUP)}):
        _, path = find_rules(Path(name))
        packs.append(_read_pack(name, path, load(read_rules([Path(name)])).policies))
    return packs


def _pack_folders(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in sorted(folder.iterdir()) if any(path.rglob("*.dl"))}


def _read_pack(name: str, folder: Path, policies: Sequence[Policy]) -> Pack:
    fields = read_pack_file(folder / PACK_FILE)
    number = sum(Path(policy.span.file).is_relative_to(folder) for policy in policies)
    return Pack(name, fields["version"], number, fields["summary"])


def copy_packs(folder: Path, target: Path, names: Sequence[str]) -> list[Path]:
    """Copy the named packs of the folder, or all, into a new or empty folder, with the files that their tests read.
    Return the copies. Errors: UsageError."""
    folders = _pack_folders(folder)
    for name in names:
        if name not in folders:
            similar = suggest_name(closest(name, folders), f"there are {', '.join(folders)}")
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
