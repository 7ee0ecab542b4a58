"""Values that are reloaded when their files or the store change.

The previous value stays if files do not load, change while they are read, or are just being written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import DiagnosticsError, InputError

FileStates = dict[str, tuple[int, int, int]]
"""Inode, size and ctime in nanoseconds by path; zeros for a missing file. The ctime changes with contents and
permissions, and nobody can set it."""
RETRY_SECONDS = 60.0
"""Seconds until files that failed to load are tried again without a change, so that the failure is reported until it
ends."""
Value = TypeVar("Value")


class WatchedFiles(Generic[Value]):
    """A value loaded from files. Threads that share it take turns. `states` reads what changes with the files, and
    `load` is given the value before, None at first. Errors on creation: those of `load`."""

    def __init__(self, states: Callable[[], FileStates], load: Callable[[Value | None], Value]) -> None:
        self._read_states, self._load = states, load
        self._states = states()
        self._tried: FileStates = {}
        """The states of the files that failed to load."""
        self._tried_at = 0.0
        self.problem: DiagnosticsError | None = None
        """Why the current files failed to load."""
        self.value: Value = load(None)

    def has_changed(self, now: float) -> bool:
        """Whether the files must be loaded. `now` is in seconds of any clock."""
        return self._is_due(self._read_states(), now)

    def look(self, now: float, failed: Callable[[DiagnosticsError], None]) -> None:
        """Load the files if they have changed, and call `failed` if they do not load."""
        states = self._read_states()
        if not self._is_due(states, now):
            if states == self._states:
                self.problem = None
            return
        problem: DiagnosticsError | None = None
        value = self.value
        try:
            _check_truncated(self._states, states)
            value = self._load(self.value)
        except DiagnosticsError as error:
            problem = error
        if self._read_states() != states:
            return
        if problem:
            self._tried, self._tried_at, self.problem = states, now, problem
            failed(problem)
        else:
            self._states, self.value, self.problem = states, value, None

    def _is_due(self, states: FileStates, now: float) -> bool:
        return states != self._states and (states != self._tried or now - self._tried_at >= RETRY_SECONDS)


def read_states(paths: Callable[[], Iterable[Path]]) -> FileStates:
    """Read the states of the files and folders."""
    states: FileStates = {}
    for path in paths():
        states[str(path)] = (0, 0, 0)
        with suppress(OSError):
            status = path.stat()
            states[str(path)] = (status.st_ino, status.st_size, status.st_ctime_ns)
    return states


def _check_truncated(before: FileStates, after: FileStates) -> None:
    """Refuse a file that has become empty: it is being written, or the disk is full. Errors: InputError."""
    empty = [
        Diagnostic(
            "unreadable", f"{path} is empty now", None, "remove it, or write the new file elsewhere and move it here"
        )
        for path, (inode, size, _) in after.items()
        if inode and not size and before.get(path, (0, 0, 0))[1]
    ]
    if empty:
        raise InputError(empty)
