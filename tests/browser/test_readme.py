"""README's command that shows the first page, in a fresh environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.browser.conftest import CHROMIUM
from tests.sources import ROOT

[COMMAND] = re.findall(r"^pip install .*webbrowser .*$", (ROOT / "README.md").read_text("utf-8"), re.M)
OURS = shutil.ignore_patterns(".*", "tests", "__pycache__")


def test_the_command_of_the_readme_shows_the_page_of_a_denied_stack(tmp_path: Path) -> None:
    copy, shown = shutil.copytree(ROOT, tmp_path / "copy", ignore=OURS), tmp_path / "shown.html"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nexec {CHROMIUM} --headless --no-sandbox --dump-dom "$1" >{shown}\n')
    browser.chmod(0o755)
    own = {name: value for name, value in os.environ.items() if not name.startswith(("DATALOG_GATE_", "PYTHON", "TOX"))}
    path = f"{tmp_path / 'venv' / 'bin'}:{own['PATH']}"
    subprocess.run(COMMAND, shell=True, check=True, cwd=copy, env={**own, "BROWSER": f"{browser} %s", "PATH": path})
    page = shown.read_text("utf-8")
    assert re.findall("<title>(Denied .*?)</title>", page) == ["Denied by 2 policies: template"]
    lines = re.findall(r'class="line deny" id="d0-l0-(\d+)"', page)
    assert lines == ["14", "21", "22", "28", "29", "35", "37", "45", "47"]
