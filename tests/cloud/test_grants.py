"""Grants with real servers, in both of Heat's engines."""

from __future__ import annotations

from tests.cloud.rig import Cloud, without_ids
from tests.cloud.templates import NET, of, server, template

COMPLETE = ("CREATE_COMPLETE", "Stack CREATE completed successfully")


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
