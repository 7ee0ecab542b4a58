"""The decision log (layer 6): one JSON object a line, written beside the decisions and never in their way.

In: records. Out: a file of at most half the bytes that it may have, and one older file ``.1`` beside it. Several
processes may share it, also those that a process with a log forks. What can't be written is dropped, counted, and told
in the next record that can.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from errno import ENOSPC
from functools import partial
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Lock, Thread

from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import InputError

LOG = logging.getLogger(__name__)
SCHEMA = "datalog-gate/log/1"
WAITING = 1000
"""How many records may wait to be written."""
AT_EXIT = 2.0
"""Seconds that the end of a process waits for its last records."""
Record = Mapping[str, object]


class DecisionLog:
    """The log at a path, of so many bytes at most; with no path, none."""

    def __init__(self, path: str, limit: int) -> None:
        self._path, self._limit = Path(path) if path else None, limit
        self.dropped = 0
        """How many records could not be written, in this process."""
        self._reset()
        if path:
            os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Forget the threads of a process that forked this one: they are not here, and may have held the lock."""
        self._queue: Queue[Record] = Queue(WAITING)
        self._lock = Lock()
        self._begun = False
        self.dropped = self._told = 0

    def write(self, record: Record) -> None:
        """Have a record written soon. Its data is not to be changed any more."""
        if self._path is None:
            return
        if not self._begun:
            self._begin()
        try:
            self._queue.put_nowait(record)
        except Full:
            self._drop(1, "records come faster than they can be written")

    def flush(self, seconds: float) -> None:
        """Wait until what was given has been written, so long at most."""
        end = time.monotonic() + seconds
        while self._queue.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.005)

    def _begin(self) -> None:
        """Start the writer: in each process its own, since a thread does not outlive a fork."""
        with self._lock:
            if not self._begun:
                atexit.register(self.flush, AT_EXIT)
                Thread(target=self._run, args=(self._queue,), name="datalog-gate-log", daemon=True).start()
                self._begun = True

    def _run(self, queue: Queue[Record]) -> None:
        while True:
            records = [queue.get()]
            try:
                while len(records) < WAITING:
                    records.append(queue.get_nowait())
            except Empty:
                pass
            self._save(records)
            for _ in records:
                queue.task_done()

    def _save(self, records: list[Record]) -> None:
        assert self._path is not None
        lines = [line for record in records if (line := self._line(record))]
        dropped = self.dropped
        if dropped > self._told:
            lines = [_encoded({"schema": SCHEMA, "kind": "dropped", "count": dropped - self._told}), *lines]
        written = 0
        try:
            with Path(f"{self._path}.lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                try:
                    for part in _parts(lines, self._limit // 2):
                        _append(self._path, b"".join(part), self._limit // 2)
                        written += len(part)
                finally:  # a process forked meanwhile holds the file open, too, and with it the lock
                    fcntl.flock(lock, fcntl.LOCK_UN)
        except OSError as error:
            told = dropped > self._told
            self._drop(len(lines) - max(written, told), f"{self._path} can't be written: {error}")
        if written:
            self._told = dropped

    def _line(self, record: Record) -> bytes:
        try:
            line = _encoded(record)
        except (ValueError, TypeError, RecursionError) as error:
            self._drop(1, f"a record is no JSON: {error}")
            return b""
        if len(line) > self._limit // 2:
            self._drop(1, f"a record has {len(line)} bytes, more than half of decision_log_bytes")
            return b""
        return line

    def _drop(self, count: int, why: str) -> None:
        with self._lock:
            self.dropped += count
            total = self.dropped
        LOG.error("the decision log has lost %s records so far: %s", total, why)


def _encoded(record: Record) -> bytes:
    return f"{json.dumps(record)}\n".encode("ascii")


def _parts(lines: list[bytes], limit: int) -> Iterator[list[bytes]]:
    """The lines in parts that a file may hold."""
    part: list[bytes] = []
    size = 0
    for line in lines:
        if size + len(line) > limit:
            yield part
            part, size = [], 0
        part.append(line)
        size += len(line)
    if part:
        yield part


def _append(path: Path, lines: bytes, limit: int) -> None:
    """Write whole lines, or nothing of them. Errors: OSError."""
    if path.exists() and path.stat().st_size + len(lines) > limit:
        path.replace(f"{path}.1")
    with open(path, "a+b", buffering=0, opener=partial(os.open, mode=0o640)) as file:
        before = file.tell()
        if before and os.pread(file.fileno(), 1, before - 1) != b"\n":  # a crash cut the last line off
            lines = b"\n" + lines
        if file.write(lines) < len(lines):
            file.truncate(before)
            raise OSError(ENOSPC, "the disk is full")


def read_log(path: Path) -> Iterator[Record | Diagnostic]:
    """The records of a log in order, those of the older file first, and a diagnostic for a line that is none, such as
    one that a crash cut off. Errors: InputError if there is no such file."""
    older = Path(f"{path}.1")
    for file in [older, path] if older.exists() else [path]:
        try:
            with file.open(encoding="utf-8", errors="replace") as lines:
                for number, line in enumerate(lines, 1):
                    yield _record(line, Span(str(file), number, 1, number, 1))
        except OSError as error:
            raise InputError([Diagnostic("unreadable", f"{file} can't be read: {error.strerror}")]) from None


def _record(line: str, place: Span) -> Record | Diagnostic:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Diagnostic("unreadable", f"the line is no record: {error}", place, None, "warning")
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        return Diagnostic("unreadable", f"the line is no record of {SCHEMA}", place, None, "warning")
    return record
