"""Processes that outlive the command that starts them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TypedDict

Environment = Mapping[str, str | Path]
"""Variables to add to the environment."""
TAIL = 15
"""Lines of a log that a failure shows."""


class CloudError(Exception):
    """What failed, with the last lines of its log."""


class Process(TypedDict):
    """A started process, as the file of processes has it."""

    pid: int
    born: str
    """When it started, in ticks since the system did: another process can get the same pid later."""
    command: list[str]
    environment: dict[str, str]
    port: int
    """The port on which it listens when it is ready; 0 if nothing waits for it."""


class Processes:
    """The processes of a folder: logs are in `log`, and `processes.json` lists them in the order of their start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "processes.json"
        self._lock = Lock()
        self._processes: dict[str, Process] = json.loads(self._file.read_text()) if self._file.exists() else {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._processes)

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        environment: Environment | None = None,
        port: int = 0,
    ) -> None:
        """Start a process as the leader of a group of its own; what it prints goes to its log."""
        arguments = [str(argument) for argument in command]
        variables = {key: str(value) for key, value in (environment or {}).items()}
        with self.log(name).open("ab") as log:
            child = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **variables},
                start_new_session=True,
            )
        process: Process = {
            "pid": child.pid,
            "born": _state(child.pid)[1],
            "command": arguments,
            "environment": variables,
            "port": port,
        }
        with self._lock:
            self._processes[name] = process
            self._file.write_text(json.dumps(self._processes, indent=1))

    def restart(self, name: str) -> None:
        """Stop a process and start it with the command that it had."""
        process = self._processes[name]
        self.stop([name])
        self.start(name, process["command"], process["environment"], process["port"])

    def run(self, name: str, command: Sequence[str | Path], environment: Environment | None = None) -> None:
        """Run a command until its end; raise CloudError if it fails."""
        variables = {key: str(value) for key, value in (environment or {}).items()}
        with self.log(name).open("ab") as log:
            code = subprocess.run(
                [str(argument) for argument in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **variables},
                check=False,
            ).returncode
        if code:
            raise CloudError(f"{name} failed with exit code {code}\n{self.tail(name)}")

    def wait_for_port(self, name: str) -> None:
        """Wait until a process listens, if it does so."""
        port = self._processes[name]["port"]
        self.wait(name, lambda: not port or _listens(port))

    def wait(self, name: str, is_ready: Callable[[], bool], seconds: float = 300) -> None:
        """Wait until a process is ready; raise CloudError if it ends before, or takes longer."""
        end = time.monotonic() + seconds
        while not is_ready():
            if not self.is_alive(name):
                raise CloudError(f"{name} has ended\n{self.tail(name)}")
            if time.monotonic() > end:
                raise CloudError(f"{name} is not ready after {seconds:.0f} seconds\n{self.tail(name)}")
            time.sleep(0.2)

    def is_alive(self, name: str) -> bool:
        """Whether the process that was started under this name runs."""
        process = self._processes[name]
        state, born = _state(process["pid"])
        return state not in ("", "Z", "X") and born == process["born"]

    def stop(self, names: Iterable[str] | None = None, seconds: float = 3) -> None:
        """Stop processes with their children, the last one first: all of them, unless some are named."""
        chosen = [name for name in self._processes if names is None or name in names]
        living = [name for name in reversed(chosen) if self.is_alive(name)]
        for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, seconds)):
            for name in living:
                os.killpg(self._processes[name]["pid"], number)
            end = time.monotonic() + patience
            while living and time.monotonic() < end:
                time.sleep(0.1)
                living = [name for name in living if self.is_alive(name)]

    def log(self, name: str) -> Path:
        """The file of what a process prints."""
        return self.folder / "log" / f"{name}.log"

    def tail(self, name: str) -> str:
        """The path and the last lines of a log."""
        lines = self.log(name).read_text(errors="replace").splitlines()[-TAIL:]
        return "\n".join([f"{self.log(name)}:", *(f"  {line}" for line in lines)])


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _state(pid: int) -> tuple[str, str]:
    """The state of a process and when it started, as proc(5) has it; empty for a process that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", ""
    return fields[0], fields[19]
