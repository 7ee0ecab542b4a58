"""The tables of Ironic: nodes, their hardware, ports and drivers."""

from datalog_gate.inventory.collector import Collector
from datalog_gate.inventory.table_sources import ApiList, ApiService, table

IRONIC = ApiService("Ironic", "baremetal", "1", microversion="1.58")
CHASSIS = ApiList(IRONIC, "/chassis", "chassis", "links")
NODES = ApiList(IRONIC, "/nodes/detail", "nodes", "links")
PORTS = ApiList(IRONIC, "/ports/detail", "ports", "links")
DRIVERS = ApiList(IRONIC, "/drivers", "drivers")


class Ironic(Collector):
    """The tables of Ironic."""

    tables = (
        table("ironic:chassises", CHASSIS, "id=uuid created_at? updated_at?"),
        table("ironic:nodes", NODES, "id=uuid owner_chassis=chassis_uuid? power_state maintenance driver "
              "running_instance=instance_uuid created_at provision_updated_at updated_at"),
        table("ironic:node_properties", NODES, "properties=uuid memory_mb=properties/memory_mb? "
              "cpu_arch=properties/cpu_arch? local_gb=properties/local_gb? cpus=properties/cpus?"),
        table("ironic:ports", PORTS, "id=uuid owner_node=node_uuid mac_address=address "
              "vif_port_id=internal_info/tenant_vif_port_id? created_at updated_at"),
        table("ironic:drivers", DRIVERS, "name"),
        table("ironic:active_hosts", DRIVERS, "name=^name hosts=.", "hosts/*"),
    )  # fmt: skip
