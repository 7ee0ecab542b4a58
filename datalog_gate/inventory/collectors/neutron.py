"""The tables of Neutron: networks, ports, routers, security groups and quotas."""

from datalog_gate.inventory.collector import Collector
from datalog_gate.inventory.collectors.keystone import PROJECTS
from datalog_gate.inventory.table_sources import ApiList, ApiService, table

NEUTRON = ApiService("Neutron", "network", "2")


def _list(name: str) -> ApiList:
    return ApiList(NEUTRON, f"/{name.replace('_', '-')}", name, "links")


NETWORKS, SUBNETS, PORTS, ROUTERS = _list("networks"), _list("subnets"), _list("ports"), _list("routers")
SECURITY_GROUPS, SECURITY_RULES = _list("security_groups"), _list("security_group_rules")
ADDRESS_GROUPS, FLOATING_IPS = _list("address_groups"), _list("floatingips")
QOS_POLICIES = ApiList(NEUTRON, "/qos/policies", "policies", "links")
QUOTAS = ApiList(NEUTRON, "/quotas/{id}/details.json", parents=PROJECTS)


class Neutron(Collector):
    """The tables of Neutron."""

    tables = (
        table("neutronv2:networks", NETWORKS, "id tenant_id name status admin_state_up shared"),
        table("neutronv2:ports", PORTS, "id tenant_id name network_id mac_address admin_state_up status device_id "
              "device_owner"),
        table("neutronv2:fixed_ips", PORTS, "port_id=^id ip_address subnet_id", "fixed_ips/*"),
        table("neutronv2:security_group_port_bindings", PORTS, "port_id=^id security_group_id=.", "security_groups/*"),
        table("neutronv2:subnets", SUBNETS, "id tenant_id name network_id ip_version cidr gateway_ip enable_dhcp "
              "ipv6_ra_mode ipv6_address_mode"),
        table("neutronv2:allocation_pools", SUBNETS, "subnet_id=^id start end", "allocation_pools/*"),
        table("neutronv2:dns_nameservers", SUBNETS, "subnet_id=^id dns_nameserver=.", "dns_nameservers/*"),
        table("neutronv2:host_routes", SUBNETS, "subnet_id=^id destination nexthop", "host_routes/*"),
        table("neutronv2:routers", ROUTERS, "id tenant_id status admin_state_up name distributed?"),
        table("neutronv2:external_gateway_infos", ROUTERS, "router_id=^id network_id enable_snat?",
              "external_gateway_info"),
        table("neutronv2:external_fixed_ips", ROUTERS, "router_id=^id subnet_id ip_address",
              "external_gateway_info/external_fixed_ips/*"),
        table("neutronv2:security_groups", SECURITY_GROUPS, "id tenant_id name description"),
        table("neutronv2:security_group_rules", SECURITY_RULES, "security_group_id id tenant_id remote_group_id "
              "direction ethertype protocol port_range_min port_range_max remote_ip_prefix remote_address_group_id?"),
        table("neutronv2:address_groups", ADDRESS_GROUPS, "id tenant_id=project_id name description"),
        table("neutronv2:address_groups.addresses", ADDRESS_GROUPS, "address_group_id=^id address=.", "addresses/*"),
        table("neutronv2:floating_ips", FLOATING_IPS, "id router_id tenant_id floating_network_id fixed_ip_address "
              "floating_ip_address port_id status"),
        table("neutronv2:quotas", QUOTAS, "project_id=$id resource=@0 limit=limit|limit in_use=used reserved",
              "quota/{}"),
        table("neutronv2_qos:ports", PORTS, "id"),
        table("neutronv2_qos:qos_policy_port_bindings", PORTS, "port_id=^id qos_policy_id=.", "qos_policy_id"),
        table("neutronv2_qos:policies", QOS_POLICIES, "id tenant_id=project_id name description shared"),
        table("neutronv2_qos:rules", QOS_POLICIES, "id qos_policy_id type min_kbps? max_kbps? max_burst_kbps? "
              "dscp_mark? direction?", "rules/*"),
    )  # fmt: skip
