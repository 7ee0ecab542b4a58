"""Signals that Heat itself turns into updates, by a trust."""

from __future__ import annotations

import json
import re

import requests

from tests.cloud.rig import Cloud, waited, without_ids
from tests.cloud.templates import of, reference, template

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
