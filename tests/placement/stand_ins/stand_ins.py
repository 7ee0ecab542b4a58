"""Stand-ins for resource types that need a cloud, for `plugin_dirs`.

Each takes the properties of the type it stands for and shows them in the attribute `given`. A stand-in with the image
`broken` fails when Heat has long done all that does not wait for it.
"""

from __future__ import annotations

import json
import time
from typing import Any

from heat.engine import attributes, properties, resource
from heat.engine.resources.openstack.cinder import volume
from heat.engine.resources.openstack.neutron import floatingip, port, security_group
from heat.engine.resources.openstack.nova import server

TYPES = {
    "OS::Cinder::Volume": volume.CinderVolume,
    "OS::Cinder::VolumeAttachment": volume.CinderVolumeAttachment,
    "OS::Neutron::FloatingIP": floatingip.FloatingIP,
    "OS::Neutron::Port": port.Port,
    "OS::Neutron::SecurityGroup": security_group.SecurityGroup,
    "OS::Nova::Server": server.Server,
}
LONG = 3.0


class StandIn(resource.Resource):  # type: ignore[misc]
    """There at once, without a cloud."""

    default_client_name = None
    attributes_schema = {  # noqa: RUF012
        "given": attributes.Schema("The properties it was made with.", type=attributes.Schema.MAP)
    }

    def handle_create(self) -> float:
        given_properties = {name: value for name, value in self.properties.items() if value is not None}
        self.data_set("given", json.dumps(given_properties))
        self.resource_id_set(self.uuid)
        return time.monotonic() + LONG if given_properties.get("image") == "broken" else 0.0

    def check_create_complete(self, until: float) -> bool:
        if until and time.monotonic() > until:
            raise ValueError("the image is broken")
        return not until

    def _resolve_attribute(self, _name: str) -> Any:
        return json.loads(self.data().get("given", "{}"))


def resource_mapping() -> dict[str, Any]:
    """The types, for Heat."""
    return {
        name: type(real.__name__, (StandIn,), {"properties_schema": {
            name: properties.Schema(properties.Schema.ANY) for name in real.properties_schema
        }})
        for name, real in TYPES.items()
    }  # fmt: skip
