"""A path that can't be read: its exit code and message."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import run
from tests.fuzz_commands import without_overrides

RULES = '@deny("p", "{s}")\np(s) :- os:nova:server(_id=s).\n'
STACK = "heat_template_version: 2018-08-31\nresources: {web: {type: OS::Nova::Server, properties: {flavor: f}}}\n"
LONG = "x" * 300
NAME = "File name too long"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("rules/m.dl", "half/m.dl", "half/closed/n.dl", "closed.dl"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(RULES)
    Path("web.yaml").write_text(STACK)
    Path("latin.conf").write_bytes(b"a = \xff\n")
    for link, target in (("loop", "loop"), ("nowhere.yaml", "absent")):
        Path(link).symlink_to(target)
    for path in ("half/closed", "closed.dl"):
        Path(path).chmod(0)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (f"check {LONG}", 3, f"{LONG} can't be read: {NAME}"),
        (f"check {LONG}/web.yaml", 3, f"{LONG}/web.yaml can't be read: {NAME}"),
        (f"check web.yaml --against {LONG}", 3, f"{LONG} can't be read: {NAME}"),
        (f"facts {LONG} --files-root loop", 3, f"{LONG} can't be read: {NAME}"),
        ("check nowhere.yaml", 3, "nowhere.yaml can't be read: No such file or directory"),
        ("check loop", 3, "loop can't be read: Too many levels of symbolic links"),
        ("check loop/web.yaml", 3, "loop/web.yaml can't be read: Too many levels of symbolic links"),
        (f"check web.yaml --rules {LONG}", 2, f"{LONG} can't be read: {NAME}"),
        (f"check web.yaml --rules half/{LONG}", 2, f"half/{LONG} can't be read: {NAME}"),
        ("check web.yaml --rules half", 2, "half/closed can't be read: Permission denied"),
        ("check web.yaml --rules half/closed", 2, "half/closed can't be read: Permission denied"),
        ("check web.yaml --rules half/closed/n.dl", 2, "half/closed/n.dl can't be read: Permission denied"),
        ("check web.yaml --rules closed.dl", 2, "closed.dl can't be read: Permission denied"),
        ("test --mutate half", 3, "half/closed can't be read: Permission denied"),
        (f"test --mutate {LONG}/rules/test.yaml", 3, f"{LONG}/rules/test.yaml can't be read: {NAME}"),
        ("replay half/closed/log", 3, "half/closed/log can't be read: Permission denied"),
        ("scan run --log loop --rules rules --store s.db", 3,
         "loop can't be read: Too many levels of symbolic links"),
        ("scan run --folder loop/x --rules rules --store s.db", 3, "loop/x is not a folder"),
        (f"explain a --log {LONG}", 3, f"{LONG} can't be read: {NAME}"),
        (f"waive {LONG} 1 --owner o --reason r --expires 2027-01-01 --log nowhere.yaml", 3,
         "nowhere.yaml can't be read: No such file or directory"),
        ("check web.yaml --rules rules --heat-conf rules", 3, "rules can't be read: Is a directory"),
        ("services list --heat-conf rules", 3, "rules can't be read: Is a directory"),
        ("services list --heat-conf latin.conf", 3,
         "latin.conf can't be read: 'utf-8' codec can't decode byte 0xff in position 4: invalid start byte"),
    ],
)  # fmt: skip
def test_a_path_that_cannot_be_read_is_named(
    command: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with without_overrides():
        assert run(capsys, *command.split(" ")) == (code, "", f"error[unreadable] {message}\n")


def test_packs_are_not_copied_to_where_nothing_can_be(capsys: pytest.CaptureFixture[str]) -> None:
    with without_overrides():
        printed = [run(capsys, "rules", "init", path) for path in (LONG, "half/closed/new")]
    assert printed == [
        (64, "", f"datalog-gate: {LONG} can't be written: [Errno 36] {NAME}: '{LONG}'\n"),
        (64, "", "datalog-gate: half/closed/new can't be written: [Errno 13] Permission denied: 'half/closed/new'\n"),
    ]


def test_of_several_templates_those_that_can_be_read_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "check", LONG, "web.yaml", "--format", "compact")
    assert (code, out.splitlines()[0], err) == (
        3,
        "web.yaml:2:13: deny[p] web",
        f"error[unreadable] {LONG} can't be read: {NAME}\n",
    )


@pytest.mark.parametrize("option", ["rules", "--help"])
def test_a_full_disk_is_no_denial(option: str) -> None:
    """An exception would end Python with 1, what is flushed at exit with 120."""
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "datalog_gate.doors.cli.main", option]
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=buffered)
    message = "error[unreadable] reading or writing failed: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (3, message)
