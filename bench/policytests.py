"""What policy tests cost: the cases of our packs again and again until there are 500, and how good they are.

python -m bench.policytests [ROUNDS]
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from bench.run import run

ROOT = Path(__file__).parents[1]
WANTED = 500
CASE = re.compile(r"^  - name: (.*)$", re.M)


def many(folder: Path) -> int:
    """Write our packs and stacks into the folder, with their cases under new names until there are enough; how many
    there are."""
    shutil.copytree(ROOT / "rules", folder / "rules")
    shutil.copytree(ROOT / "fixtures", folder / "fixtures")
    files = list((folder / "rules").rglob("test.yaml"))
    own = sum(len(CASE.findall(file.read_text("utf-8"))) for file in files)
    rounds = -(-WANTED // own)
    for file in files:
        head, line, cases = file.read_text("utf-8").partition("cases:\n")
        again = (CASE.sub(rf"  - name: \g<1>, {at}", cases) for at in range(rounds))
        file.write_text(head + line + "\n".join(again), "utf-8")
    return own * rounds


def main(rounds: int) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "datalog_gate.enforce.cli", "test"]
        jobs = {
            f"test, {many(folder)} cases": [*command, str(folder / "rules")],
            "test --coverage, our cases": [*command, "--coverage", str(ROOT / "rules")],
            "test --mutate, our cases": [*command, "--mutate", str(ROOT / "rules")],
        }
        print(f"\n| policy tests (best of {rounds}) | CPU s |\n|---|---|")
        for title, job in jobs.items():
            print(f"| {title} | {min(run(job, (0,))[0] for _ in range(rounds)):.2f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
