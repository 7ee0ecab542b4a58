"""The rules in force (layer 6): loaded again when their files change, the last good ones kept.

In: paths. Out: a `Ruleset`, swapped in with one assignment, so that each decision is made by one of them alone. What
loads them is the request that first sees a change; the others go on with those before. Files that change while they are
read, or that somebody has just begun to write, are no new rules yet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from datalog_gate.api import Rules, load_rules
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import DiagnosticsError, InputError
from datalog_gate.decision.cloud_state import Inventory
from datalog_gate.decision.finding import Waiver
from datalog_gate.decision_point.settings import Settings
from datalog_gate.files.rules import default_rules, folder_of
from datalog_gate.files.templates import read_catalogue

Seen = dict[str, tuple[int, int, int]]
"""What a look at files tells: inode, size and time of change by path. The time is the system's own, which new contents
change, and new rights too, whatever time somebody gives the file."""
PASSING = frozenset({"unreadable"})
"""Codes of what may pass though no file changes, as too many open files do."""


@dataclass(frozen=True, slots=True)
class Ruleset:
    """Rules with the inventory that was loaded for them, when its file was written (UTC) if there is one, and the
    waivers."""

    rules: Rules
    inventory: Inventory
    written: datetime | None
    waivers: tuple[Waiver, ...]


class Rulebook:
    """The rules of the settings. Errors when made: RulesError, InputError."""

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], float],
        loaded: Callable[[Ruleset], None],
        failed: Callable[[DiagnosticsError], None],
    ) -> None:
        self._paths = [Path(rule) for rule in settings.rules] or [default_rules()]
        self._catalogue = settings.catalogue
        self._inventory = settings.inventory
        self._waivers = settings.waivers
        self._pause, self._clock = settings.reload_seconds, clock
        self._loaded, self._failed = loaded, failed
        self._lock = Lock()
        self._problem = ""
        self._looked = clock()
        self._seen = self._look()
        self._ruleset = self._load(None)
        loaded(self._ruleset)

    def current(self) -> Ruleset:
        """The rules in force."""
        if self._clock() - self._looked < self._pause or not self._lock.acquire(blocking=False):
            return self._ruleset
        try:
            self._looked = self._clock()
            seen = self._look()
            if seen != self._seen:
                self._change(seen)
        finally:
            self._lock.release()
        return self._ruleset

    def _change(self, seen: Seen) -> None:
        """Load what was seen, and put it in force if it is good and was not changed meanwhile."""
        found: Ruleset | DiagnosticsError
        try:
            _begun(self._seen, seen)
            found = self._load(self._ruleset)
        except DiagnosticsError as error:
            found = error
        if self._look() != seen:
            return
        if isinstance(found, Ruleset):
            self._seen, self._ruleset, self._problem = seen, found, ""
            self._loaded(found)
            return
        if not any(diagnostic.code in PASSING for diagnostic in found.diagnostics):
            self._seen = seen  # it is not tried again before it changes
        if str(found) != self._problem:
            self._problem = str(found)
            self._failed(found)

    def _load(self, before: Ruleset | None) -> Ruleset:
        try:
            rules = load_rules(*self._paths, catalogue=read_catalogue(*self._catalogue))
            old = before.inventory if before and before.rules.catalogue is rules.catalogue else None
            inventory = rules.inventory(Path(self._inventory) if self._inventory else {}, old)
            written = Path(self._inventory).stat().st_mtime if self._inventory else None
            waivers = rules.waivers(self._waivers or ())
        except OSError as error:  # what goes while it is read
            raise InputError([Diagnostic("unreadable", f"the rules can't be read: {error}")]) from None
        return Ruleset(rules, inventory, None if written is None else datetime.fromtimestamp(written, UTC), waivers)

    def _look(self) -> Seen:
        seen: Seen = {}
        for path in self._files():
            try:
                found = path.stat()
            except OSError:
                seen[str(path)] = (0, 0, 0)
            else:
                seen[str(path)] = (found.st_ino, found.st_size, found.st_ctime_ns)
        return seen

    def _files(self) -> Iterator[Path]:
        yield from map(Path, self._catalogue)
        yield from map(Path, filter(None, (self._inventory, self._waivers)))
        for _, path in map(folder_of, self._paths):
            yield path
            for folder, _, files in os.walk(path):
                yield from (Path(folder, file) for file in files)


def _begun(before: Seen, now: Seen) -> None:
    """Errors: InputError if a file has lost all that it held, as one that is written anew does for a moment, or for
    good where the disk is full: its policies would be gone without a word."""
    lost = [
        Diagnostic("unreadable", f"{path} is empty now", None, "remove it, or write it elsewhere and move it here")
        for path, (inode, size, _) in now.items()
        if inode and not size and before.get(path, (0, 0, 0))[1]
    ]
    if lost:
        raise InputError(lost)
