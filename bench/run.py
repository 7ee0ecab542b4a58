"""Measure whole commands, cold, and what large input costs.

python -m bench.run [ROUNDS]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.templates import BOMBS

ROOT = Path(__file__).parents[1]
STACKS = ROOT / "fixtures" / "stacks"
CHECK = ("-m", "datalog_gate.doors.cli.main", "check", "--rules", str(ROOT / "rules"))
COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "import yaml": ("-c", "import yaml"),
    "check, 2 resources": (*CHECK, str(STACKS / "bastion")),
    "check, 50 resources": (*CHECK, str(STACKS / "campus")),
    "check, 50 resources, without a cache": (*CHECK, "--no-cache", str(STACKS / "campus")),
    "facts, 50 resources": ("-m", "datalog_gate.doors.cli.main", "facts", str(STACKS / "campus")),
}


READ_BODY = """
import json, sys
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.facts.flatten import flatten
from datalog_gate.files.templates import read_stack
body = json.load(open(sys.argv[1]))
flatten(read_stack(template=body), SHIPPED, sys.argv[2:])
"""
RELATIONS = ("os:nova:server", "os:nova:server.security_groups", "os:cinder:volume", "os:cinder:volume_attachment")


def main(rounds: int) -> None:
    """Run every command once unmeasured, then `rounds` times in turn, and print the tables; large inputs run once."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(rounds + 1):
        for name, arguments in COMMANDS.items():
            spent, _, _ = run([sys.executable, *arguments])
            if turn:
                seconds[name].append(spent)
    base = statistics.median(next(iter(seconds.values())))
    print(f"| command ({rounds} rounds, Python {sys.version.split()[0]}) | CPU median s | min | max | ratio |")
    print("|---|---|---|---|---|")
    for name, times in seconds.items():
        median = statistics.median(times)
        print(f"| {name} | {median:.3f} | {min(times):.3f} | {max(times):.3f} | {median / base:.1f} |")
    print("\n| large input | exit | CPU s | peak MB |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "template.yaml"
        subprocess.run((sys.executable, "-m", "bench.templates", str(path)), check=True, cwd=ROOT)
        large = {"2,000 servers, volumes, attachments: body to facts": ("-c", READ_BODY, str(path), *RELATIONS)}
        bombs = {name: (*CHECK, str(path)) for name in BOMBS}
        for name, arguments in (large | bombs).items():
            if name in BOMBS:
                path.write_text(BOMBS[name]())
            spent, peak, code = run([sys.executable, *arguments], (0, 3))
            print(f"| {name} | {code} | {spent:.2f} | {peak:.0f} |")
    time_folder(1000)


def time_folder(templates: int) -> None:
    """Print the time of `check` for a folder of templates, in one process and in two."""
    text = (STACKS / "bastion" / "template.yaml").read_text()
    print(f"\n| check, {templates:,} templates | elapsed s | CPU s |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as path:
        for number in range(templates):
            Path(path, f"{number:04}.yaml").write_text(text.replace("m1.small", f"m1.small-{number}"))
        for jobs in (1, 2):
            began = time.monotonic()
            spent, _, _ = run([sys.executable, *CHECK, "--jobs", str(jobs), "--format", "compact", path])
            print(f"| --jobs {jobs} | {time.monotonic() - began:.1f} | {spent:.1f} |")


def run(command: list[str], expected: tuple[int, ...] = (0, 1)) -> tuple[float, float, int]:
    """User and system time of a command and its children in seconds, its peak memory in MB, its exit code."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in expected:
        raise SystemExit(f"{' '.join(command)} exits {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode


def table(title: str, rounds: int, jobs: dict[str, Callable[[], object]]) -> None:
    """The best CPU times of jobs that take turns."""
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(rounds):
        for name, job in jobs.items():
            began = time.process_time()
            job()
            best[name] = min(best[name], time.process_time() - began)
    base = next(iter(best.values()))
    print(f"\n| {title} (best of {rounds}) | ms | ratio |\n|---|---|---|")
    for name, seconds in best.items():
        print(f"| {name} | {seconds * 1000:.1f} | {seconds / base:.2f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
