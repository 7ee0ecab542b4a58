"""The tables of Heat: stacks, their resources and software deployments."""

from datalog_gate.inventory.collector import Collector
from datalog_gate.inventory.table_sources import ApiList, ApiService, table

HEAT = ApiService("Heat", "orchestration")
OWN = "/stacks?show_nested=True"
STACKS = ApiList(HEAT, f"{OWN}&global_tenant=True", "stacks", "links", fallback=OWN)
RESOURCES = ApiList(HEAT, "../{project}/stacks/{stack_name}/{id}/resources", "resources", parents=STACKS)
DEPLOYMENTS = ApiList(HEAT, "/software_deployments", "software_deployments")


class Heat(Collector):
    """The tables of Heat."""

    tables = (
        table("heat:stacks", STACKS, "id stack_name description creation_time updated_time stack_status "
              "stack_status_reason stack_owner parent?"),
        table("heat:stacks_links", STACKS, "parent_key=^id href rel", "links/*"),
        table("heat:resources", RESOURCES, "physical_resource_id logical_resource_id stack_id=$id resource_name "
              "resource_type creation_time updated_time resource_status resource_status_reason"),
        table("heat:deployments", DEPLOYMENTS, "id status server_id config_id action status_reason"),
    )  # fmt: skip
