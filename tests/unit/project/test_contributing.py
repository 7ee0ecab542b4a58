"""Each recipe of CONTRIBUTING.md works in a copy of the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
RECIPES = dict(re.findall(r"(?ms)^### (Add [^\n]*)\n(.*?)(?=^##|\Z)", TEXT))
STEP = re.compile(
    r"(?:(?P<verb>[Ww]rite|Append to|In) `(?P<path>[\w/.]+)`"
    r"(?:, (?P<how>below|replace) `(?P<anchor>[^\n]*)`(?: by)?)?[^`\n]*:\n\n```\w+\n(?P<block>[\s\S]*?)```)"
    r"|(?P<commands>(?:^    [^\n]+\n)+)",
    re.M,
)
COPIED = ("bench", "contrib", "datalog_gate", "docs", "examples", "fixtures", "rules", "tests")
FILES = ("CONTRIBUTING.md", "README.md", "pyproject.toml")
BY_MODULE = {"datalog-gate": "datalog_gate.doors.cli.main", "pytest": "pytest"}
"""Programs that run from the copy if they are run as modules of it."""


def test_each_recipe_has_its_steps() -> None:
    kinds = {kind: sum(step["verb"] is not None for step in STEP.finditer(text)) for kind, text in RECIPES.items()}
    assert kinds == {
        "Add a policy": 2,
        "Add a builtin": 4,
        "Add a lint": 2,
        "Add a report format": 5,
        "Add a relation": 5,
        "Add a service": 2,
        "Add a door": 4,
    }


def test_each_anchor_of_a_recipe_is_unique() -> None:
    counts = {}
    for step in STEP.finditer(TEXT):
        if step["anchor"]:
            lines = map(str.strip, (ROOT / step["path"]).read_text("utf-8").splitlines())
            counts[step["anchor"].strip()] = list(lines).count(step["anchor"].strip())
    assert {anchor: count for anchor, count in counts.items() if count != 1} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_works_in_a_fresh_copy(name: str, tmp_path: Path) -> None:
    for part in COPIED:
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in FILES:
        shutil.copyfile(ROOT / part, tmp_path / part)
    for step in STEP.finditer(RECIPES[name]):
        if step["commands"]:
            for command in step["commands"].splitlines():
                run(command.strip(), tmp_path)
        else:
            edit(tmp_path / step["path"], step)
    linted = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "."], cwd=tmp_path, capture_output=True, check=False
    )
    assert linted.returncode == 0 or b"No module named ruff" in linted.stderr, linted.stdout.decode()


def edit(path: Path, step: re.Match[str]) -> None:
    """Apply a step that names a file."""
    text = path.read_text("utf-8") if path.exists() else ""
    block = step["block"]
    if step["verb"].lower() == "write":
        assert not path.exists(), path
        path.write_text(block, "utf-8")
        return
    if step["verb"] == "Append to":
        path.write_text(text + block, "utf-8")
        return
    lines = text.splitlines(keepends=True)
    [at] = [number for number, line in enumerate(lines) if line.strip() == step["anchor"].strip()]
    lines[at : at + 1] = [block] if step["how"] == "replace" else [lines[at], block]
    path.write_text("".join(lines), "utf-8")


def run(command: str, folder: Path) -> None:
    """Run a command of the shell, with the programs of the copy."""
    for program, module in BY_MODULE.items():
        command = re.sub(rf"(^|^\w+=\S+ ){program} ", rf"\1{sys.executable} -m {module} ", command)
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    if command.startswith("ruff ") and shutil.which("ruff") is None:
        return
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
