"""The rules in force, which are loaded again when their files change.

Each decision uses one `Ruleset`, which is replaced by one assignment. The request that first sees a change loads the
new files; the other requests use the previous rules meanwhile. Files that do not load, that change while they are read,
or that somebody has just begun to write, leave the previous rules in force.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from datalog_gate.api import Rules, load_rules
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import DiagnosticsError, InputError
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.decision import Waiver
from datalog_gate.decision_point.settings import Settings
from datalog_gate.files.rules import default_rules, find_rules
from datalog_gate.files.templates import read_catalogue

FileStates = dict[str, tuple[int, int, int]]
"""Inode, size and ctime in nanoseconds by path. The ctime changes with contents and rights, and nobody can set it."""
TRANSIENT = frozenset({"unreadable"})
"""Codes of problems that may pass without a change of any file, as too many open files do."""


@dataclass(frozen=True, slots=True)
class Ruleset:
    """Rules with the inventory and the waivers that were loaded with them."""

    rules: Rules
    inventory: Inventory
    written: datetime | None
    """When the file of the inventory was written (UTC), if there is one."""
    waivers: tuple[Waiver, ...]


class PolicyReloader:
    """Loads the rules that the settings name, and loads them again on change.

    Calls `loaded` with each new ruleset, and `failed` with each new problem. Errors on creation: RulesError,
    InputError.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float],
        loaded: Callable[[Ruleset], None],
        failed: Callable[[DiagnosticsError], None],
    ) -> None:
        self._paths = [Path(rule) for rule in settings.rules] or [default_rules()]
        self._settings, self._clock = settings, clock
        self._loaded, self._failed = loaded, failed
        self._lock = Lock()
        self._last_problem = ""
        self._checked = clock()
        self._states = self._read_states()
        self._ruleset = self._load(None)
        loaded(self._ruleset)

    def current(self) -> Ruleset:
        """The rules in force, loaded again if their files have changed."""
        due = self._clock() - self._checked >= self._settings.reload_seconds
        if not due or not self._lock.acquire(blocking=False):
            return self._ruleset
        try:
            self._checked = self._clock()
            states = self._read_states()
            if states != self._states:
                self._reload(states)
        finally:
            self._lock.release()
        return self._ruleset

    def _reload(self, states: FileStates) -> None:
        """Load the files, and put the rules in force if they are good and no file has changed meanwhile."""
        result: Ruleset | DiagnosticsError
        try:
            _check_truncated(self._states, states)
            result = self._load(self._ruleset)
        except DiagnosticsError as error:
            result = error
        if self._read_states() != states:
            return
        if isinstance(result, Ruleset):
            self._states, self._ruleset, self._last_problem = states, result, ""
            self._loaded(result)
            return
        if not any(diagnostic.code in TRANSIENT for diagnostic in result.diagnostics):
            self._states = states  # do not try again before the next change
        if str(result) != self._last_problem:
            self._last_problem = str(result)
            self._failed(result)

    def _load(self, before: Ruleset | None) -> Ruleset:
        file = Path(self._settings.inventory) if self._settings.inventory else None
        try:
            rules = load_rules(*self._paths, catalogue=read_catalogue(*self._settings.catalogue))
            old = before.inventory if before and before.rules.catalogue is rules.catalogue else None
            inventory = rules.inventory(file or {}, old)
            written = datetime.fromtimestamp(file.stat().st_mtime, UTC) if file else None
            waivers = rules.waivers(self._settings.waivers or ())
        except OSError as error:  # a file was removed while it was read
            raise InputError.of(f"the rules can't be read: {error}") from None
        return Ruleset(rules, inventory, written, waivers)

    def _read_states(self) -> FileStates:
        states: FileStates = {}
        for path in self._files():
            states[str(path)] = (0, 0, 0)
            with suppress(OSError):
                status = path.stat()
                states[str(path)] = (status.st_ino, status.st_size, status.st_ctime_ns)
        return states

    def _files(self) -> Iterator[Path]:
        settings = self._settings
        yield from map(Path, filter(None, (*settings.catalogue, settings.inventory, settings.waivers)))
        for _, path in map(find_rules, self._paths):
            yield path
            for folder, _, files in os.walk(path):
                yield from (Path(folder, file) for file in files)


def _check_truncated(before: FileStates, after: FileStates) -> None:
    """Refuse a file that has become empty: it is being written, or the disk is full. Errors: InputError."""
    empty = [
        Diagnostic("unreadable", f"{path} is empty now", None, "remove it, or write it elsewhere and move it here")
        for path, (inode, size, _) in after.items()
        if inode and not size and before.get(path, (0, 0, 0))[1]
    ]
    if empty:
        raise InputError(empty)
