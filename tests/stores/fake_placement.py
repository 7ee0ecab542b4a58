"""A Placement with one provider of one resource class, for many processes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from tests.servers import serving

UUID = "11111111-1111-1111-1111-111111111111"


class FakePlacement:
    """What consumers hold of so many units. Allocations have generations, and are refused past the units."""

    def __init__(self, resource_class: str, units: int) -> None:
        self.url = ""
        self.allocations: dict[str, tuple[int, int]] = {}
        """Units and generation by consumer."""
        self._class, self._units, self._lock = resource_class, units, Lock()

    def held(self) -> dict[str, int]:
        """The units of each consumer that holds any."""
        return {consumer: units for consumer, (units, _) in self.allocations.items() if units}

    def get(self, path: str) -> object:
        used = sum(units for units, _ in self.allocations.values())
        name, provider = self._class, {"uuid": UUID, "name": "licences"}
        if consumer := path.partition("/allocations/")[2]:
            units, generation = self.allocations.get(consumer, (0, 0))
            held = {UUID: {"resources": {name: units}}} if units else {}
            return {"allocations": held, **({"consumer_generation": generation} if units else {})}
        if path.startswith("/allocation_candidates"):
            resources = {name: {"capacity": self._units, "used": used}}
            summary = {"resources": resources, "traits": []}
            return {"provider_summaries": {UUID: summary} if used < self._units else {}}
        match path.removeprefix(f"/resource_providers/{UUID}"):
            case "":
                return provider
            case "/inventories":
                inventory = {"total": self._units, "reserved": 0, "allocation_ratio": 1.0}
                return {"inventories": {name: inventory}}
            case "/usages":
                return {"usages": {name: used}}
            case "/traits":
                return {"traits": []}
        return {"resource_providers": [provider] if used < self._units else []}

    def put(self, consumer: str, body: dict[str, Any]) -> tuple[int, object]:
        units = sum(sum(of["resources"].values()) for of in body["allocations"].values())
        with self._lock:
            before, generation = self.allocations.get(consumer, (0, 0))
            if body["consumer_generation"] != (generation if before else None):
                return 409, {"errors": [{"code": "placement.concurrent_update", "detail": "generation"}]}
            if sum(held for held, _ in self.allocations.values()) - before + units > self._units:
                return 409, {"errors": [{"code": "placement.undefined_code", "detail": "no room"}]}
            self.allocations[consumer] = units, generation + 1
        return 204, None


@contextmanager
def running_placement(resource_class: str, units: int) -> Iterator[FakePlacement]:
    placement = FakePlacement(resource_class, units)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(200, placement.get(self.path))

        def do_PUT(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            [consumer] = re.findall(r"/allocations/(.+)", self.path)
            self._answer(*placement.put(consumer, body))

        def _answer(self, status: int, body: object) -> None:
            content = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 64
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    placement.url = f"http://127.0.0.1:{server.server_port}"
    with serving(server):
        yield placement
