"""Templates of the tests, as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SMALL = "m1.small"


def template(**resources: Mapping[str, Any]) -> dict[str, Any]:
    """A template of these resources."""
    return {"heat_template_version": "2018-08-31", "resources": resources}


def of(kind: str, **properties: Any) -> dict[str, Any]:
    """A resource with these properties."""
    return {"type": kind, "properties": properties}


def reference(name: str) -> dict[str, str]:
    return {"get_resource": name}


def server(**properties: Any) -> dict[str, Any]:
    """A server of the smallest size on the network `net` of the template."""
    networks = [{"network": reference("net")}]
    return of("OS::Nova::Server", **{"image": "debian", "flavor": SMALL, "networks": networks, **properties})


NET = {
    "net": of("OS::Neutron::Net"),
    "subnet": of("OS::Neutron::Subnet", network=reference("net"), cidr="10.0.0.0/24"),
}
WHOLE = template(
    **NET,
    port={**of("OS::Neutron::Port", network=reference("net")), "depends_on": "subnet"},
    volume=of("OS::Cinder::Volume", size=1),
    web=server(networks=[{"port": reference("port")}]),
    disk=of("OS::Cinder::VolumeAttachment", instance_uuid=reference("web"), volume_id=reference("volume")),
)
"""A server with a port and a volume."""
OPEN = template(
    group=of("OS::Neutron::SecurityGroup", rules=[{"protocol": "tcp", "port_range_min": 22, "port_range_max": 22}])
)
"""What cloud.open_ssh denies."""
CLOSED = template(group=of("OS::Neutron::SecurityGroup", rules=[]))
