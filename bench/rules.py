"""Compare parsing with Python's parser, and measure loading 300 policies.

python -m bench.rules [ROUNDS]
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
import tempfile
from pathlib import Path

from bench.run import run, table
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.files.rules import read_rules
from datalog_gate.language.formatter import format_text
from datalog_gate.language.parser import parse

ROOT = Path(__file__).parents[1]
STACK = ROOT / "fixtures" / "stacks" / "campus"
RULES = ROOT / "rules"
PACKS = {path.relative_to(RULES): path.read_text("utf-8") for path in sorted(RULES.rglob("*.dl"))}
FEW = ("net", "capacity/servers", "capacity/limits", "placement/zone", "security/flavor", "security/limits")
"""The policies that were written first, and the modules that they import."""
NAMES = re.compile(r'^(?:@(?:deny|warn|record)\("|import )', re.M)
"""The text before the name of a policy or module."""


def few_policies(folder: Path) -> Path:
    """A folder with the first policies alone."""
    for path in sorted(RULES.rglob("*.*")):
        name = path.relative_to(RULES)
        if str(name.with_suffix("")).startswith(FEW) and path.suffix in (".dl", ".yaml"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(path.read_bytes())
    return folder


def long_text() -> str:
    """Our rules repeated, in whole paragraphs: almost 10,000 lines."""
    whole = "".join(f"{text}\n" for text in PACKS.values())
    lines = (whole * (10_000 // whole.count("\n") + 1)).splitlines(keepends=True)[:10_000]
    return "".join(lines).rpartition("\n\n")[0] + "\n"


def long_python(size: int) -> str:
    """Our modules repeated, in whole functions, up to this many characters."""
    whole = "".join(path.read_text("utf-8") for path in sorted((ROOT / "datalog_gate").rglob("*.py")))
    whole = whole.replace("from __future__ import annotations\n", "")
    whole = (whole * (size // len(whole) + 1))[:size]
    return whole[: whole.rindex("\ndef ")]


def many_policies(count: int) -> list[RuleFile]:
    """Our packs repeated under other names until there are at least this many policies."""
    own = len(load(read_rules([RULES])).policies)
    return [_renamed(path, text, f"pack{at}") for at in range(-(-count // own)) for path, text in PACKS.items()]


def _renamed(path: Path, text: str, pack: str) -> RuleFile:
    """The rule file renamed for this pack, with its policies and imports."""
    text = NAMES.sub(lambda match: f"{match[0]}{pack}{'.' if match[0][0] == '@' else ':'}", text)
    return RuleFile(":".join((pack, *path.with_suffix("").parts)), f"{pack}/{path}", text)


def main(rounds: int) -> None:
    """Print the tables."""
    text = long_text()
    python = long_python(len(text))
    files = many_policies(300)
    policies = len(load(files).policies)
    changed = iter(range(10_000))

    def reload() -> None:
        first = files[0]
        load([RuleFile(first.module, first.file, f"{first.text}// {next(changed)}\n"), *files[1:]])

    table(f"{text.count(chr(10)):,} lines, {len(text):,} characters", rounds, {
        f"ast.parse, {len(python):,} characters": lambda: ast.parse(python),
        "parse": lambda: parse(text, "f.dl", "f"),
        "format_text": lambda: format_text(text),
    })  # fmt: skip
    lines = sum(file.text.count("\n") for file in files)
    table(f"{policies} policies in {len(files)} files, {lines:,} lines", rounds, {
        "parse each": lambda: [parse(file.text, file.file, file.module) for file in files],
        "load, one file changed": reload,
        "load again": lambda: load(files),
    })  # fmt: skip

    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            path = Path(folder) / file.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text)
            if path.stem == "limits":
                shutil.copy((RULES / path.parent.name / path.name).with_suffix(".yaml"), path.parent)
        print(f"\n| whole command, {policies} policies (best of {rounds}) | CPU s |\n|---|---|")
        command = [sys.executable, "-m", "datalog_gate.doors.cli.main", "check", "--rules", folder, str(STACK)]
        print(f"| check, 50 resources | {min(run(command)[0] for _ in range(rounds)):.2f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
