"""`openstack` in processes forked from one that has imported it.

Importing takes most of a command's time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from openstackclient.shell import main

_FORKING = get_context("forkserver")
_FORKING.set_forkserver_preload([__name__, "datalog_gate.doors.openstack_client.commands"])


def run_openstack(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder."""
    with TemporaryDirectory() as printed:
        process = _FORKING.Process(target=_run, args=(list(arguments), dict(environment), folder, Path(printed)))
        process.start()
        process.join()
        stdout, stderr = ((Path(printed) / name).read_text() for name in ("stdout", "stderr"))
    return subprocess.CompletedProcess(list(arguments), process.exitcode or 0, stdout, stderr)


def _run(arguments: list[str], environment: dict[str, str], folder: Path, printed: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for stream in (sys.stdout, sys.stderr):
        with (printed / stream.name.strip("<>")).open("wb") as file:
            os.dup2(file.fileno(), stream.fileno())
    sys.argv = ["openstack", *arguments]
    sys.exit(main(arguments))
