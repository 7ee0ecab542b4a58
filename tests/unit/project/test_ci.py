"""What .ci/checks.py makes of passes, failures, skips and hangs of environments."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sources import ROOT

TOX = """\
#!{python}
import sys, time
from pathlib import Path
arguments, cases, alone = sys.argv[1:], {cases}, {alone}
environment = arguments[arguments.index("-e") + 1] if "-e" in arguments else "py"
if arguments[0] == "exec":
    with open({tries!r}, "a+") as tries:
        tries.write("x")
        sys.exit(alone[(tries.tell() - 1) % len(alone)])
if environment == "keystone":
    time.sleep(600)
for word in arguments:
    if word.startswith("--junitxml="):
        with open(word.partition("=")[2], "w") as report:
            report.write("<testsuite>" + "".join(cases.get(environment, ["<testcase name='t'/>"])) + "</testsuite>")
print("the log of", environment)
folder = Path(arguments[arguments.index("-c") + 1] if "-c" in arguments else ".")
sys.exit(environment in {failing} or (folder / "fault").exists())
"""
FAILED = "<testcase name='f'><properties><property name='id' value='tests/a.py::{}'/></properties><failure/></testcase>"
SKIPPED = "<testcase name='s'><skipped message='no database'/></testcase>"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of its own: the program kills what is left of the environments of its project."""
    project = tmp_path / "project"
    (project / "tests").mkdir(parents=True)
    (project / "tests" / "skips.txt").touch()
    return project


@pytest.fixture
def checks(project: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program, as a module of its own for each test."""
    spec = importlib.util.spec_from_file_location("checks", ROOT / ".ci" / "checks.py")
    assert spec
    assert spec.loader
    monkeypatch.setattr(time, "time_ns", lambda: 7)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "checks", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", project)
    return module


@pytest.fixture
def tox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a tox on the path. It reports the cases of each environment, and fails tests alone in turn by `alone`."""

    def put(cases: dict[str, list[str]], alone: tuple[int, ...] = (0,), failing: tuple[str, ...] = ()) -> None:
        program = tmp_path / "tox"
        program.write_text(TOX.format(python=sys.executable, cases=cases, alone=alone, failing=failing,
                                      tries=str(tmp_path / "tries")))  # fmt: skip
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return put


def last_lines(checks: Any, capsys: pytest.CaptureFixture[str], *names: str) -> tuple[int, list[str]]:
    """The exit code, and the last lines of a run without its seconds and seeds, blanks folded."""
    code = checks.main(names)
    lines = capsys.readouterr().out.split(checks.HEAD + "\n")[1].splitlines()
    lines = [re.sub(r" in \d+\.\d\ds$", "", " ".join(line.split())) for line in lines]
    return code, [re.sub(r"^(.+?( \d+){4}) \d+( \d+)?", r"\1", line) for line in lines]


ONCE, MANY = "failed once: list it in tests/flaky.md", "passes alone, like 3 more tests; 3 may"
ALONE = "of 5 times alone"
SERVERS = {"heat": "fg", "server": "hi"}
UNLISTED = "s is skipped, and tests/skips.txt does not list it: no database"
RUNS: list[tuple[str, dict[str, str], tuple[int, ...], list[str]]] = [
    ("tox heat fuzz", {}, (0,), ["tox 1 0 0 0", "heat 1 0 0 0", "fuzz 1 0 0 0", "fuzz, fresh 1 0 0 0", "4 passed"]),
    ("slow", {"slow": "f"}, (0,), ["slow 0 1 0 0 FAILED", f"slow: tests/a.py::f fails 0 {ALONE}", "1 failed"]),
    ("slow", {"slow": "f"}, (1, 0), ["slow 0 1 0 0 FAILED", f"slow: tests/a.py::f fails 3 {ALONE}", "1 failed"]),
    ("heat", {"heat": "f"}, (1, 0), ["heat 0 1 0 0 FAILED", f"heat: tests/a.py::f fails 3 {ALONE}", "1 failed"]),
    ("heat", {"heat": "f"}, (0,), ["heat 1 0 0 1", f"heat: tests/a.py::f {ONCE}", "1 passed"]),
    ("heat server", SERVERS, (0,), [
        "heat 2 0 0 2 FAILED", "server 2 0 0 2 FAILED",
        *(f"{name}: tests/a.py::{test} {end}" for end in (MANY, ONCE) for name, two in SERVERS.items() for test in two),
        "4 passed, 2 error",
    ]),
    ("heat", {"heat": "fghij"}, (0,), [
        "heat 3 2 0 3 FAILED", "heat: tests/a.py::i fails", "heat: tests/a.py::j fails",
        *(f"heat: tests/a.py::{test} {ONCE}" for test in "fgh"), "2 failed, 3 passed",
    ]),
    ("stores", {"stores": "-"}, (0,), ["stores 0 0 1 0 FAILED", f"stores: {UNLISTED}", "1 skipped, 1 error"]),
    ("heat", {"heat": ""}, (0,), ["heat 0 0 0 0 FAILED", "heat: tox exits with 1", "1 error"]),
]  # fmt: skip
"""The checks that are run, the tests that fail in some, `-` for one that is skipped, how they end alone, and what is
printed last."""


@pytest.mark.parametrize(("names", "failing", "alone", "lines"), RUNS)
def test_a_run_ends_with_a_table_and_what_it_found(
    checks: Any, tox: Any, capsys: pytest.CaptureFixture[str], names: str, failing: dict[str, str],
    alone: tuple[int, ...], lines: list[str],
) -> None:  # fmt: skip
    cases = {name: [FAILED.format(test) for test in tests] for name, tests in failing.items() if tests != "-"}
    tox(cases | {name: [SKIPPED] for name in failing.keys() - cases.keys()}, alone, failing=tuple(cases))
    assert last_lines(checks, capsys, *names.split()) == (int("FAILED" in str(lines)), lines)


@pytest.mark.parametrize(
    ("pins", "problems"),
    [
        ("# a comment\nstores | s | no database\n", []),
        ("* | * | no database", []),
        ("scan | s | no database", [UNLISTED]),
        ("stores | s | no Java", [UNLISTED]),
    ],
)
def test_pins_name_environment_test_and_reason(checks: Any, pins: str, problems: list[str]) -> None:
    cases = [checks.Case("s", "skipped", "no database"), checks.Case("t", "passed")]
    assert checks.unlisted_skips("stores", cases, checks.read_pins(pins)) == problems


def test_what_is_not_over_in_time_has_failed(checks: Any, tox: Any, tmp_path: Path) -> None:
    tox({})
    row = checks.Run(tmp_path, time.monotonic() + 600).check(checks.Check("keystone", 0.02), tmp_path)
    assert (row.cases, row.problems) == ([], ["not over after 0.02 minutes"])


@pytest.mark.parametrize(
    ("before", "after", "code", "lines"),
    [
        (False, False, 0, ["fuzz, fresh 1 0 0 0", "1 passed"]),
        (False, True, 1,
         ["fuzz, fresh 0 1 0 0 FAILED", "fuzz, fresh: fails by a fresh seed: tox -e fuzz -- 45 7", "1 failed"]),
        (True, True, 0,
         ["fuzz, fresh 0 0 0 0", "fuzz, fresh: fails, and did before the change: tox -e fuzz -- 45 7", "1 xfailed"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("committed", [True, False])
def test_what_a_fresh_seed_finds_fails_if_it_is_new(
    checks: Any, tox: Any, capsys: pytest.CaptureFixture[str], project: Path, before: bool, after: bool,
    committed: bool, code: int, lines: list[str],
) -> None:  # fmt: skip
    tox({})
    git(project, "init", "--quiet")
    commit(project, fault=before)
    if committed:
        commit(project, fault=after)
    elif after:
        (project / "fault").touch()
        (project / "other").touch()
    assert last_lines(checks, capsys, "fuzz, fresh") == (code, lines)


def commit(project: Path, *, fault: bool) -> None:
    (project / "fault").unlink(missing_ok=True)
    if fault:
        (project / "fault").touch()
    git(project, "add", "--all")
    git(project, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--allow-empty", "-m", "c")


def git(project: Path, *arguments: str) -> None:
    subprocess.run(("git", *arguments), cwd=project, check=True)


def test_no_flaky_test_is_listed_twice() -> None:
    rows = [line.split("|") for line in (ROOT / "tests" / "flaky.md").read_text().splitlines() if line.startswith("|")]
    tests = Counter((environment.strip(), test.strip()) for _, _, environment, test, *_ in rows[2:])
    assert [test for test, times in tests.items() if times > 1] == []


def test_forks_run_the_same_environments(checks: Any) -> None:
    known = [check for stage in checks.STAGES for lane in stage for check in lane]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())["jobs"]
    on_github = {
        *workflow["check"]["strategy"]["matrix"]["check"],
        *(f"quick 3.{version[1:]}" for version in workflow["python"]["strategy"]["matrix"]["version"]),
    }
    assert on_github == {check.name for check in known if check.seed in (None, checks.FIXED)}
    *jobs, project = yaml.safe_load((ROOT / ".zuul.yaml").read_text())
    on_zuul = {entry["job"]["name"]: entry["job"]["vars"]["tox_envlist"] for entry in jobs[1:]}
    assert set(on_zuul.values()) == {check.tox_environment for check in known}
    assert project["project"]["check"]["jobs"] == project["project"]["gate"]["jobs"] == list(on_zuul)
