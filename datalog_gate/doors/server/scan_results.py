"""The stacks and findings of the last scan, and numbers over them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from datalog_gate.base.records import fields, replace
from datalog_gate.decision.decision import read_instant
from datalog_gate.doors.server.decisions import DECISION, judge_stored
from datalog_gate.doors.server.endpoint import MEMBER, ApiCall, ApiError, EndpointTable, Reply
from datalog_gate.doors.server.pagination import read_marker, read_number, write_page
from datalog_gate.doors.server.scan_access import open_scan_store
from datalog_gate.doors.server.schemas import (
    PAGES,
    POLICY,
    PROJECT,
    SEARCH,
    describe_object,
    describe_order,
    describe_page,
    describe_text,
)
from datalog_gate.scan.open_findings import count_open, count_stacks, find_entry, read_days
from datalog_gate.scan.scan_store import STACK_ORDERS, Page, StoredFinding

OUTCOMES = ["allow", "allow_with_warnings", "deny", "indeterminate"]
_KEY = attrgetter("policy", "root", "key", "first_seen")
ENCODED = ("key", "row", "place")
"""The fields of a finding that are stored as JSON."""
MEMBERS = ("root", "policy", "key", "row", "level", "state", "message", "project", "first_seen", "resolved_at")
FINDING = describe_object(*MEMBERS)
STACK = describe_object("root", "name", "project", "decision", "outcome", "findings")
MOST = 1000
"""The maximum number of rows in an answer without pages: the largest over all stacks, first what denies a stack."""
NUMBERS: Mapping[str, Any] = {"type": "integer", "minimum": 0}
ENDPOINTS = EndpointTable()


@ENDPOINTS.add(
    "GET /v2/findings",
    "finding:list",
    "List the findings of the last scan",
    answer=describe_page("findings", FINDING),
    query={
        "policy": POLICY,
        "project": PROJECT,
        "stack": describe_text("only those of the stack with this root"),
        "since": describe_text("only those first seen at this time, in ISO 8601, or later"),
        "state": {"enum": ["open", "all"], "default": "open", "description": "`all` includes resolved findings"},
        **PAGES,
    },
)
def _list_findings(call: ApiCall) -> Reply:
    since = call.query.get("since")
    if since is not None:
        try:
            since = read_instant(since).isoformat()
        except ValueError:
            raise ApiError(400, "invalid", "since is not a time in ISO 8601", "write 2027-03-01T12:00:00Z") from None
    page = _read_page(call, 4, call.query.get("stack"))
    with open_scan_store(call.server.options) as store:
        findings = store.findings(page, call.query.get("policy"), since, call.query["state"] == "all")
    return Reply(write_page("findings", findings, call.query["limit"], _KEY, _to_json))


@ENDPOINTS.add(
    "GET /v2/stacks",
    "stack:list",
    "List the stacks of the last scan",
    answer=describe_page("stacks", STACK),
    query={
        "project": PROJECT,
        "outcome": {"enum": OUTCOMES, "description": "only those with this outcome"},
        "policy": describe_text("only those with open findings of this policy, which are counted"),
        "search": SEARCH,
        "sort": describe_order(*STACK_ORDERS),
        **PAGES,
    },
)
def _list_stacks(call: ApiCall) -> Reply:
    query, skip = call.query, read_number(call)
    page = Page(call.client.narrow(query.get("project")), query["limit"] + 1, policy=query.get("policy"))
    with open_scan_store(call.server.options) as store:
        stacks = store.stacks_page(page, query.get("outcome"), query.get("search", ""), query["sort"], skip)
    return Reply(write_page("stacks", stacks, query["limit"], lambda _: (str(skip + query["limit"]),)))


@ENDPOINTS.add("GET /v2/stacks/{stack}", "stack:show", "Show a stack with its open findings", answer=STACK)
def _show_stack(call: ApiCall) -> Reply:
    root = call.path["stack"]
    page = Page(call.client.projects, root=root)
    with open_scan_store(call.server.options) as store:
        stacks = store.stacks_page(replace(page, limit=1))
        if not stacks:
            raise ApiError(404, "not_found", "no scan has found this stack, or it belongs to another project")
        findings = sorted(store.findings(page), key=lambda finding: not finding.denies)[:MOST]
    return Reply({**stacks[0], "open": [_to_json(finding) for finding in findings]})


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


def _read_page(call: ApiCall, length: int, root: str | None = None) -> Page:
    """The requested page, plus one row, of the rows that the caller sees. Errors: ApiError."""
    projects, marker = call.client.narrow(call.query.get("project")), read_marker(call.query.get("marker"), length)
    return Page(projects, call.query["limit"] + 1, marker, root)


def _to_json(finding: StoredFinding) -> dict[str, Any]:
    data = {member.name: getattr(finding, member.name) for member in fields(finding)}
    return data | {name: json.loads(data[name]) if data[name] else None for name in ENCODED}


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
    query={"policy": POLICY, "project": PROJECT},
)
def _list_days(call: ApiCall) -> Reply:
    projects = call.client.narrow(call.query.get("project"))
    with open_scan_store(call.server.options) as store:
        days = read_days(store.database, projects, call.query.get("policy"))
    return Reply({"days": [day._asdict() for day in days[-MOST:]]})
