"""The commands of two pages have the outputs that the pages show.

Those that would install something, or start, restart or stop a cloud, are left out. `REGENERATE=1` writes the pages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cloud.rig import Cloud, without_ids
from tests.sources import ROOT

PAGES = {"try.md": "demo", "placement.md": "admin"}
"""The user who makes the stacks of each page."""
BLOCK = re.compile(r"```sh\n(.*?)```(?:\n\n```\n(.*?)```)?", re.S)
ELSEWHERE = ("apt-get ", "python3 -m venv ", "python -m examples.cloud ")
"""The starts of blocks that are not run."""
NOISE = re.compile(r"^(Could not load|WARNING).*\n", re.M)


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_page_have_its_outputs(own_cloud: Cloud, tmp_path: Path, name: str) -> None:
    page = ROOT / "docs" / name
    text = page.read_text("utf-8")
    (tmp_path / "cloud").symlink_to(str(own_cloud.folder))
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("OS_", "DATALOG_GATE_"))}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    login, number = "", ""
    shown, printed = [], []
    try:
        for block in BLOCK.finditer(text):
            command, output = block.groups()
            if command.startswith(". ~/cloud/"):
                login = command
            elif not command.startswith(ELSEWHERE):
                program = ["bash", "-c", login + command.replace("approve A-1", f"approve {number}")]
                done = subprocess.run(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                                      cwd=ROOT, env={**variables, "HOME": str(tmp_path), "PATH": path})  # fmt: skip
                printed.append(NOISE.sub("", done.stdout))
                shown.append(output or "")
                number = next(iter(re.findall(r"\bA-\d+", done.stdout)), number)
    finally:
        (tmp_path / "cloud" / "rules" / "volumes.dl").unlink(missing_ok=True)
        delete = 'for name in web db near racked; do openstack stack delete --yes --wait "$name"; done'
        subprocess.run(["bash", "-c", f". ~/cloud/{PAGES[name]}-openrc; {delete}"], capture_output=True, check=False,
                       env={**variables, "HOME": str(tmp_path), "PATH": path})  # fmt: skip
        for pool in own_cloud.admin.placement.resource_providers(name="cloud@p4#fake"):
            own_cloud.admin.placement.delete_resource_provider(pool)
    if os.environ.get("REGENERATE"):
        for before, now in zip(shown, printed, strict=True):
            text = text.replace(f"```\n{before}```", f"```\n{now}```", 1) if now else text
        page.write_text(text, "utf-8")
    assert list(map(normalize, printed)) == list(map(normalize, shown))


def normalize(output: str) -> str:
    """An output without the parts that differ in each run."""
    output = without_ids(re.sub(r"\bdecision [0-9a-f]{6}\b", "decision ID", output))
    output = re.sub(r"\d{4}-\d\d-\d\dT[\d:]+(?:\+00:00|Z)", "TIME", output)
    return re.sub(r"\b[0-9a-f]{32}\b|\bA-\d+|\d+ (?:min|s|policies|facts)\b", "N", output)
