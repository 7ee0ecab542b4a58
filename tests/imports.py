"""What a program imports of what is installed, apart from this package."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]
INSTALLED = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))


def names() -> set[str]:
    """The top-level names of the installed modules that this process has imported, without private ones."""
    files = {name: getattr(module, "__file__", None) or "" for name, module in list(sys.modules.items())}
    installed = {name.partition(".")[0] for name, file in files.items() if file.startswith(INSTALLED)}
    return {name for name in installed - {"datalog_gate"} if not name.startswith("_")}


def run_program(program: str, *arguments: str) -> object:
    """Run a program of Python from the root of the clone, and read the last line that it prints as JSON."""
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    output = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(output.splitlines()[-1])
