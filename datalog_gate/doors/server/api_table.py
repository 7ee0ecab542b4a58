"""All endpoints of the server.

Add those of a part by its `ENDPOINTS`, and the form of errors below a prefix by `ERROR_FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from datalog_gate.doors.server import (
    approvals,
    congress,
    congress_sources,
    decisions,
    given_waivers,
    overview,
    policies,
    queries,
    scan_results,
    system,
    trials,
)
from datalog_gate.doors.server.endpoint import ANYBODY, ApiCall, ApiError, Endpoint, Reply
from datalog_gate.doors.server.openapi import describe


def _show_description(_call: ApiCall) -> Reply:
    return Reply(describe(ENDPOINTS))


_DESCRIPTION = Endpoint(
    method="GET",
    path="/v2/openapi.json",
    name="openapi:show",
    summary="Show this description",
    handler=_show_description,
    answer={"type": "object"},
    allowed=ANYBODY,
)
ENDPOINTS: tuple[Endpoint, ...] = (
    *system.ENDPOINTS,
    _DESCRIPTION,
    *decisions.ENDPOINTS,
    *policies.ENDPOINTS,
    *queries.ENDPOINTS,
    *scan_results.ENDPOINTS,
    *approvals.ENDPOINTS,
    *given_waivers.ENDPOINTS,
    *overview.ENDPOINTS,
    *trials.ENDPOINTS,
    *congress.ENDPOINTS,
    *congress_sources.ENDPOINTS,
)
ERROR_FORMATS: dict[str, Callable[[ApiError, str], Mapping[str, Any]]] = {"/v1": congress.format_error}
"""How errors look below a prefix, such as /v1; elsewhere as `openapi.ERROR` says. Takes the error, and the id of the
request."""
