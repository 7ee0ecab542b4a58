"""All endpoints of the server."""

from __future__ import annotations

from datalog_gate.doors.server import approvals, decisions, policies, scan_results, system, trials, waiver_list
from datalog_gate.doors.server.endpoint import ANYBODY, ApiCall, Endpoint, Reply
from datalog_gate.doors.server.openapi import describe


def _show_description(_call: ApiCall) -> Reply:
    return Reply(describe(ENDPOINTS))


_DESCRIPTION = Endpoint(
    "GET", "/v2/openapi.json", "openapi:show", "Show this description", _show_description, allowed=ANYBODY
)
ENDPOINTS: tuple[Endpoint, ...] = (
    *system.ENDPOINTS,
    _DESCRIPTION,
    *decisions.ENDPOINTS,
    *policies.ENDPOINTS,
    *scan_results.ENDPOINTS,
    *approvals.ENDPOINTS,
    *waiver_list.ENDPOINTS,
    *trials.ENDPOINTS,
)
