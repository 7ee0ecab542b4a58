"""A running Heat with services for grants, shared by the grant tests."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datalog_gate_edge import Edge

from datalog_gate.services.broker import Broker, Limits
from datalog_gate.services.contract import Service
from datalog_gate.services.journal import Journal
from datalog_gate.services.journal_claim import Claim
from tests.heat.doors.rig import HERE, Heat, install, running
from tests.heat.doors.trial_service import ENTRY_POINTS, Trial

CALL, STEP, LATE = 1.0, 3.0, 3.0
"""Seconds of a call, of a step, and in which an abandoned call may take effect."""
APPROVAL_RULES = """\
@unlock("approval") asked(grant) :- gate:grant(id=grant, service="approval").
@deny("long", "{string} is long") long(string) :- os:heat:random_string(_id=string, length=length), length > 64.
"""


class GrantHeat(Heat):
    """A Heat with three services: edge with two places, trial, and night, to which nobody is entitled."""

    @property
    def journal(self) -> Journal:
        return Journal(str(self.folder / "journal"), LATE)

    @property
    def services(self) -> dict[str, Service]:
        """The services as the engine has them."""
        edge = Edge({"file": str(self.folder / "places"), "places": "2"})
        return {"edge": edge, "trial": Trial({"folder": str(self.folder)})}

    @property
    def broker(self) -> Broker:
        """The broker of a reconciler."""
        return Broker(self.journal, self.services, time.time, time.monotonic, Limits(CALL, STEP, 10.0))

    def behave(self, how: str) -> None:
        """Set the behaviour of the service trial."""
        (self.folder / "behave").write_text(how)

    def holdings(self) -> list[str]:
        """The keys that trial holds."""
        return Trial({"folder": str(self.folder)}).holdings()

    def claims(self) -> list[Claim]:
        """The open claims, in the order of paths."""
        return sorted(self.journal.claims(), key=lambda claim: (claim.path, claim.since))

    def states(self) -> list[tuple[str, str]]:
        """The last name of each open claim's path, and its state."""
        return [(claim.path.rpartition("/")[2], claim.state) for claim in self.claims()]

    def events(self, name: str) -> list[tuple[str, str]]:
        """The resources and their new statuses, in order."""
        events = self.on(name, "GET", "/events?sort_dir=asc&limit=500").json()["events"]
        return [(event["resource_name"], event["resource_status"]) for event in events]

    def calls(self) -> list[str]:
        """The calls to trial."""
        file = self.folder / "calls"
        return [json.loads(line)[0] for line in file.read_text().splitlines()] if file.exists() else []


@contextmanager
def run_grant_heat(folder: Path, convergence: bool, **more: Any) -> Iterator[GrantHeat]:
    """Run a Heat with services for grants."""
    install(folder, "trial", ENTRY_POINTS)
    settings = [f"edge.file={folder}/places", "edge.places=2", f"trial.folder={folder}", f"night.file={folder}/night"]
    options = {
        "services": "edge, trial, night",
        "service_option": settings,
        "store": f"{folder}/journal",
        "service_call_seconds": str(CALL),
        "service_step_seconds": str(STEP),
        "service_lease_seconds": "10",
        "service_late_seconds": str(LATE),
        "reload_seconds": "0",
    }
    with running(folder, convergence, rules=HERE / "unlocks", options=options, **more) as heat:
        with (folder / "policy.yaml").open("a") as policy:
            policy.write('"datalog_gate:grant:night": "!"\n')
        yield GrantHeat(**vars(heat))


def grant(service: object = "edge", scope: object = None, **more: Any) -> dict[str, Any]:
    """A grant; `more` are properties."""
    properties = {"service": service, **({} if scope is None else {"scope": scope}), **more}
    return {"type": "DatalogGate::Policy", "properties": properties}


def value(of: object) -> dict[str, Any]:
    """A resource that holds a value."""
    return {"type": "OS::Heat::Value", "properties": {"value": of}}


def place(resource: str, grant: str = "g") -> dict[str, Any]:
    """The place that the grant got for a resource."""
    return {"get_attr": [grant, "decision", resource, "place"]}


def failing(value: str, **more: object) -> dict[str, Any]:
    """A resource that can fail."""
    return {"type": "OS::Heat::TestResource", "properties": {"value": value, **more}}
