"""The tables of Glance: images and their tags."""

from datalog_gate.inventory.collector import Collector
from datalog_gate.inventory.table_sources import ApiList, ApiService, table

GLANCE = ApiService("Glance", "image", "2")
IMAGES = ApiList(GLANCE, "/images", "images", "links")


class Glance(Collector):
    """The tables of Glance."""

    tables = (
        table("glancev2:images", IMAGES, "id status name container_format created_at updated_at disk_format owner "
              "protected min_ram min_disk checksum? size? file kernel_id? ramdisk_id? schema visibility"),
        table("glancev2:tags", IMAGES, "image_id=^id tag=.", "tags/*"),
    )  # fmt: skip
