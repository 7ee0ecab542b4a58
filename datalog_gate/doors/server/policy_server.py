"""The state that all requests of the server share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from oslo_config.cfg import Locations

from datalog_gate.base.records import dataclass
from datalog_gate.decision_point.config_options import build_settings
from datalog_gate.decision_point.inventory_source import STORE
from datalog_gate.decision_point.point import DecisionPoint, create_point
from datalog_gate.doors.server.access import list_rules
from datalog_gate.doors.server.server_options import GROUP, find_folder, register
from datalog_gate.store.api_records import ApiRecords
from datalog_gate.store.stored_waivers import read_turn
from datalog_gate.store.transaction import StoreError

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class PolicyServer:
    """The decision point, the records and the options of a server, shared by threads."""

    options: Any
    """The options of the section [datalog_gate_server]."""
    point: DecisionPoint
    records: ApiRecords
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    waiver_turn: int = -1
    """The number of the last change of stored waivers that is in force; -1 if none was looked at."""

    def look_at_waivers(self) -> None:
        """Put the waivers in force that were given until now, here or at another server of the store. They stay as they
        were while the store does not answer."""
        if self.point.settings.waivers != STORE:
            return
        try:
            turn = read_turn(self.records.store)
        except StoreError as error:
            LOG.error("the waivers of the store can't be read: %s", error)
            return
        if turn != self.waiver_turn:
            self.point.reloader.refresh()
            self.waiver_turn = turn


def create_server(conf: Any) -> PolicyServer:
    """Create the server of a configuration. Errors: as `DecisionPoint`."""
    register(conf)
    options = conf[GROUP]
    folder = find_folder(options)
    own = {"metrics_folder": str(folder / "metrics")}
    if not build_settings(conf).store:
        own["store"] = str(folder / "store")
        if conf.get_location("waivers", "datalog_gate").location == Locations.opt_default:
            own["waivers"] = STORE
    point = create_point(conf, own, list_rules())
    records = ApiRecords(point.settings.store, options.keep_days)
    return PolicyServer(options, point, records)
