"""The doors before and in the Heat of a whole cloud."""

from __future__ import annotations

from tests.cloud.rig import Cloud, without_ids
from tests.cloud.templates import CLOSED, OPEN, WHOLE

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


def test_a_denied_stack_is_recorded_as_failed_and_made_good_by_an_update(own_cloud: Cloud) -> None:
    ann = own_cloud.users["ann"]
    with own_cloud.options("[datalog_gate]\ncreate_denial = failed_stack\n", "heat-api"):
        name, answer = ann.create(OPEN)
        reason = f"Resource CREATE failed: DeniedError: resources.denial: {WHY}"
        assert (answer.status_code, ann.outcome(name)) == (201, ("CREATE_FAILED", reason))
        assert ann.ask("PUT", f"stacks/{name}/{ann.stack(name)['id']}", template=CLOSED).status_code == 202
        assert ann.outcome(name) == ("UPDATE_COMPLETE", "Stack UPDATE completed successfully")
        ann.delete(name)
