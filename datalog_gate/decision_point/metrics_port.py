"""Serves the metrics of all processes of a host on one port.

Each process writes its metrics to a file in a folder, every second. The process that has the port answers with the sum
of all files; when it ends, another one takes the port. A new process continues the file of an ended one, so that
counters never decrease and the number of files does not grow.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import logging
import os
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from errno import EADDRINUSE
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from typing import IO

from datalog_gate.decision_point.metrics import BUCKETS, METRICS, Numbers, Sample, format_metrics

LOG = logging.getLogger(__name__)
INTERVAL = 1.0
"""Seconds between writes of the metrics, and between attempts to get the port."""
PATIENCE = 5.0
"""Seconds that a client may be silent, and that a fork waits for a step to end."""


class MetricsPort:
    """The metrics of this process, and the port for all processes; port 0 serves none. Without a port and a folder
    nothing is written.

    `measure` sets the gauges of this process, `measure_host` tells what is no process's own when somebody asks. Nothing
    happens before `start`, since a service may load the gate in a process that only forks those that serve.
    """

    def __init__(
        self,
        host: str,
        port: int,
        folder: str,
        measure: Callable[[], None],
        measure_host: Callable[[], Iterable[Sample]],
    ) -> None:
        self._host, self._port = host, port
        self._folder = Path(folder) if folder else None
        self._measure, self._measure_host = measure, measure_host
        self._slot: IO[bytes] | None = None
        self._claim: IO[bytes] | None = None
        self._listener: socket.socket | None = None
        self._enabled, self._hooked = bool(port or folder), False
        self._reset()

    def _reset(self) -> None:
        """Start anew after a fork: the files, the port, the thread and the earlier counts belong to the parent."""
        for inherited in (self._slot, self._claim, self._listener):
            if inherited:
                inherited.close()
        self._turn, self._paused = Lock(), False
        self.numbers = Numbers()
        self._slot = self._claim = self._listener = None
        self._process = 0
        self._problems: dict[str, str] = {}

    def _pause(self) -> None:
        """Let no fork happen during a step: the child would inherit its locks."""
        self._paused = self._turn.acquire(timeout=PATIENCE)

    def _resume(self) -> None:
        if self._paused:
            self._turn.release()

    def start(self) -> None:
        """Write and serve from now on, in a thread."""
        if self._process == os.getpid() or not self._enabled:
            return
        if self._process:  # a fork without Python's hooks
            self._reset()
        self._process = os.getpid()
        if not self._hooked:
            self._hooked = True
            os.register_at_fork(before=self._pause, after_in_parent=self._resume, after_in_child=self._reset)
        atexit.register(self._end, self._process)
        Thread(target=self._run, args=(self._process,), name="datalog-gate-metrics", daemon=True).start()

    def render(self, more: Iterable[Sample] = ()) -> str:
        """The metrics of all processes that share the folder, and additional samples, as text."""
        return format_metrics([self.numbers.samples(), *self._others(), self._measure_host(), more])

    def _run(self, process: int) -> None:
        while self._process == process:
            self._run_once()
            self._accept()

    def _run_once(self) -> None:
        """Do each step. A failure is logged once and does not stop the service."""
        with self._turn:
            for step in (self._measure, self._take_slot, self._save, self._listen):
                try:
                    step()
                    self._problems.pop(step.__name__, None)
                except Exception as error:
                    if self._problems.get(step.__name__) != str(error):
                        self._problems[step.__name__] = str(error)
                        LOG.error("metrics: %s", error, exc_info=not isinstance(error, OSError))

    def _take_slot(self) -> None:
        """Take the first file that no process uses. Errors: OSError."""
        if self._slot and _is_there(self._slot):
            return
        if self._slot:  # somebody has emptied the folder
            self._slot.close()
            self._slot = None
        if self._folder is None:
            self._folder = _make_private_folder(self._port)
        self._folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        for number in count():
            path = self._folder / f"{number}.lock"
            try:
                slot = path.open("ab")
            except PermissionError:
                if path.exists():  # another user's
                    continue
                raise
            if _lock(slot):
                break
            slot.close()
        os.fchmod(slot.fileno(), 0o644)
        self.numbers.add(_read(path.with_suffix(".json")))
        self._slot = slot

    def _end(self, process: int) -> None:
        """Write the last metrics when the process ends, but not in a forked process."""
        try:
            if process == os.getpid():
                self._save()
        except OSError as error:  # somebody has removed the folder
            LOG.error("metrics: %s", error)

    def _save(self) -> None:
        """Write the metrics. Errors: OSError."""
        if self._slot is None:
            return
        path = Path(self._slot.name).with_suffix(".json")
        new = path.with_suffix(".new")
        new.write_text(json.dumps(self.numbers.samples()))
        new.chmod(0o644)  # regardless of the umask: the process with the port may belong to another user
        new.replace(path)

    def _listen(self) -> None:
        """Get the port, if no process of the folder has it. Errors: OSError."""
        if self._listener or not self._port or not (self._slot and self._folder):
            return
        if self._claim is None:
            claim = (self._folder / f"port-{self._port}").open("ab")
            if not _lock(claim):
                claim.close()
                return
            self._claim = claim
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        try:
            self._listener = socket.create_server((self._host, self._port), family=family)
        except OSError as error:
            if error.errno == EADDRINUSE:
                raise OSError(
                    f"the port {self._port} is used by another program, or for another metrics_folder"
                ) from None
            raise
        self._listener.settimeout(INTERVAL)

    def _accept(self) -> None:
        """Wait for a client, at most for the interval."""
        if self._listener is None:
            time.sleep(INTERVAL)
            return
        with suppress(OSError):  # TimeoutError: no client came
            connection, _ = self._listener.accept()
            Thread(target=self._answer, args=(connection,), name="datalog-gate-metrics", daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            _Handler(connection, ("", 0), self)  # type: ignore[arg-type]  # for `render`

    def _others(self) -> Iterator[list[Sample]]:
        """The samples of the other processes; without the gauges of ended ones."""
        if self._folder is None:
            return
        own = Path(self._slot.name) if self._slot else None
        for path in sorted(self._folder.glob("*.lock")):
            if path != own:
                live = _is_locked(path)
                yield [
                    sample for sample in _read(path.with_suffix(".json")) if live or METRICS[sample[0]].kind != "gauge"
                ]


class _Handler(BaseHTTPRequestHandler):
    """Answers one request with the metrics, whatever its path. Its `server` is a `MetricsPort`."""

    timeout = PATIENCE

    def do_GET(self) -> None:
        """Answer."""
        content = self.server.render().encode()  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _read(path: Path) -> list[Sample]:
    """The samples in a file; none if it can't be read. Metrics of other versions are left out."""
    try:
        samples = json.loads(path.read_text())
    except (OSError, ValueError):
        return []
    sizes = {"histogram": len(BUCKETS) + 2}
    return [
        (name, tuple(labels), values)
        for name, labels, values in samples
        if (metric := METRICS.get(name))
        and len(labels) == len(metric.labels)
        and len(values) == sizes.get(metric.kind, 1)
    ]


def _lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_there(file: IO[bytes]) -> bool:
    """Whether an open file is still at its path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(file.name))
    except OSError:
        return False


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # BlockingIOError, or a file of another user
        return True
    return False


def _make_private_folder(port: int) -> Path:
    """Create a folder for the processes of this user. Errors: OSError if another user owns it."""
    folder = Path(tempfile.gettempdir(), f"datalog-gate-metrics-{os.geteuid()}-{port}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise OSError(f"{folder} is not a folder that only this user can use: set metrics_folder")
    return folder
