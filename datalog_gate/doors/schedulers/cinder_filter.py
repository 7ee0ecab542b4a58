"""The filter for Cinder's scheduler.

Cinder has no user for Placement: a section of its own has the options of keystoneauth for one.

[DEFAULT]
scheduler_default_filters = AvailabilityZoneFilter, CapacityFilter, CapabilitiesFilter, GrantedPoolFilter
[datalog_gate]
auth_type = password
auth_url = https://keystone.example:5000/v3
"""

from __future__ import annotations

from typing import Any

from cinder.scheduler import filters
from keystoneauth1 import loading
from oslo_config import cfg
from oslo_log import log

from datalog_gate.doors.schedulers.reservation import UnprovenError, make_ask, read_reservation

LOG = log.getLogger(__name__)
GROUP = "datalog_gate"
loading.register_auth_conf_options(cfg.CONF, GROUP)
loading.register_session_conf_options(cfg.CONF, GROUP)
loading.register_adapter_conf_options(cfg.CONF, GROUP)


def make_adapter() -> Any:
    """Make the adapter for Placement."""
    auth = loading.load_auth_from_conf_options(cfg.CONF, GROUP)
    session = loading.load_session_from_conf_options(cfg.CONF, GROUP, auth=auth)
    service_type = cfg.CONF.datalog_gate.service_type or "placement"
    return loading.load_adapter_from_conf_options(cfg.CONF, GROUP, session=session, service_type=service_type)


class GrantedPoolFilter(filters.BaseBackendFilter):  # type: ignore[misc]
    """Restricts volumes with the hints of a grant to the pools that the grant decided. Others pass everywhere."""

    ask = staticmethod(make_ask(make_adapter))

    def filter_all(self, filter_obj_list: Any, filter_properties: dict[str, Any]) -> list[Any]:
        """The pools that pass: those named HOST@BACKEND#POOL like the provider, or of its backend."""
        pools, hints = list(filter_obj_list), filter_properties.get("scheduler_hints") or {}
        try:
            reserved = read_reservation(hints, filter_properties["context"].project_id, self.ask)
        except UnprovenError as error:
            volume = (filter_properties.get("request_spec") or {}).get("volume_id")
            LOG.warning("Nothing is reserved for volume %s: %s", volume, error)
            return []
        if reserved is None:
            return pools
        return [pool for pool in pools if any(reserved.name in _names(name) for name in (pool.host, pool.backend_id))]


def _names(pool: str) -> tuple[str, str]:
    return pool, pool.partition("#")[0]
