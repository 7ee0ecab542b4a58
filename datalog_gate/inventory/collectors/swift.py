"""The tables of Swift: the containers and objects of the account."""

from datalog_gate.inventory.collector import Collector
from datalog_gate.inventory.table_sources import ApiList, ApiService, table

SWIFT = ApiService("Swift", "object-store")
CONTAINERS = ApiList(SWIFT, "/?format=json", paging="marker")
OBJECTS = ApiList(SWIFT, "/{name}?format=json", paging="marker", parents=CONTAINERS)


class Swift(Collector):
    """The tables of Swift."""

    tables = (
        table("swift:containers", CONTAINERS, "name count bytes"),
        table("swift:objects", OBJECTS, "container_name=$name name bytes hash content_type last_modified"),
    )  # fmt: skip
