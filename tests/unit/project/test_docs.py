"""Every command in the pages runs and prints what they show."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from runpy import run_path

import pytest

from datalog_gate.base.diagnostics import CODES
from datalog_gate.decision.policy_set import RuleFile, load
from datalog_gate.doors.cli.main import main
from datalog_gate.doors.cli.option_parser import COMMANDS
from datalog_gate.policytest.suite import read_suite
from tests.installed import off_site, on_site
from tests.inventory_cloud import with_services

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND = re.compile(
    r"^ {4,}(?:pip install [^&\n]*&& )?datalog-gate (?P<command>[^\n]*)\n(?:\n```\n(?P<output>.*?)```)?", re.M | re.S
)
PYTHON = re.compile(r"```python\n(?P<program>(?:(?!```).)*)```\n\n```\n(?P<output>.*?)```", re.S)
RULES = re.compile(r"```prolog\n(.*?)```", re.S)
RECIPE = re.compile(
    r"^### (?P<name>.*)\n\n```prolog\n(?P<rules>(?s:.*?))```\n\n```yaml\n(?P<cases>(?s:.*?))```\n\nCan't see: .", re.M
)
RECIPES = [
    pytest.param(match["rules"], match["cases"], id=match["name"])
    for match in RECIPE.finditer((ROOT / "docs" / "cookbook.md").read_text("utf-8"))
]
LONG = ("fmt --check rules", "lint rules", "test")
"""Commands that read all rules of this project, or run tests: they take seconds."""
SHOWN = [
    pytest.param(
        page,
        match["command"],
        match["output"],
        id=f"{page.name}: {match['command'][:50]}",
        marks=pytest.mark.slow if match["command"].startswith(LONG) else (),
    )
    for page in PAGES
    for match in COMMAND.finditer(page.read_text("utf-8"))
]


@pytest.mark.parametrize(("page", "command", "output"), SHOWN)
def test_a_command_of_a_page_prints_what_the_page_shows(
    page: Path,
    command: str,
    output: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(ROOT)
    for name in [variable for variable in os.environ if variable == "DATALOG_GATE_RULES" or variable.startswith("OS_")]:
        monkeypatch.delenv(name)
    command = on_site(command, tmp_path)
    if command.startswith("test"):
        program = [sys.executable, "-m", "datalog_gate.doors.cli.main", *shlex.split(command)]
        assert subprocess.run(program, capture_output=True, check=False).returncode == 0
        return
    with with_services(monkeypatch) if command.startswith("inventory") else nullcontext():
        code = main(shlex.split(command))
    printed, errors = capsys.readouterr()
    if code == 3:  # what can't be built is said first, and there
        printed, errors = errors + printed, ""
    assert code in ((0, 1) if output is None else (0, 1, 3))
    shown = off_site(printed, tmp_path) if output is not None else None
    if os.environ.get("REGENERATE") and output is not None and shown:
        rewrite(page, f"```\n{output}```", f"```\n{shown}```")
        output = shown
    assert (errors, shown) == ("", output)


def rewrite(page: Path, before: str, after: str) -> None:
    """Replace a part of a page, which other processes may be doing at once."""
    with page.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        text = file.read()
        assert before in text
        file.seek(0)
        file.write(text.replace(before, after))
        file.truncate()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_program_of_a_page_prints_what_the_page_shows(
    page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    for match in PYTHON.finditer(page.read_text("utf-8")):
        (tmp_path / "program.py").write_text(on_site(match["program"], tmp_path), "utf-8")
        run_path(str(tmp_path / "program.py"), run_name="__main__")
        assert capsys.readouterr().out == match["output"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_rules_of_a_page_load_without_a_warning(page: Path) -> None:
    for text in RULES.findall(page.read_text("utf-8")):
        assert load([RuleFile("page", page.name, text)]).warnings == ()


def test_the_cookbook_has_twenty_recipes() -> None:
    assert len(RECIPES) == 20


@pytest.mark.parametrize(("rules", "cases"), RECIPES)
def test_a_recipe_finds_what_its_cases_expect(rules: str, cases: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.dl").write_text(rules, "utf-8")
    (tmp_path / "test.yaml").write_text(cases, "utf-8")
    suite = read_suite(tmp_path / "test.yaml")
    assert [suite.report(case) for case in suite.cases] == [""] * len(suite.cases)


def test_readme_shows_what_a_policy_a_command_and_a_program_do() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert (len(COMMAND.findall(text)), len(PYTHON.findall(text)), len(RULES.findall(text))) == (2, 1, 1)


def test_the_page_of_commands_names_each() -> None:
    rows = re.findall(r"^\| `datalog-gate ([a-z-]+)", (ROOT / "docs" / "commands.md").read_text("utf-8"), re.M)
    assert sorted({*rows}) == sorted(COMMANDS)


def test_every_code_has_a_sentence() -> None:
    assert [code for code, sentence in CODES.items() if not re.fullmatch(r"[A-Z].*\.", sentence)] == []
