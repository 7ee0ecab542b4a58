"""A mechanism driver of Neutron that binds every port, on every host."""

from __future__ import annotations

from neutron_lib.plugins.ml2 import api


class PortBinding(api.MechanismDriver):  # type: ignore[misc]
    """Binds ports as an agent of Open vSwitch would, where no agent and no switch is."""

    def initialize(self) -> None:
        """Do nothing: there is nothing to set up."""

    def bind_port(self, context: api.PortContext) -> None:
        """Bind the port to the first segment of its network."""
        segment = context.segments_to_bind[0][api.ID]
        context.set_binding(segment, "ovs", {"port_filter": False}, status="ACTIVE")
