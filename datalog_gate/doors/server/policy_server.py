"""The state that all requests of the server share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from datalog_gate.base.records import dataclass
from datalog_gate.decision_point.config_options import build_settings
from datalog_gate.decision_point.point import DecisionPoint, create_point
from datalog_gate.doors.server.access import list_rules
from datalog_gate.doors.server.server_options import GROUP, find_folder, register
from datalog_gate.store.api_records import ApiRecords


@dataclass(slots=True)
class PolicyServer:
    """The decision point, the records and the options of a server, shared by threads."""

    options: Any
    """The options of the section [datalog_gate_server]."""
    point: DecisionPoint
    records: ApiRecords
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


def create_server(conf: Any) -> PolicyServer:
    """Create the server of a configuration. Errors: as `DecisionPoint`."""
    register(conf)
    options = conf[GROUP]
    folder = find_folder(options)
    own = {"metrics_folder": str(folder / "metrics")}
    if not build_settings(conf).store:
        own["store"] = str(folder / "store")
    point = create_point(conf, own, list_rules())
    records = ApiRecords(point.settings.store, options.keep_days)
    return PolicyServer(options, point, records)
