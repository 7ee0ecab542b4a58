"""Numbers over all stacks, the inventory, and decisions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from datalog_gate.doors.server.decisions import DECISION, judge_stored
from datalog_gate.doors.server.endpoint import MEMBER, ApiCall, ApiError, EndpointTable, Reply
from datalog_gate.doors.server.pagination import read_time_marker, write_page
from datalog_gate.doors.server.scan_access import open_scan_store
from datalog_gate.doors.server.schemas import PAGES, PROJECT, describe_object
from datalog_gate.scan.open_findings import count_open, count_stacks, find_entry, read_days

MOST = 1000
"""The maximum number of rows in an answer: the largest."""
NUMBERS: Mapping[str, Any] = {"type": "integer", "minimum": 0}
ENDPOINTS = EndpointTable()


@ENDPOINTS.add(
    "GET /v2/overview",
    "overview:show",
    "Count the open findings by policy, project and owner",
    answer=describe_object("stacks", "open", "findings", stacks=NUMBERS, open=NUMBERS, findings={"type": "array"}),
)
def _show_overview(call: ApiCall) -> Reply:
    projects = call.client.projects
    with open_scan_store(call.server.options) as store:
        rows = count_open(store.database, projects)
        stacks = count_stacks(store.database, projects)
    total = sum(row.number for row in rows)
    return Reply({"stacks": stacks, "open": total, "findings": [row._asdict() for row in rows[:MOST]]})


@ENDPOINTS.add(
    "GET /v2/days",
    "day:list",
    "List the days on which findings were new or resolved",
    answer=describe_object("days"),
    query={
        "policy": {"type": "string", "maxLength": 255, "description": "only findings of this policy"},
        "project": PROJECT,
    },
)
def _list_days(call: ApiCall) -> Reply:
    projects = call.client.narrow(call.query.get("project"))
    with open_scan_store(call.server.options) as store:
        days = read_days(store.database, projects, call.query.get("policy"))
    return Reply({"days": [day._asdict() for day in days[-MOST:]]})


@ENDPOINTS.add(
    "GET /v2/inventory",
    "inventory:show",
    "Show the tables of the inventory and their age",
    answer=describe_object("source", "tables"),
)
def _show_inventory(call: ApiCall) -> Reply:
    settings, ruleset = call.server.point.current()
    readings, now = ruleset.inventory.readings, call.server.now()
    rows = {str(name): len(rows) for name, rows in ruleset.inventory.rows.items()}
    tables = []
    for name in sorted({*rows, *readings}):
        reading = readings.get(name)
        read = reading.read if reading else ruleset.written
        age = round((now - read).total_seconds()) if read else None
        problem = reading.problem if reading else ""
        row = {"table": name, "rows": rows.get(name, 0), "read": read.isoformat() if read else None}
        tables.append(row | {"age_seconds": age, "problem": problem})
    return Reply({"source": settings.inventory and "set", "tables": tables})


@ENDPOINTS.add(
    "GET /v2/decisions",
    "decision:list",
    "List the decisions that were asked for here, the newest first",
    answer=describe_object("decisions"),
    query=PAGES,
)
def _list_decisions(call: ApiCall) -> Reply:
    limit = call.query["limit"]
    rows = call.server.records.list_decisions(call.client.projects, read_time_marker(call), limit + 1)

    def show(row: Mapping[str, Any]) -> object:
        return {**row, "at": datetime.fromtimestamp(row["at"], UTC).isoformat("T", "seconds")}

    return Reply(write_page("decisions", rows, limit, lambda row: (repr(row["at"]),), show))


@ENDPOINTS.add(
    "POST /v2/stacks/{stack}/decisions",
    "stack:judge",
    "Judge a stack again, as the last scan read it",
    answer=DECISION,
    allowed=MEMBER,
    status=201,
)
def _judge_stack(call: ApiCall) -> Reply:
    """Judge a stack of the last scan again, by the current rules."""
    with open_scan_store(call.server.options) as store:
        entry = find_entry(store.database, call.client.projects, call.path["stack"])
    if entry is None:
        raise ApiError(404, "not_found", "no scan has found this stack, or it belongs to another project")
    return judge_stored(call, entry)
