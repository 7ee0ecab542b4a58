"""A provider's own service: places at the edge for granted resources.

Claims are kept in a file, by key. This is the smallest service that keeps all promises of `Service`: copy it, and
replace the file by requests to your server.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from datalog_gate.services.contract import Decision, Held, RefusedError, Request, Service, Status

Places = dict[str, dict[str, int] | None]
"""The place of each resource, by key; None for a released key, which can't be used again."""


class Edge(Service):
    """Its settings: `file`, which it writes, and `places`, the number of places."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        if unknown := settings.keys() - {"file", "places"}:
            raise ValueError(f"the service has no setting {', '.join(sorted(unknown))}")
        if not settings.get("file"):
            raise ValueError("the service needs a file")
        self._file = Path(settings["file"])
        self._all = range(1, int(settings.get("places", "10")) + 1)

    def facts(self, request: Request) -> None:
        with self._places() as places:
            self._given(request, places)

    def reserve(self, request: Request) -> Decision:
        with self._places() as places:
            if request.key not in places:
                places[request.key] = self._given(request, places)
                self._write(places)
            held = places[request.key]
        if held is None:
            raise RefusedError("this was released before")
        return {name: {"place": place} for name, place in held.items()}

    def release(self, held: Held) -> None:
        with self._places() as places:
            places[held.key] = None
            self._write(places)

    def status(self, held: Held) -> Status:
        with self._places() as places:
            return "held" if places.get(held.key) else "absent"

    def _given(self, request: Request, places: Places) -> dict[str, int]:
        """A place for each resource: the one that it has where this grant replaces another. Errors: RefusedError."""
        before = {name: place for key in reversed(request.replaces) for name, place in (places.get(key) or {}).items()}
        taken = {
            place for key, held in places.items() if held and key not in request.replaces for place in held.values()
        }
        names = [resource.id.rpartition("/")[2] for resource in request.scope]
        kept = {name: before[name] for name in names if name in before}
        free = [place for place in self._all if place not in taken and place not in kept.values()]
        new = [name for name in names if name not in kept]
        if len(new) > len(free):
            raise RefusedError(f"the edge has {len(free)} places left, and {len(new)} are asked for")
        return {**kept, **dict(zip(new, free, strict=False))}

    @contextmanager
    def _places(self) -> Iterator[Places]:
        """What is held, which nobody else changes meanwhile."""
        with self._file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield json.loads(self._file.read_text()) if self._file.exists() else {}

    def _write(self, places: Places) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(places))
        fresh.replace(self._file)
