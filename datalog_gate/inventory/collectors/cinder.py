"""The tables of Cinder: volumes, snapshots, types, services, pools and quotas."""

from datalog_gate.inventory.collector import Collector
from datalog_gate.inventory.collectors.keystone import PROJECTS
from datalog_gate.inventory.table_sources import ApiList, ApiService, table

CINDER = ApiService("Cinder", "block-storage", "3", microversion="3.59")
VOLUMES = ApiList(CINDER, "/volumes/detail?all_tenants=1", "volumes", "links")
SNAPSHOTS = ApiList(CINDER, "/snapshots/detail?all_tenants=1", "snapshots", "links")
TYPES = ApiList(CINDER, "/types?is_public=None", "volume_types", "links")
SERVICES = ApiList(CINDER, "/os-services", "services")
POOLS = ApiList(CINDER, "/scheduler-stats/get_pools?detail=True", "pools")
QUOTAS = ApiList(CINDER, "/os-quota-sets/{id}?usage=True", parents=PROJECTS)


class Cinder(Collector):
    """The tables of Cinder."""

    tables = (
        table("cinder:volumes", VOLUMES, "id size user_id status description name bootable|boolean created_at "
              "volume_type encrypted availability_zone replication_status multiattach snapshot_id source_volid "
              "consistencygroup_id migration_status? project_id=os-vol-tenant-attr:tenant_id? "
              "pool=os-vol-host-attr:host?"),
        table("cinder:attachments", VOLUMES, "attachment_id volume_id server_id host_name? device", "attachments/*"),
        table("cinder:snapshots", SNAPSHOTS, "id size status volume_id name created_at"),
        table("cinder:types", TYPES, "id name is_public description"),
        table("cinder:types.extra_specs", TYPES, "type_id=^id key=@0 value=.", "extra_specs/*"),
        table("cinder:services", SERVICES, "binary host zone status state updated_at disabled_reason?"),
        table("cinder:pools", POOLS, "name backend=capabilities/volume_backend_name? "
              "total_gb=capabilities/total_capacity_gb? free_gb=capabilities/free_capacity_gb? "
              "allocated_gb=capabilities/allocated_capacity_gb? provisioned_gb=capabilities/provisioned_capacity_gb? "
              "reserved_percentage=capabilities/reserved_percentage?"),
        table("cinder:quotas", QUOTAS, "project_id=$id resource=@0 limit=limit|limit in_use reserved", "quota_set/{}"),
    )  # fmt: skip
