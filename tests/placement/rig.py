"""A real Placement process, with requests of its operator."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import requests

from tests.servers import free_ports, serving_process

HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}


@dataclass(frozen=True)
class Cloud:
    """The API of Placement and the process that serves it."""

    url: str
    process: subprocess.Popen[bytes]

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request that must succeed."""
        answer = requests.request(method, f"{self.url}{path}", json=body, headers=HEADERS, timeout=30)
        assert answer.ok, answer.text
        return answer.json() if answer.content else None

    def provider(self, name: str, inventory: Mapping[str, int], *traits: str) -> str:
        """Create a provider with all of these classes and traits; return its uuid."""
        uuid = str(uuid4())
        for resource_class in inventory:
            if resource_class.startswith("CUSTOM_"):
                self.ask("PUT", f"/resource_classes/{resource_class}")
        for trait in traits:
            self.ask("PUT", f"/traits/{trait}")
        self.ask("POST", "/resource_providers", {"name": name, "uuid": uuid})
        self.inventory(uuid, inventory, 0)
        self.ask("PUT", f"/resource_providers/{uuid}/traits",
                 {"traits": list(traits), "resource_provider_generation": 1})  # fmt: skip
        return uuid

    def inventory(self, uuid: str, inventory: Mapping[str, int], generation: int) -> None:
        """Set the inventory of a provider."""
        body = {name: {"total": total} for name, total in inventory.items()}
        self.ask("PUT", f"/resource_providers/{uuid}/inventories",
                 {"resource_provider_generation": generation, "inventories": body})  # fmt: skip

    def allocations(self, uuid: str) -> list[dict[str, int]]:
        """The allocations of each consumer of a provider."""
        allocations = self.ask("GET", f"/resource_providers/{uuid}/allocations")["allocations"]
        return sorted((allocation["resources"] for allocation in allocations.values()), key=str)

    def used(self, uuid: str) -> dict[str, int]:
        """The usages of a provider."""
        usages: dict[str, int] = self.ask("GET", f"/resource_providers/{uuid}/usages")["usages"]
        return usages


@contextmanager
def running(folder: Path, port: int = 0) -> Iterator[Cloud]:
    """Run Placement, on a free port unless one is given."""
    port = port or free_ports(1)[0]
    command = [sys.executable, "-W", "ignore", str(Path(__file__).parent / "server.py"), str(folder), str(port)]
    with serving_process(command, folder) as server:
        yield Cloud(f"http://127.0.0.1:{port}", server)
