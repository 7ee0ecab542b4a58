"""Run all checks of a change, and say at the end what each of them found.

``python .ci/checks.py [NAME...]``, without names all. .ci/run installs what they need.

A check is a tox environment. Two run at a time, one that computes beside one that waits for servers. What is not over
within its minutes has failed, and so has a skip that tests/skips.txt does not list. A test that fails is run five times
alone, to say how often it fails then. It has failed all the same, but for three tests with real servers that pass
alone: they are named at the end, for tests/flaky.md.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
MINUTES = 84
"""For all checks together: what starts and what runs later has failed."""
ALONE = 5
"""How many times a test that failed is run by itself."""
MOST_RETRIED = 3
"""How many tests with real servers may fail in a run and pass by themselves."""
SETTINGS = {
    "DATALOG_GATE_BUILT": "8", "DATALOG_GATE_GENERATED": "500", "DATALOG_GATE_HEAT": "short",
    "DATALOG_GATE_INSTALL": "uv pip install --quiet", "DATALOG_GATE_SERVERS": "5", "DATALOG_GATE_SQL_PROGRAMS": "60",
    "DATALOG_GATE_STORES": "short",
}  # fmt: skip
"""The short forms of what takes hours in full. README's command runs without them."""


PYTHONS = ("3.12", "3.13", "3.14")
"""The versions beside the one that runs all checks, where an interpreter can be had."""


@dataclass(frozen=True)
class Check:
    """A tox environment with its arguments, and the minutes that it may take."""

    name: str
    minutes: float
    arguments: tuple[str, ...] = ()
    environment: str = ""
    """The tox environment, if it is not called like the check."""
    servers: bool = False
    """Whether its tests wait for real servers, so that the load of the machine may make one fail."""
    tests: bool = True
    """Whether pytest runs it; otherwise it is one test, whose exit code counts."""
    seed: int | None = None
    python: str = ""
    """The version of Python, if it is another."""

    @property
    def tox_environment(self) -> str:
        return self.environment or self.name


FIXED = 1
"""The seed by which each generator is run each time."""


def generated(name: str, minutes: float, much: str) -> list[Check]:
    """The checks of a generator: by the fixed seed, and by a fresh one."""
    seeds = {name: FIXED, f"{name}, fresh": time.time_ns() % 10**9}
    return [
        Check(row, minutes, (much, str(seed)), environment=name, tests=False, seed=seed) for row, seed in seeds.items()
    ]


COMPUTING = (
    Check("tox", 15, environment="py"),
    Check("slow", 30),
    Check("lowest", 10),
    *(Check(f"quick {version}", 10, environment=f"py3{version[2:]}-quick", python=version) for version in PYTHONS),
    Check("scan", 15),
    Check("stores", 15, servers=True),
)
WAITING = (
    Check("heat", 30, servers=True),
    Check("heat26", 18, servers=True),
    Check("heat24", 8),
    Check("server", 15, servers=True),
    Check("keystone", 8, servers=True),
    Check("placement", 12, servers=True),
)
"""Both lanes take about as long."""
BESIDE_CLOUD = (
    *generated("fuzz", 8, "45"),
    *generated("differential", 8, "500"),
    *generated("unknowns", 8, "400"),
    Check("values", 8, ("1",), tests=False),
    Check("spark", 15),
)
"""One process each: the servers of a cloud wait for each other most of the time."""
STAGES = (
    (COMPUTING, WAITING),
    ((Check("pages", 10, servers=True),), (Check("editor", 8), Check("release", 3))),
    ((Check("cloud", 25, servers=True),), BESIDE_CLOUD),
)


class Case(NamedTuple):
    """What a report says of a test."""

    id: str
    outcome: str
    """`passed`, `failed` or `skipped`."""
    reason: str = ""
    """Why it was skipped."""


@dataclass
class Row:
    """What a check found."""

    check: Check
    cases: Sequence[Case] = ()
    seconds: float = 0
    problems: list[str] = field(default_factory=list)
    """Why the check has failed, each a line."""
    retried: list[str] = field(default_factory=list)
    """The tests that failed and passed by themselves."""
    findings: list[str] = field(default_factory=list)
    """What is to be noted, and no fault of the change."""

    def counts(self) -> Counter[str]:
        """How many cases have each outcome. What was there before the change is expected to fail, in pytest's words."""
        counts = Counter(case.outcome for case in self.cases)
        counts["retried"] = len(self.retried)
        counts["passed"] += counts["retried"]
        counts["xfailed"] = len(self.findings)
        counts["failed"] -= counts["retried"] + counts["xfailed"]
        counts["error"] = int(bool(self.problems) and not counts["failed"])
        return counts


def main(names: Sequence[str]) -> int:
    """Run the checks of these names, or all. Prints the rows last; 1 if any failed."""
    known = [check for stage in STAGES for lane in stage for check in lane]
    if unknown := set(names) - {name for check in known for name in (check.name, check.tox_environment)}:
        sys.exit(f"no check is called {', '.join(sorted(unknown))}")
    began, rows = time.monotonic(), list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), began + MINUTES * 60)
        for stage in STAGES:
            lanes = [[c for c in lane if not names or {c.name, c.tox_environment} & set(names)] for lane in stage]
            with ThreadPoolExecutor(len(lanes)) as pool:
                for lane_rows in pool.map(run.lane, map(str, range(len(lanes))), lanes):
                    rows += lane_rows
    limit_retries(rows)
    print("\n".join(summary(rows, time.monotonic() - began)), flush=True)
    return int(any(row.problems for row in rows))


class Run:
    """The checks of a run, whose logs and reports are in a folder."""

    def __init__(self, folder: Path, end: float) -> None:
        self.folder, self.end = folder, end
        self.pins = read_pins((ROOT / "tests" / "skips.txt").read_text())
        self.printing = threading.Lock()

    def lane(self, lane: str, checks: Iterable[Check]) -> list[Row]:
        """Run checks one after the other. The environments of each lane are in a folder of their own."""
        return [self.check(check, ROOT / ".tox" / lane if lane != "0" else ROOT / ".tox") for check in checks]

    def check(self, check: Check, tox: Path) -> Row:
        """Run a check, and what failed in it by itself."""
        print(f"{check.name}: begins", flush=True)
        began = time.monotonic()
        end = min(self.end, began + check.minutes * 60)
        code, cases = self.run_tox(check, tox, end)
        row = Row(check, cases)
        failed = [case.id for case in row.cases if case.outcome == "failed"]
        row.problems += unlisted_skips(check.tox_environment, row.cases, self.pins)
        if code is None:
            row.problems.append(f"not over after {check.minutes:g} minutes")
        if check.tests and failed:
            self.try_alone(row, failed, tox, end)
        elif code and check.tests:
            row.problems.append(f"tox exits with {code}")
        elif code:
            self.judge_generator(row, tox)
        row.seconds = time.monotonic() - began
        with self.printing:
            if code != 0:
                print(self.log(check).read_text("utf-8", "replace"), flush=True)
            print(line(row), flush=True)
        return row

    def log(self, check: Check) -> Path:
        return self.folder / f"{check.name}.log"

    def run_tox(self, check: Check, tox: Path, end: float) -> tuple[int | None, list[Case]]:
        """The exit code of a check's environment, None if it was stopped, and its cases."""
        command = ["tox"] if check.name == "tox" else ["tox", "--workdir", str(tox), "-e", check.tox_environment]
        if check.python:
            interpreter = find_python(check.python)
            if interpreter is None:
                return 0, [Case(f"Python {check.python}", "skipped", "no interpreter can be had")]
            command += ["--discover", interpreter]
        if not check.tests:
            code = execute([*command, "--", *check.arguments], check, tox, self.log(check), end)
            return code, [Case(check.name, "failed" if code != 0 else "passed")]
        report = self.folder / f"{check.name}.xml"
        arguments = [*check.arguments, f"--junitxml={report}", "-o", "junit_family=xunit1"]
        return execute([*command, "--", *arguments], check, tox, self.log(check), end), read_report(report)

    def try_alone(self, row: Row, failed: Sequence[str], tox: Path, end: float) -> None:
        """Run the tests that failed by themselves, as many as may be retried, and say how often each fails."""
        row.problems += [f"{test} fails" for test in failed[MOST_RETRIED:]]
        for test in failed[:MOST_RETRIED]:
            codes = list[int | None]()
            while len(codes) < ALONE and (time.monotonic() < end or not codes):
                command = ("tox", "exec", "--workdir", str(tox), "-e", row.check.tox_environment, "--skip-pkg-install",
                           "--", "pytest", "--timeout", "300", "-W", "ignore", test)  # fmt: skip
                log = self.folder / "alone.log"
                codes.append(execute(command, row.check, tox, log, max(end, time.monotonic() + 120)))
            alone = f"{test} fails {sum(code != 0 for code in codes)} of {len(codes)} times alone"
            if row.check.servers and codes == [0] * ALONE:
                row.retried.append(test)
            else:
                row.problems.append(alone)

    def judge_generator(self, row: Row, tox: Path) -> None:
        """A finding of a fresh seed is no fault of the change if the commit before has it too."""
        again = f"tox -e {row.check.tox_environment} -- {' '.join(row.check.arguments)}"
        if row.check.seed in (None, FIXED):
            row.problems.append(f"fails: {again}")
        elif self.fails_before(row.check, tox / "parent"):
            row.findings.append(f"fails, and did before the change: {again}")
        else:
            row.problems.append(f"fails by a fresh seed: {again}")

    def fails_before(self, check: Check, tox: Path) -> bool:
        """Whether a check fails in the commit before the change too; False without such a commit."""
        changed = git("status", "--porcelain").stdout.strip()
        tree = self.folder / "parent"
        if git("worktree", "add", "--force", "--detach", str(tree), "HEAD" if changed else "HEAD^").returncode:
            return False
        try:
            command = (
                "tox",
                "-c",
                str(tree),
                "--workdir",
                str(tox),
                "-e",
                check.tox_environment,
                "--",
                *check.arguments,
            )
            return execute(command, check, tox, self.folder / "parent.log", time.monotonic() + check.minutes * 60) != 0
        finally:
            git("worktree", "remove", "--force", str(tree))


def find_python(version: str) -> str | None:
    """The path of an interpreter, which uv installs where it can; None if there is none."""
    for command in (("find",), ("install", "--quiet"), ("find",)):
        uv = subprocess.run(("uv", "python", *command, version), cwd=ROOT.parent, capture_output=True, text=True)
        if command == ("find",) and uv.returncode == 0:
            return uv.stdout.strip()
    return None


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True)


def execute(command: Sequence[str], check: Check, tox: Path, log: Path, end: float) -> int | None:
    """Run a command until that moment. Returns its exit code, or None for one that was stopped."""
    variables = os.environ | ({} if check.name == "tox" else SETTINGS)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            return process.wait(max(1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # pytest says where it is, and writes its report
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)
            process.kill()
            return None
        finally:
            kill_left(tox / check.tox_environment)


def kill_left(environment: Path) -> None:
    """Kill the processes of a tox environment that outlive it."""
    mark = f"TOX_ENV_DIR={environment}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


def read_report(path: Path) -> list[Case]:
    """The cases of a JUnit report of pytest; none of one that was not written."""
    if not path.is_file():
        return []
    return [read_case(element) for element in ElementTree.parse(path).iter("testcase")]


def read_case(element: ElementTree.Element) -> Case:
    id_property = element.find("properties/property[@name='id']")
    id = element.get("name", "") if id_property is None else id_property.get("value", "")
    if element.find("failure") is not None or element.find("error") is not None:
        return Case(id, "failed")
    skipped = element.find("skipped")
    return Case(id, "passed") if skipped is None else Case(id, "skipped", skipped.get("message", ""))


class Pin(NamedTuple):
    """A skip that is meant: the environment (`*` is any), the test (`*` likewise) and pytest's reason."""

    environment: str
    test: str
    reason: str


def read_pins(text: str) -> list[Pin]:
    """The pins of tests/skips.txt: a line each, three fields between `|`."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [Pin(*(part.strip() for part in line.split("|", 2))) for line in lines]


def unlisted_skips(environment: str, cases: Iterable[Case], pins: Iterable[Pin]) -> list[str]:
    """The skips that no pin lists, each a line."""
    listed = {(test, reason) for place, test, reason in pins if place in ("*", environment)}
    return [
        f"{case.id} is skipped, and tests/skips.txt does not list it: {case.reason}"
        for case in cases
        if case.outcome == "skipped" and not {(case.id, case.reason), ("*", case.reason)} & listed
    ]


def limit_retries(rows: Iterable[Row]) -> None:
    """Make a problem of each test that passed by itself, if more did than may."""
    retried = [(row, test) for row in rows for test in row.retried]
    for row, test in retried if len(retried) > MOST_RETRIED else []:
        row.problems.append(f"{test} passes alone, like {len(retried) - 1} more tests; {MOST_RETRIED} may")


HEAD = f"{'check':24}{'passed':>8}{'failed':>8}{'skipped':>9}{'retried':>9}{'seconds':>9}{'seed':>11}"


def line(row: Row) -> str:
    """The row of the table, with a mark if the check has failed."""
    counts = row.counts()
    columns = "".join(f"{counts[name]:>{len(name) + 2}}" for name in ("passed", "failed", "skipped", "retried"))
    seed = "" if row.check.seed is None else row.check.seed
    return f"{row.check.name:24}{columns}{row.seconds:>9.0f}{seed:>11}{'  FAILED' if row.problems else ''}"


def summary(rows: Sequence[Row], seconds: float) -> list[str]:
    """The last lines: the table, what failed or is to be noted, and pytest's closing line over all."""
    total = sum((row.counts() for row in rows), Counter[str]())
    counts = [f"{total[name]} {name}" for name in ("failed", "passed", "skipped", "xfailed", "error") if total[name]]
    return [
        HEAD,
        *map(line, rows),
        *(f"{row.check.name}: {problem}" for row in rows for problem in row.problems),
        *(f"{row.check.name}: {finding}" for row in rows for finding in row.findings),
        *(f"{row.check.name}: {test} failed once: list it in tests/flaky.md" for row in rows for test in row.retried),
        f"{', '.join(counts)} in {seconds:.2f}s",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
