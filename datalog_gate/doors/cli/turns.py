"""Decides which of several hosts runs a repeated command."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

from datalog_gate.store.leases import Lease
from datalog_gate.store.transaction import Store

LEASE = 120.0
"""The minimum seconds after which another host takes over from one that has disappeared."""


class Turns:
    """The turns of this process at a command that repeats at an interval. Errors of all methods: those of the store."""

    def __init__(self, store: Store, command: str, every: float, clock: Callable[[], float] = time.time) -> None:
        owner = f"{socket.gethostname()} {os.getpid()}"
        self._lease = Lease(store, command, max(LEASE, 2 * every), owner, clock)
        self._owner = ""

    def take(self) -> str | None:
        """Take a turn. Returns None if it is ours, else who works; empty if that was already reported."""
        owner = self._lease.take().rpartition(" ")[0]
        before, self._owner = self._owner, owner
        if not owner:
            return None
        return "" if owner == before else f"host {owner.replace(' ', ', process ')} does this now, and this host waits"

    def end(self) -> None:
        """Let another host take over at once."""
        self._lease.end()
