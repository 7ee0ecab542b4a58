"""Grants with real servers, in both of Heat's engines."""

from __future__ import annotations

import time
from pathlib import Path

from datalog_gate.doors.cli.heat_conf import read_settings
from datalog_gate.services.approval import Approvals
from tests.cloud.rig import Cloud, without_ids
from tests.cloud.templates import NET, of, server, template

COMPLETE = ("CREATE_COMPLETE", "Stack CREATE completed successfully")
LARGE = template(
    approved=of("DatalogGate::Policy", service="approval", scope=["web"]),
    web=server(flavor="m1.large"),
    **NET,
)


def licensed(seats: int) -> dict[str, object]:
    options = {"name": "acme_db", "seats": seats}
    web = server(metadata={"licence": {"get_attr": ["grant", "decision", "web", "licence"]}})
    return template(grant=of("DatalogGate::Policy", service="licence", scope=["web"], options=options), web=web, **NET)


def seats(cloud: Cloud) -> int:
    """The seats of acme_db that Placement holds."""
    placement = cloud.admin.placement
    [provider] = placement.resource_providers(name="licences")
    usages = placement.get(f"/resource_providers/{provider.id}/usages", microversion="1.9").json()["usages"]
    return int(usages["CUSTOM_LICENSE_ACME_DB"])


def test_seats_of_a_licence_are_held_refused_and_given_back(engine: Cloud) -> None:
    ann = engine.users["ann"]
    name, _ = ann.create(licensed(3))
    assert (ann.outcome(name), seats(engine)) == (COMPLETE, 3)
    other, answer = ann.create(licensed(2))
    message = f"licence refuses the grant {other}/grant: the licence acme_db has 1 of 4 seats left, and 2 are asked for"
    assert (answer.status_code, without_ids(answer.json()["error"]["message"])) == (403, f"{message} [decision ID]")
    ann.delete(name)
    assert seats(engine) == 0


def test_a_large_server_is_built_once_a_person_has_approved_it(engine: Cloud) -> None:
    ann = engine.users["ann"]
    name, _ = ann.create(LARGE)
    status, reason = ann.outcome(name)
    number = reason.split()[-5]
    refusal = f"the service approval refuses this: awaiting approval {number} of the cloud team"
    assert (status, reason) == ("CREATE_FAILED", f"Resource CREATE failed: GrantError: resources.approved: {refusal}")
    settings, _ = read_settings(Path(f"{engine.folder}/etc/heat/heat.conf"))
    Approvals(settings.store).say(number, "approved", "ann", "for a test", time.time())
    assert ann.ask("PUT", f"stacks/{name}/{ann.stack(name)['id']}", template=LARGE).status_code == 202
    assert ann.outcome(name) == ("UPDATE_COMPLETE", "Stack UPDATE completed successfully")
    ann.delete(name)
