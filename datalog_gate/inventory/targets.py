"""Where a pull is stored: a file or the store."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from datalog_gate.base.records import dataclass
from datalog_gate.inventory.snapshot import Snapshot, lines_by_relation, parse_snapshot, read_snapshot, write_snapshot

if TYPE_CHECKING:  # who pulls into a file needs no SQLAlchemy
    from datalog_gate.store.transaction import Store


@dataclass(frozen=True, slots=True)
class FileTarget:
    """A file, created by the first pull."""

    path: Path

    def read(self) -> Snapshot:
        """Read the last pull; empty before the first. Errors: InputError, OSError."""
        return read_snapshot(self.path) if self.path.exists() else Snapshot()

    def write(self, snapshot: Snapshot) -> None:
        """Replace the file. Errors: OSError."""
        write_snapshot(self.path, snapshot)


class StoreTarget:
    """The newest generation of the store. Errors of all methods: those of the store."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self.store, self._clock = store, clock
        self._written: tuple[int, Snapshot] | None = None
        """The number and content of the last written generation, which is read again only if another host wrote
        since."""

    def read(self) -> Snapshot:
        """Read the last pull, by any host; empty before the first. Errors: also InputError."""
        from datalog_gate.store.generations import find_newest, read_lines

        newest = find_newest(self.store)
        if newest and self._written and self._written[0] == newest.number:
            return self._written[1]
        text = read_lines(self.store, newest.number) if newest else None
        return parse_snapshot(text or "", "the store's inventory")

    def write(self, snapshot: Snapshot) -> None:
        """Write the next generation."""
        from datalog_gate.store.generations import write_generation

        generation = write_generation(self.store, lines_by_relation(snapshot), self._clock())
        self._written = generation.number, snapshot
