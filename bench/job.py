"""Three rules over servers and volumes: the job that peers do too.

The job goes from JSON text to violations.

A violation is the policy and what it blames: a server without a security group, more than 100 servers by their number,
an attachment of a volume in another zone than its server.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import datalog_gate as dg
from bench import templates
from datalog_gate.base.gc import paused
from datalog_gate.base.values import ResourceId

Violation = tuple[str, object]

RULES = """
@deny("job.group", "server {server} has no security group")
open(server) :- os:nova:server(_id=server), not os:nova:server.security_groups(_id=server).

@deny("job.many", "{n} servers")
many(n) :- n = count{ server : os:nova:server(_id=server) }, n > 100.

@deny("job.zone", "{attachment} attaches {volume} to {server} in another zone")
apart(attachment, server, volume) :- a != b,
    os:cinder:volume_attachment(_id=attachment, instance_uuid=server, volume_id=volume),
    os:nova:server(_id=server, availability_zone=a), os:cinder:volume(_id=volume, availability_zone=b).
"""


def body(servers: int) -> str:
    """The request: of every 50 servers one has no security group, and one volume is in another zone than its server."""
    template = templates.attached(servers)
    for at in range(0, servers, 50):
        del template["resources"][f"server_{at}"]["properties"]["security_groups"]
        template["resources"][f"volume_{at + 1}"]["properties"]["availability_zone"] = "elsewhere"
    return json.dumps({"stack_name": "big", "template": template})


def unsure(servers: int) -> str:
    """The same request, with unknown zones for a tenth of the servers and volumes.

    Whether these are attached in one zone is unknown too."""
    request = json.loads(body(servers))
    resources = request["template"]["resources"]
    for at in range(3, servers, 10):
        for name, other in ((f"server_{at}", at - 1), (f"volume_{at}", at - 2)):
            resources[name]["properties"]["availability_zone"] = {"get_attr": [f"server_{other}", "accessIPv4"]}
        resources[f"attach_{at}"]["properties"]["mountpoint"] = {"get_attr": [f"server_{at}", "accessIPv6"]}
    return json.dumps(request)


def rules() -> dg.Rules:
    """Our rules, loaded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.dl"
        path.write_text(RULES)
        return dg.load_rules(path)


@paused()
def ours(policies: dg.Rules, text: str) -> set[Violation]:
    """The violations that this package finds, as the filter judges a request: its garbage collector is paused."""
    request = json.loads(text)
    stack = dg.read_stack(template=request["template"], stack_name=request["stack_name"])
    violations = policies.decide(stack).violations
    return {
        (violation.policy, blamed.name if isinstance(blamed := violation.row[0], ResourceId) else blamed)
        for violation in violations
    }


if __name__ == "__main__":
    ours(rules(), body(int(sys.argv[1])))
