"""A service that behaves as a test says.

It reads the name of a behaviour from a file, next to which it keeps its places, and writes a line for each call.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Mapping
from pathlib import Path

from datalog_gate.plugins.plugin_errors import RefusedError
from datalog_gate.services.contract import Decision, Held, Request, Service, Status
from tests.waiting import wait

ENTRY_POINTS = "[datalog_gate.services]\ntrial = tests.heat.doors.trial_service:Trial\n"


class Trial(Service):
    """Its one setting is a folder, whose file `behave` says how: kindly, refuse, hang, broken, late, slow, twice,
    lie or down."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._folder = Path(settings["folder"])

    def reserve(self, request: Request) -> Decision:
        match self._called("reserve", request.key):
            case "refuse":
                raise RefusedError("there is no \N{PILE OF POO} place\nfor you")
            case "hang":
                time.sleep(3600)
            case "broken" | "down":
                raise ConnectionError("500 Internal Server Error")
            case "late":
                wait(lambda: self._behaviour() != "late")
            case "slow":  # the answer comes too late, for an engine that is gone by then
                self._hold(request.key, True)
                time.sleep(3600)
            case "twice":
                self._hold(f"{request.key}, again", True)
        self._hold(request.key, True)
        return {part.id.rpartition("/")[2]: {"place": index} for index, part in enumerate(request.scope)}

    def release(self, held: Held) -> None:
        if self._called("release", held.key) == "down":
            raise ConnectionError("500 Internal Server Error")
        for key in (held.key, f"{held.key}, again"):
            self._hold(key, False)

    def status(self, held: Held) -> Status:
        lies = self._called("status", held.key) == "lie"
        return "held" if (held.key in self.holdings()) != lies else "absent"

    def holdings(self) -> list[str]:
        """The keys that it holds."""
        file = self._folder / "held"
        return sorted(json.loads(file.read_text())) if file.exists() else []

    def _called(self, call: str, key: str) -> str:
        """Record the call, and return the behaviour."""
        with (self._folder / "calls").open("a") as calls:
            calls.write(json.dumps([call, key]) + "\n")
        return self._behaviour()

    def _behaviour(self) -> str:
        behave = self._folder / "behave"
        return behave.read_text() if behave.exists() else "kindly"

    def _hold(self, key: str, whether: bool) -> None:
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            keys = {*self.holdings(), key} if whether else {*self.holdings()} - {key}
            (self._folder / "new").write_text(json.dumps(sorted(keys)))
            (self._folder / "new").replace(self._folder / "held")
