"""The tables of Nova: servers, flavors, hosts, zones and quotas."""

from datalog_gate.inventory.collector import Collector
from datalog_gate.inventory.collectors.keystone import PROJECTS
from datalog_gate.inventory.table_sources import ApiList, ApiService, Lookup, table

NOVA = ApiService("Nova", "compute", microversion="2.87")
SERVERS = ApiList(NOVA, "/servers/detail?all_tenants=1", "servers", "links", changes=True)
FLAVORS = ApiList(NOVA, "/flavors/detail?is_public=None", "flavors", "links")
SERVICES = ApiList(NOVA, "/os-services", "services")
HYPERVISORS = ApiList(NOVA, "/os-hypervisors/detail", "hypervisors", "links")
ZONES = ApiList(NOVA, "/os-availability-zone/detail", "availabilityZoneInfo")
AGGREGATES = ApiList(NOVA, "/os-aggregates", "aggregates")
GROUPS = ApiList(NOVA, "/os-server-groups?all_projects=True", "server_groups", "offset")
QUOTAS = ApiList(NOVA, "/os-quota-sets/{id}/detail", parents=PROJECTS)
SAME_FLAVOR = {"name": "flavor_name", "vcpus": "vcpus", "ram": "ram", "disk": "disk"}


class Nova(Collector):
    """The tables of Nova."""

    tables = (
        table("nova:servers", SERVERS, "id name host_id=hostId status tenant_id user_id image_id=image/id "
              "zone=OS-EXT-AZ:availability_zone host_name=OS-EXT-SRV-ATTR:hypervisor_hostname? created_at=created "
              "flavor_name=flavor/original_name vcpus=flavor/vcpus ram=flavor/ram disk=flavor/disk",
              flavor_id=Lookup("nova:flavors", "id", SAME_FLAVOR)),
        table("nova:servers.addresses", SERVERS, "server_id=^id network_name=@0 address=addr version "
              "mac_address=OS-EXT-IPS-MAC:mac_addr address_type=OS-EXT-IPS:type", "addresses/*/*"),
        table("nova:tags", SERVERS, "server_id=^id tag=.", "tags/*"),
        table("nova:flavors", FLAVORS, "id name vcpus ram disk ephemeral=OS-FLV-EXT-DATA:ephemeral rxtx_factor?"),
        table("nova:flavors.extra_specs", FLAVORS, "flavor_id=^id key=@0 value=.", "extra_specs/*"),
        table("nova:services", SERVICES, "service_id=id binary host zone status state updated_at disabled_reason"),
        table("nova:hypervisors", HYPERVISORS, "id hypervisor_hostname state status"),
        table("nova:availability_zones", ZONES, "zone=zoneName state=zoneState/available|state"),
        table("nova:availability_zones.hosts", ZONES, "zone=^zoneName host=@0 service=@1 available", "hosts/*/*"),
        table("nova:aggregates", AGGREGATES, "id uuid name zone=availability_zone"),
        table("nova:aggregates.hosts", AGGREGATES, "aggregate_id=^id host=.", "hosts/*"),
        table("nova:aggregates.metadata", AGGREGATES, "aggregate_id=^id key=@0 value=.", "metadata/*"),
        table("nova:server_groups", GROUPS, "id name project_id user_id policy"),
        table("nova:server_groups.members", GROUPS, "group_id=^id server_id=.", "members/*"),
        table("nova:quotas", QUOTAS, "project_id=$id resource=@0 limit=limit|limit in_use reserved", "quota_set/{}"),
    )  # fmt: skip
