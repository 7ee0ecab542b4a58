"""The tables of Placement: resource providers, and what they have and give."""

from datalog_gate.inventory.collector import Collector
from datalog_gate.inventory.table_sources import ApiList, ApiService, table

PLACEMENT = ApiService("Placement", "placement", microversion="1.36")
PROVIDERS = ApiList(PLACEMENT, "/resource_providers", "resource_providers")


def _of_provider(name: str) -> ApiList:
    return ApiList(PLACEMENT, f"/resource_providers/{{uuid}}/{name}", parents=PROVIDERS)


class ResourceProviders(Collector):
    """The tables of Placement. The name `placement` is used for folders of rules."""

    tables = (
        table("nova_placement:resource_providers", PROVIDERS, "id=uuid name parent_id=parent_provider_uuid "
              "root_id=root_provider_uuid"),
        table("nova_placement:inventories", _of_provider('inventories'), "provider_id=$uuid resource_class=@0 total "
              "reserved min_unit max_unit step_size allocation_ratio", "inventories/*"),
        table("nova_placement:usages", _of_provider('usages'), "provider_id=$uuid resource_class=@0 used=.",
              "usages/*"),
        table("nova_placement:traits", _of_provider('traits'), "provider_id=$uuid trait=.", "traits/*"),
        table("nova_placement:aggregates", _of_provider('aggregates'), "provider_id=$uuid aggregate=.", "aggregates/*"),
    )  # fmt: skip
