"""Stacks that are read back, and the cloud after their deletion."""

from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor

from tests.cloud.rig import COMMAND, PASSWORD, STACKS, Cloud, User
from tests.cloud.templates import WHOLE, of, template

NUMBER = STACKS or 10
"""Stacks that are created at once."""


JUDGED = (
    "0 denied, 0 warnings, 0 undetermined; 207 policies, 13 facts; 6 policies judge the whole cloud: skipped; "
    "allow; decision ID"
)


def check_stack(user: User, name: str) -> tuple[int, str]:
    """The exit code of `check --stack`, and its last line without the decision."""
    credentials = user.connection.config.get_auth_args()
    names = ("auth_url", "username", "user_domain_id", "project_id")
    variables = {f"OS_{key.upper()}": str(credentials[key]) for key in names}
    others = {key: value for key, value in os.environ.items() if not key.startswith("OS_")}
    done = subprocess.run([COMMAND, "check", "--stack", name], capture_output=True, text=True, check=False,
                          env={**others, **variables, "OS_PASSWORD": PASSWORD})  # fmt: skip
    return done.returncode, re.sub("decision [0-9a-f]{6}", "decision ID", (done.stdout or done.stderr).splitlines()[-1])


def strings(number: int) -> dict[str, object]:
    """A template of one string, or of two."""
    return template(**{f"s{index}": of("OS::Heat::RandomString") for index in range(number % 2 + 1)})


def test_stacks_that_are_created_at_once_are_read_back(cloud: Cloud) -> None:
    ann = cloud.users["ann"]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: ann.create(strings(number)), range(NUMBER)))
        outcomes = list(pool.map(lambda answer: ann.outcome(answer[0])[0], answers))
    assert outcomes == ["CREATE_COMPLETE"] * NUMBER
    counts = [len(ann.resources(name)) for name, _ in answers]
    assert counts == [number % 2 + 1 for number in range(NUMBER)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda answer: ann.delete(answer[0]), answers))
    assert ann.names() == []


def test_a_live_stack_is_judged_by_its_name_and_by_its_id(cloud: Cloud) -> None:
    ann, olga = cloud.users["ann"], cloud.users["olga"]
    name, _ = ann.create(strings(0))
    ann.outcome(name)
    unique = ann.stack(name)["id"]
    assert [check_stack(ann, key) for key in (name, unique)] == [(0, JUDGED)] * 2
    refusals = [(3, f"error[unreadable] Heat has no stacks/{key}") for key in (name, unique)]
    assert [check_stack(olga, key) for key in (name, unique)] == refusals
    ann.delete(name)


def test_nothing_is_left_of_a_deleted_stack(own_cloud: Cloud) -> None:
    ann = own_cloud.users["ann"]
    before = contents(own_cloud)
    grant = of("DatalogGate::Policy", service="licence", scope=["web"], options={"name": "acme_db", "seats": 1})
    name, _ = ann.create({**WHOLE, "resources": {**WHOLE["resources"], "grant": grant}})
    assert ann.outcome(name)[0] == "CREATE_COMPLETE"
    kinds = {kind: len(names - before[kind]) for kind, names in contents(own_cloud).items()}
    ann.delete(name)
    assert kinds == {
        "servers": 1, "volumes": 1, "ports": 1, "networks": 1, "trusts": 1, "consumers": 2, "claims": 1,
    }  # fmt: skip
    assert contents(own_cloud) == before


def contents(cloud: Cloud) -> dict[str, set[str]]:
    """The ids of the resources of the cloud by kind, and the claims of `services status`."""
    admin = cloud.admin
    placement = {"microversion": "1.29"}
    consumers: set[str] = set()
    for provider in admin.placement.resource_providers():
        answer = admin.placement.get(f"/resource_providers/{provider.id}/allocations", **placement)
        consumers.update(answer.json()["allocations"])
    trusts = admin.identity.get("/OS-TRUST/trusts").json()["trusts"]
    status = [COMMAND, "services", "status", "--heat-conf", f"{cloud.folder}/etc/heat/heat.conf"]
    claims = subprocess.run(status, check=True, capture_output=True, text=True).stdout
    return {
        "servers": {server.id for server in admin.compute.servers(all_projects=True)},
        "volumes": {volume.id for volume in admin.block_storage.volumes(all_projects=True)},
        "ports": {port.id for port in admin.network.ports()},
        "networks": {network.id for network in admin.network.networks()},
        "trusts": {trust["id"] for trust in trusts},
        "consumers": consumers,
        "claims": set(re.findall(r"licence \S+ of project \w+", claims)),
    }
