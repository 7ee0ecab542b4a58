"""Who may do what, as Keystone says who asks."""

from __future__ import annotations

from tests.cloud.rig import Cloud, without_ids
from tests.cloud.templates import CLOSED, NET, of, server, template

GRANT = of("DatalogGate::Policy", service="licence", scope=["web"], options={"name": "acme_db", "seats": 1})
LICENSED = template(grant=GRANT, web=server(), **NET)


def test_a_stack_is_seen_in_its_project_alone(cloud: Cloud) -> None:
    ann, olga = cloud.users["ann"], cloud.users["olga"]
    name, _ = ann.create(CLOSED)
    ann.outcome(name)
    unique = ann.stack(name)["id"]
    assert (name in cloud.users["rita"].names(), olga.names()) == (True, [])
    assert [olga.ask("GET", f"stacks/{key}").status_code for key in (name, unique, f"{name}/{unique}")] == [404] * 3
    ann.delete(name)


def test_a_reader_may_create_nothing(cloud: Cloud) -> None:
    _, answer = cloud.users["rita"].create(CLOSED)
    message = "You are not authorized to use stacks:create."
    assert (answer.status_code, answer.json()["error"]["message"]) == (403, message)


def test_stacks_of_all_projects_are_denied_to_an_admin_by_heats_default(cloud: Cloud) -> None:
    answer = cloud.users["root"].ask("GET", "stacks?global_tenant=true")
    message = "You are not authorized to use stacks:global_index."
    assert (answer.status_code, answer.json()["error"]["message"]) == (403, message)


def test_a_service_is_granted_to_the_role_of_its_rule(own_cloud: Cloud) -> None:
    ann, olga = own_cloud.users["ann"], own_cloud.users["olga"]
    answers = [user.ask("POST", "stacks/preview", stack_name="web", template=LICENSED) for user in (ann, olga)]
    assert [answer.status_code for answer in answers] == [200, 403]
    assert without_ids(answers[1].json()["error"]["message"]) == (
        "the grant web/grant does not unlock licence: the service licence is not enabled here, or not for this "
        "caller: use --services licence on the command line, or ask the operator to enable it, and to allow it in the "
        "policy datalog_gate:grant:licence [decision ID]"
    )
