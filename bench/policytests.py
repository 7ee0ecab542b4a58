"""Measure all packs on a stack, and 500 cases of policy tests.

The cases are those of the packs, repeated; the page also shows how good they are.

python -m bench.policytests [ROUNDS]
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from bench.run import run, table
from datalog_gate import load_rules, read_stack

ROOT = Path(__file__).parents[1]
WANTED = 500
WARM = 50
"""The decisions made before measuring: the first ones also compile the plans."""
CASE = re.compile(r"^  - name: ", re.M)


def many(folder: Path) -> int:
    """Copy our packs with the files of their cases until there are enough cases. Returns their number."""
    own = sum(len(CASE.findall(file.read_text("utf-8"))) for file in (ROOT / "rules").rglob("test.yaml"))
    rounds = -(-WANTED // own)
    for at in range(rounds):
        for part in ("rules", "fixtures", "docs/samples"):
            shutil.copytree(ROOT / part, folder / str(at) / part)
    return own * rounds


def main(rounds: int) -> None:
    """Print the tables."""
    rules = load_rules(ROOT / "rules")
    stack = read_stack(ROOT / "fixtures" / "stacks" / "campus")
    table("all packs on a stack of 50 resources", WARM * rounds, {"a decision": lambda: rules.decide(stack)})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "datalog_gate.doors.cli.main", "test"]
        jobs = {
            f"test, {many(folder)} cases": [*command, *map(str, sorted(folder.glob("*/rules")))],
            "test --mutate, our cases": [*command, "--mutate", str(ROOT / "rules")],
        }
        print(f"\n| policy tests (best of {rounds}) | CPU s |\n|---|---|")
        for title, job in jobs.items():
            print(f"| {title} | {min(run(job, (0,))[0] for _ in range(rounds)):.2f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
