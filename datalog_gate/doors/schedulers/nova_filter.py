"""The filter for Nova's scheduler.

It asks Placement by Nova's own section [placement].

[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
available_filters = datalog_gate.doors.schedulers.nova_filter.GrantedHostFilter
enabled_filters = ComputeFilter, ..., GrantedHostFilter
"""

from __future__ import annotations

from typing import Any

from nova import utils
from nova.scheduler import filters
from nova.scheduler.utils import request_is_rebuild
from oslo_log import log

from datalog_gate.doors.schedulers.reservation import UnprovenError, make_ask, read_rack, read_reservation

LOG = log.getLogger(__name__)


class GrantedHostFilter(filters.BaseHostFilter):  # type: ignore[misc]
    """Restricts servers with the hints of a grant to the hosts that the grant decided. Others pass everywhere."""

    ask = staticmethod(make_ask(lambda: utils.get_ksa_adapter("placement")))

    def filter_all(self, filter_obj_list: Any, spec_obj: Any) -> list[Any]:
        """The hosts that pass. A server that moves may leave its host, and stays in its rack if that has another."""
        hosts, moves = list(filter_obj_list), is_move(spec_obj)
        hints = (spec_obj.scheduler_hints if spec_obj.obj_attr_is_set("scheduler_hints") else None) or {}
        try:
            hints = {name: spec_obj.get_scheduler_hint(name) for name in hints}
            reserved = read_reservation(hints, spec_obj.project_id, self.ask)
            if reserved is None:
                return hosts
            if not moves:
                return [host for host in hosts if host.uuid == reserved.uuid]
            rack = read_rack(reserved.rack, self.ask) if reserved.rack else set()
        except UnprovenError as error:
            LOG.warning("Nothing is reserved for instance %s: %s", spec_obj.instance_uuid, error)
            return hosts if moves else []
        return [host for host in hosts if host.uuid in rack] or hosts


def is_move(spec_obj: Any) -> bool:
    """Whether the server already exists: it is rebuilt, or the operation that moves it has set the cell."""
    target = spec_obj.requested_destination if spec_obj.obj_attr_is_set("requested_destination") else None
    return bool(request_is_rebuild(spec_obj) or (target and target.obj_attr_is_set("cell")))
