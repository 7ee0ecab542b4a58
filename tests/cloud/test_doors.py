"""Doors, grants and signals in a whole cloud."""

from __future__ import annotations

import json
import re

import requests

from tests.cloud.rig import Cloud, waited, without_ids
from tests.cloud.templates import NET, OPEN, WHOLE, of, reference, server, template

WHY = (
    "The policies deny this stack: cloud.open_ssh: group opens port 22 to 0.0.0.0/0 "
    "at resources.group.properties.rules.0 (limit remote_ip_prefix to an office network) [decision ID]"
)
COMPLETE = ("CREATE_COMPLETE", "Stack CREATE completed successfully")


def test_a_denied_stack_is_answered_with_its_reason_and_never_exists(own_cloud: Cloud) -> None:
    ann = own_cloud.users["ann"]
    name, answer = ann.create(OPEN)
    message = without_ids(answer.json()["error"]["message"])
    assert (answer.status_code, message) == (403, WHY)
    assert ann.ask("GET", f"stacks/{name}").status_code == 404


def test_an_allowed_stack_with_a_server_and_a_volume_completes(cloud: Cloud) -> None:
    ann = cloud.users["ann"]
    name, answer = ann.create(WHOLE)
    assert (answer.status_code, answer.headers["Datalog-Gate"].split()[0]) == (201, "allow")
    assert ann.outcome(name) == COMPLETE
    assert ann.resources(name) == dict.fromkeys(WHOLE["resources"], "CREATE_COMPLETE")
    ann.delete(name)


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


GROUP = template(
    group=of("OS::Heat::AutoScalingGroup", min_size=1, max_size=9, desired_capacity=1,
             resource={"type": "OS::Heat::RandomString"}),
    more=of("OS::Heat::ScalingPolicy", auto_scaling_group_id=reference("group"), adjustment_type="change_in_capacity",
            scaling_adjustment=1, cooldown=0),
)  # fmt: skip
GROUP["outputs"] = {"url": {"value": {"get_attr": ["more", "alarm_url"]}}}


def test_a_signal_without_a_token_is_judged_by_the_engine(own_cloud: Cloud) -> None:
    ann = own_cloud.users["ann"]
    name, _ = ann.create(GROUP)
    assert ann.outcome(name)[0] == "CREATE_COMPLETE"
    [output] = ann.stack(name)["outputs"]

    def signal() -> int:
        """Send the signal: Heat drops it while the group is still busy with the last one."""
        assert requests.post(output["output_value"], timeout=60).status_code == 200
        return len(strings(own_cloud, name))

    waited(signal, lambda size: size == 2)
    waited(signal, lambda _: bool(refusals(own_cloud, name)))
    reason = (
        "The policies deny this stack: tests.strings: the stack has 3 strings at GROUP (two are enough) [decision ID]"
    )
    assert (len(strings(own_cloud, name)), refusals(own_cloud, name)[0]) == (2, ("engine", "update", "denied", reason))
    ann.delete(name)


def refusals(cloud: Cloud, name: str) -> list[tuple[str, ...]]:
    """Decisions on the stack that are not allowed: door, action, verdict and reason."""
    assert cloud.folder
    lines = (cloud.folder / "log" / "decisions.jsonl").read_text().splitlines()
    records = [record for record in map(json.loads, lines) if record.get("stack_name", "").split("-")[0] == name]
    return [
        (record["door"], record["action"], record["verdict"], _shown(record["reason"]))
        for record in records
        if record["verdict"] != "allowed"
    ]


def _shown(reason: str) -> str:
    """A reason without the random name of the group's new member."""
    return re.sub(r"at <\w+/group>:resources\.\w+", "at GROUP", without_ids(reason))


def strings(cloud: Cloud, name: str) -> list[str]:
    """The strings in the group of the stack that are complete."""
    rows = cloud.users["ann"].ask("GET", f"stacks/{name}/resources?nested_depth=2").json()["resources"]
    complete = [row for row in rows if row["resource_status"] == "CREATE_COMPLETE"]
    return [row["resource_name"] for row in complete if row["resource_type"] == "OS::Heat::RandomString"]
