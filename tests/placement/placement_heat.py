"""A real Heat whose services hold resources in a real Placement.

What needs a cloud in Heat is a stand-in (`stand_ins`). The rules are those that ship, and those of the guide.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from datalog_gate.services.journal import Journal
from datalog_gate.services.journal_claim import Claim
from tests.heat.doors.rig import RESOURCES, Heat, running
from tests.pages import DOCS
from tests.placement.rig import Cloud

SAMPLES = DOCS / "samples" / "grants"
STAND_INS = Path(__file__).parent / "stand_ins"
HOSTS = {"h1": ("r1", "z1", "VCPU", 4), "h2": ("r2", "z2", "VCPU", 4), "h3": ("r3", "z3", "VCPU", 2)}
POOLS = {"p2": ("r2", "z2", "DISK_GB", 100)}
SEATS = 2


@dataclass(frozen=True)
class PlacementHeat(Heat):
    """A Heat with all services. In its Placement are two seats of the licence acme_db, hosts in three racks, and a
    storage pool in the second: `uuids`, of resource classes of its own with this `prefix`."""

    cloud: Cloud
    prefix: str
    uuids: Mapping[str, str]

    @property
    def holdings(self) -> list[tuple[str, int]]:
        """What each consumer holds in Placement, by the name of the provider."""
        return [
            (name, amount)
            for name, uuid in self.uuids.items()
            for allocation in self.cloud.allocations(uuid)
            for amount in allocation.values()
        ]

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The open claims."""
        return Journal(f"{self.folder}/journal").claims()

    def properties(self, name: str, resource: str) -> dict[str, Any]:
        """The properties with which a stand-in was created."""
        properties: dict[str, Any] = self.attributes(name, resource)["given"]
        return properties

    def attributes(self, name: str, resource: str) -> dict[str, Any]:
        """The attributes of a resource."""
        attributes: dict[str, Any] = self.on(name, "GET", f"/resources/{resource}").json()["resource"]["attributes"]
        return attributes

    def outputs(self, name: str) -> dict[str, Any]:
        """The outputs of a stack."""
        return {output["output_key"]: output["output_value"] for output in self.stack(name)["outputs"]}

    @contextmanager
    def watched(self) -> Iterator[list[list[tuple[str, int]]]]:
        """Collect all that is held during the context."""
        holdings, over = [self.holdings], threading.Event()

        def look() -> None:
            while not over.wait(0.02):
                holdings.append(self.holdings)

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield holdings
        finally:
            over.set()
            thread.join()
            holdings.append(self.holdings)


@contextmanager
def run_placement_heat(folder: Path, cloud: Cloud, convergence: bool, **more: Any) -> Iterator[PlacementHeat]:
    """Run a Heat with services in a Placement."""
    prefix = f"CUSTOM_T{uuid4().hex.upper()}_"
    uuids = {"acme_db": cloud.provider(f"acme_db-{prefix}", {f"{prefix}ACME_DB": SEATS})}
    for name, (rack, zone, resource_class, amount) in (HOSTS | POOLS).items():
        traits = (f"CUSTOM_RACK_{rack.upper()}", f"CUSTOM_ZONE_{zone.upper()}")
        uuids[name] = cloud.provider(f"{name}-{prefix}", {prefix + resource_class: amount}, *traits)
    rules = shutil.copytree(DOCS.parent / "rules", folder / "rules")
    shutil.copy(SAMPLES / "unlock.dl", rules)
    settings = [
        *(f"{name}.{option}" for name in ("licence", "rack_affinity") for option in (
            f"endpoint={cloud.url}", f"prefix={prefix}", "timeout=30")),
        f"edge.file={folder}/places",
    ]  # fmt: skip
    services = "licence, rack_affinity, approval, edge"
    options = {"services": services, "service_option": settings, "store": f"{folder}/journal"}
    resources = f"{RESOURCES}, {STAND_INS}"
    with running(folder, convergence, rules=rules, options=options, resources=resources, **more) as heat:
        yield PlacementHeat(**vars(heat), cloud=cloud, prefix=prefix, uuids=uuids)
