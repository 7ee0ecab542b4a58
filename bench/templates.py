"""Templates of any size for the benches, equal in every run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HEAD = "heat_template_version: 2021-04-16\n"


def attached(servers: int) -> dict[str, Any]:
    """Servers, each with a volume and its attachment."""
    resources: dict[str, Any] = {}
    for at in range(servers):
        zone = f"az{at % 3}"
        resources[f"server_{at}"] = _resource(
            "Nova::Server",
            name=f"server-{at}",
            flavor="m1.small" if at % 2 else "m1.large",
            image="ubuntu-24.04",
            availability_zone=zone,
            networks=[{"network": "private"}],
            security_groups=["default"],
            metadata={"role": "web", "index": str(at)},
        )
        resources[f"volume_{at}"] = _resource(
            "Cinder::Volume", name=f"volume-{at}", size=10 + at % 90, availability_zone=zone
        )
        resources[f"attach_{at}"] = _resource(
            "Cinder::VolumeAttachment",
            instance_uuid={"get_resource": f"server_{at}"},
            volume_id={"get_resource": f"volume_{at}"},
            mountpoint="/dev/vdb",
        )
    return {"heat_template_version": "2021-04-16", "resources": resources}


def group(members: int) -> dict[str, Any]:
    """A group of servers."""
    properties = {"name": "web-%index%", "flavor": "m1.small", "networks": [{"network": "private"}]}
    definition = {"type": "OS::Nova::Server", "properties": properties}
    nesting = _resource("Heat::ResourceGroup", count=members, resource_def=definition)
    return {"heat_template_version": "2021-04-16", "resources": {"group": nesting}}


def tree(depth: int, servers: int) -> tuple[str, dict[str, str]]:
    """A template with servers, and nested templates with the same down to a depth; and their files."""
    own = "".join(f"  s{at}: {{type: OS::Nova::Server, properties: {{flavor: m1.small}}}}\n" for at in range(servers))
    files = {f"{level}.yaml": HEAD + "resources:\n" + own + _below(level, depth) for level in range(1, depth + 1)}
    return HEAD + "resources:\n" + own + _below(0, depth), files


def _below(level: int, depth: int) -> str:
    return f"  below: {{type: {level + 1}.yaml}}\n" if level < depth else ""


def _resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"type": f"OS::{kind}", "properties": properties}


BOMBS: dict[str, Callable[[], str]] = {
    "aliases": lambda: (
        HEAD
        + "a0: &a0 [x, x, x, x, x, x, x, x]\n"
        + "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 8)}]\n" for at in range(1, 12))
    ),
    "flow style 10^5 deep": lambda: HEAD + "resources: " + "[" * 100_000 + "]" * 100_000,
    "JSON 10^5 deep": lambda: '{"heat_template_version": "2021-04-16", "resources": ' + "[" * 100_000 + "]" * 100_000,
    "count 10^9": lambda: (
        HEAD
        + "resources:\n  g:\n    type: OS::Heat::ResourceGroup\n"
        + "    properties: {count: 1000000000, resource_def: {type: OS::Nova::Server}}\n"
    ),
    "groups of groups": lambda: (
        HEAD
        + "resources:\n  g: "
        + "{type: OS::Heat::ResourceGroup, properties: {count: 99, resource_def: " * 3
        + "{type: OS::Nova::Server}"
        + "}}" * 3
    ),
    "50 MB of text": lambda: HEAD + "description: |\n" + "  x\n" * 12_500_000,
}
"""Texts that must end with a diagnostic."""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(attached(2000)))
