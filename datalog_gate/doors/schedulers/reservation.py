"""The reservation behind a grant's scheduler hints, proved by Placement.

The hints name the rack, the host or pool, and the claim: the consumer in Placement that holds the reservation for the
stack. Users may write any hints, so nothing in them is trusted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from keystoneauth1 import exceptions
from oslo_config import cfg

from datalog_gate.rack_affinity.hints import CLAIM, HOST, RACK_TRAIT

CONSUMER_TYPE = "DATALOG_GATE"
MICROVERSION = "1.38"
"""The first version with consumer types."""
RACK_HINT = cfg.StrOpt("hint", default="rack", help="The setting `hint` of the service rack_affinity.")
cfg.CONF.register_opt(RACK_HINT, group="datalog_gate")

Ask = Callable[[str], Any]
"""Reads the JSON at a path of Placement. Errors: UnprovenError."""


class UnprovenError(Exception):
    """The hints are forged or not reserved for this project, or Placement can't tell."""


@dataclass(frozen=True)
class Reservation:
    """The provider on which a claim holds a reservation, and the trait of its rack; empty without one."""

    name: str
    uuid: str
    rack: str


def read_reservation(hints: Mapping[str, Any], project: str, ask: Ask) -> Reservation | None:
    """Read the reservation of hints for a project; None if they are not those of a grant. Errors: UnprovenError."""
    claim, host, rack = (hints.get(name) for name in (CLAIM, HOST, cfg.CONF.datalog_gate.hint))
    if claim is host is rack is None:
        return None
    if not isinstance(claim, str) or not isinstance(host, str):
        raise UnprovenError(f"the hints of a grant are {CLAIM} and {HOST}, each a string")
    try:
        consumer = str(UUID(claim))
    except ValueError:
        raise UnprovenError(f"{CLAIM} is not a UUID") from None
    allocation = ask(f"/allocations/{consumer}")
    if allocation.get("consumer_type") != CONSUMER_TYPE or allocation.get("project_id") != project:
        raise UnprovenError(f"project {project} has no claim {consumer}")
    providers = ask(f"/resource_providers?{urlencode({'name': host})}")["resource_providers"]
    uuid = next((provider["uuid"] for provider in providers if provider["uuid"] in allocation["allocations"]), None)
    if uuid is None:
        raise UnprovenError(f"claim {consumer} has no allocation on {host}")
    traits = [trait for trait in ask(f"/resource_providers/{uuid}/traits")["traits"] if trait.startswith(RACK_TRAIT)]
    if rack is not None and traits not in ([], [RACK_TRAIT + re.sub(r"[^A-Z0-9_]", "_", str(rack).upper())]):
        raise UnprovenError(f"{host} is not in rack {rack}")
    return Reservation(host, uuid, "".join(traits[:1]))


def read_rack(trait: str, ask: Ask) -> set[str]:
    """The uuids of the providers in a rack. Errors: UnprovenError."""
    providers = ask(f"/resource_providers?{urlencode({'required': trait})}")["resource_providers"]
    return {provider["uuid"] for provider in providers}


def make_ask(make_adapter: Callable[[], Any]) -> Ask:
    """Create a function that queries Placement. The keystoneauth adapter is created when it is first needed."""
    adapter = cache(make_adapter)

    def ask(path: str) -> Any:
        try:
            answer = adapter().get(path, microversion=MICROVERSION, raise_exc=False)
            if answer.status_code == 200:
                return answer.json()
        except (exceptions.ClientException, OSError, ValueError) as error:
            raise UnprovenError(f"Placement does not answer: {type(error).__name__}: {error}") from error
        raise UnprovenError(f"Placement answered {answer.status_code} to {path}")

    return ask
