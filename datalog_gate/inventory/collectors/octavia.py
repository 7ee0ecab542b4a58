"""The tables of Octavia: load balancers and their listeners."""

from datalog_gate.inventory.collector import Collector
from datalog_gate.inventory.table_sources import ApiList, ApiService, table

OCTAVIA = ApiService("Octavia", "load-balancer", "2")
LOAD_BALANCERS = ApiList(OCTAVIA, "/lbaas/loadbalancers", "loadbalancers", "links")
LISTENERS = ApiList(OCTAVIA, "/lbaas/listeners", "listeners", "links")


class Octavia(Collector):
    """The tables of Octavia."""

    tables = (
        table("octavia:load_balancers", LOAD_BALANCERS, "id name project_id vip_address vip_port_id vip_network_id "
              "provisioning_status operating_status provider"),
        table("octavia:listeners", LISTENERS, "id name project_id protocol protocol_port"),
        table("octavia:listeners.load_balancers", LISTENERS, "listener_id=^id load_balancer_id=id", "loadbalancers/*"),
    )  # fmt: skip
