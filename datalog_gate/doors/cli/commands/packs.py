"""The packs of rules that there are, and copies of them to change (layer 6).

In: a folder of packs, and what is installed. Out: a line about each; or a folder with copies.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from datalog_gate.api import Rules, load_rules
from datalog_gate.base.diagnostics import Diagnostic, did_you_mean
from datalog_gate.base.errors import InputError, UsageError
from datalog_gate.files.rules import ABOUT, GROUP, find_rules
from datalog_gate.files.templates import read_text
from datalog_gate.template.document import read_document

SCHEMA = "datalog-gate/rules/1"
SAYS = ("version", "summary")
MAY_SAY = ("inventory",)


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack, with how many policies it holds."""

    name: str
    version: str
    policies: int
    summary: str
    folder: str

    def to_json(self) -> dict[str, object]:
        """As JSON data."""
        return asdict(self)


def packs(folder: Path) -> list[Pack]:
    """Those in the folder, and those installed, by name. Errors: RulesError, InputError."""
    from importlib.metadata import entry_points

    rules = load_rules(folder)
    found = [_pack(path.name, path, rules) for path in sorted(folder.iterdir()) if any(path.rglob("*.dl"))]
    for name in sorted({entry_point.name for entry_point in entry_points(group=GROUP)}):
        _, place = find_rules(Path(name))
        found.append(_pack(name, place, load_rules(name)))
    return found


def listed(packs: Sequence[Pack], form: str) -> str:
    """A line for each pack, or all as JSON."""
    if form == "json":
        return json.dumps({"schema": SCHEMA, "packs": [pack.to_json() for pack in packs]})
    return "\n".join(f"{pack.name:12} {pack.version:8} {pack.policies:4}  {pack.summary}" for pack in packs)


def copy_packs(folder: Path, to: Path, names: Sequence[str]) -> list[Path]:
    """Copy packs of the folder, all if none is named, into one that is not there yet, or empty. Gives the copies.
    Errors: UsageError."""
    there = {path.name: path for path in sorted(folder.iterdir()) if any(path.rglob("*.dl"))}
    for name in names:
        if name not in there:
            near = did_you_mean(name, there, f"there are {', '.join(there)}")
            raise UsageError(f"there is no pack {name}: {near}")
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UsageError(f"{to} is there already, and nothing of it is overwritten: name a new folder")
    try:
        return [Path(shutil.copytree(there[name], to / name)) for name in names or there]
    except OSError as error:
        raise UsageError(f"{to} can't be written: {error}") from None


def does_without(folder: Path) -> bool:
    """Whether the pack of that folder says that its rules are worth having without an inventory. Errors: InputError."""
    return _about(folder / ABOUT).get("inventory") == "optional"


def _pack(name: str, folder: Path, rules: Rules) -> Pack:
    about = _about(folder / ABOUT)
    policies = [policy for policy in rules.policies if Path(policy.span.file).is_relative_to(folder)]
    return Pack(name, about["version"], len(policies), about["summary"], str(folder))


def _about(file: Path) -> dict[str, str]:
    """What a pack says of itself; of one that says nothing neither is known. Errors: InputError."""
    if not file.exists():
        return dict.fromkeys(SAYS, "")
    text = read_text(file)
    document = read_document(text, str(file))
    data = document.data if isinstance(document.data, dict) else {}
    if set(data) - {*MAY_SAY} != set(SAYS) or not all(isinstance(one, str) for one in data.values()):
        what = f"{ABOUT} has {' and '.join(SAYS)}, each a text"
        raise InputError(
            [Diagnostic("bad-pack", what, document.place(()), 'write `version: "1.0"`')], {str(file): text}
        )
    return {one: str(text) for one, text in data.items()}
