"""Completions of shells and the man page, by the commands of docs/editors.md."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sources import ROOT

PAGE = (ROOT / "docs" / "editors.md").read_text("utf-8")
COMMANDS = re.findall(r"^    ((?:shtab|argparse-manpage) .+) > \S*?([^/\s]+)$", PAGE, re.M)
CHECKS = {"datalog-gate": ["bash", "-n"], "_datalog-gate": ["zsh", "-n"], "datalog-gate.fish": ["fish", "--no-execute"]}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands of the page write."""
    folder = tmp_path_factory.mktemp("written")
    for command, name in COMMANDS:
        program = Path(sys.executable).parent / command.split()[0]
        ran = subprocess.run([program, *command.split()[1:]], capture_output=True, text=True, check=True)
        (folder / name).write_text(ran.stdout)
    return folder


def test_the_page_writes_a_completion_for_each_shell_and_a_man_page(written: Path) -> None:
    assert sorted(path.name for path in written.iterdir()) == sorted([*CHECKS, "datalog-gate.1"])


@pytest.mark.parametrize("name", CHECKS)
def test_the_shell_takes_its_completion(written: Path, name: str) -> None:
    command = CHECKS[name]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    ran = subprocess.run([*command, written / name], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["chec"], ["check"]),
        (["check", "--fail"], ["--fail-on"]),
        (["check", "--fail-on", ""], ["deny", "warn", "record", "never"]),
        (["check", "--caller", "w"], ["web.yaml"]),
        (["check", "w"], ["web.yaml"]),
        (["scan", "run", "--fold"], ["--folder"]),
    ],
)
def test_bash_completes(written: Path, tmp_path: Path, words: list[str], offered: list[str]) -> None:
    (tmp_path / "web.yaml").touch()
    line = " ".join(f"'{word}'" for word in words)
    script = (
        f"source {written}/datalog-gate; COMP_WORDS=(datalog-gate {line}); COMP_CWORD={len(words)}; "
        f"_shtab_datalog_gate; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    ran = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == offered


def test_the_man_page_has_every_command(written: Path) -> None:
    from datalog_gate.doors.cli.option_parser import COMMANDS as SUMMARIES

    page = (written / "datalog-gate.1").read_text().replace("\\-", "-")
    assert [command for command in SUMMARIES if f"datalog-gate {command}" not in page] == []
