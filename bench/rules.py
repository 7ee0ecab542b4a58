"""What rules cost: parsing beside Python's own parser, and loading 300 policies; in one run, as tables.

python -m bench.rules [ROUNDS]
"""

from __future__ import annotations

import ast
import re
import sys
import tempfile
from pathlib import Path

from bench.run import run, table
from datalog_gate.gate.policyset import RuleFile, load
from datalog_gate.language.formatter import format_text
from datalog_gate.language.parser import parse

ROOT = Path(__file__).parents[1]
STACK = ROOT / "fixtures" / "stacks" / "campus"
PACKS = {path.relative_to(ROOT): path.read_text("utf-8") for path in sorted((ROOT / "rules").rglob("*.dl"))}
FEW = ("net", "capacity/servers", "capacity/limits", "placement/zone", "security/flavor", "security/limits")
"""The first policies that were written, and what they read."""
LEVELS = re.compile(r'^@(?:deny|warn|record)\("', re.M)


def few_policies(folder: Path) -> Path:
    """A folder with the first policies alone."""
    for path in sorted((ROOT / "rules").rglob("*.*")):
        name = path.relative_to(ROOT / "rules")
        if str(name.with_suffix("")).startswith(FEW) and path.suffix in (".dl", ".yaml"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(path.read_bytes())
    return folder


def long_text() -> str:
    """Our own rules again and again: 10,000 lines."""
    whole = "".join(PACKS.values())
    return "".join((whole * (10_000 // whole.count("\n") + 1)).splitlines(keepends=True)[:10_000])


def long_python(size: int) -> str:
    """Our own modules again and again, to whole functions, at most that many characters."""
    whole = "".join(path.read_text("utf-8") for path in sorted((ROOT / "datalog_gate").rglob("*.py")))
    whole = whole.replace("from __future__ import annotations\n", "")
    whole = (whole * (size // len(whole) + 1))[:size]
    return whole[: whole.rindex("\ndef ")]


def many_policies(count: int) -> list[RuleFile]:
    """Our own rule files under other module names, until there are that many policies."""
    files: list[RuleFile] = []
    policies = 0
    while policies < count:
        at, (path, text) = len(files) // len(PACKS), list(PACKS.items())[len(files) % len(PACKS)]
        policies += len(LEVELS.findall(text))
        text = LEVELS.sub(rf"\g<0>pack{at}.", text)
        module = ":".join((f"pack{at}", *path.with_suffix("").parts[1:]))
        files.append(RuleFile(module, f"pack{at}/{path}", text))
    return files


def main(rounds: int) -> None:
    """Print the tables."""
    text = long_text()
    python = long_python(len(text))
    files = many_policies(300)
    load(files)
    changed = iter(range(10_000))

    def reload() -> None:
        first = files[0]
        load([RuleFile(first.module, first.file, f"{first.text}// {next(changed)}\n"), *files[1:]])

    table(f"10,000 lines, {len(text):,} characters", rounds, {
        f"ast.parse, {len(python):,} characters": lambda: ast.parse(python),
        "parse": lambda: parse(text, "f.dl", "f"),
        "format_text": lambda: format_text(text),
    })  # fmt: skip
    table(f"300 policies in {len(files)} files, {sum(one.text.count(chr(10)) for one in files):,} lines", rounds, {
        "parse each": lambda: [parse(one.text, one.file, one.module) for one in files],
        "load, one file changed": reload,
        "load again": lambda: load(files),
    })  # fmt: skip

    with tempfile.TemporaryDirectory() as folder:
        for one in files:
            path = Path(folder) / one.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(one.text)
        print(f"\n| whole command, 300 policies (best of {rounds}) | CPU s |\n|---|---|")
        command = [sys.executable, "-m", "datalog_gate.enforce.cli", "check", "--rules", folder, str(STACK)]
        print(f"| check, 50 resources | {min(run(command)[0] for _ in range(rounds)):.2f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
