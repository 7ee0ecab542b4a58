"""CPU times of whole commands, cold, interleaved in one run: a table of medians and ratios.

python bench/run.py [ROUNDS]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
STACKS = ROOT / "fixtures" / "stacks"
CHECK = ("-m", "datalog_gate.enforce.cli", "check", "--rules", str(ROOT / "rules"))
COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "import yaml": ("-c", "import yaml"),
    "check, 2 resources": (*CHECK, str(STACKS / "bastion")),
    "check, 50 resources": (*CHECK, str(STACKS / "campus")),
    "facts, 50 resources": ("-m", "datalog_gate.enforce.cli", "facts", str(STACKS / "campus")),
}


def main(rounds: int) -> None:
    """Run every command once unmeasured, then `rounds` times in turn, and print the table."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(rounds + 1):
        for name, arguments in COMMANDS.items():
            spent = cpu_seconds([sys.executable, *arguments])
            if turn:
                seconds[name].append(spent)
    base = statistics.median(next(iter(seconds.values())))
    print(f"| command ({rounds} rounds, Python {sys.version.split()[0]}) | CPU median s | min | max | ratio |")
    print("|---|---|---|---|---|")
    for name, times in seconds.items():
        median = statistics.median(times)
        print(f"| {name} | {median:.3f} | {min(times):.3f} | {max(times):.3f} | {median / base:.1f} |")


def cpu_seconds(command: list[str]) -> float:
    """User and system time of a command and its children, in seconds."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} exits {process.returncode}")
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
