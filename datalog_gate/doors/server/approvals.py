"""Requests of grants for approval, and the verdicts of people."""

from __future__ import annotations

import logging
from typing import Any

from datalog_gate.decision_point.settings import parse_service_options
from datalog_gate.doors.server.endpoint import CLOUD, OPERATOR, ApiCall, ApiError, EndpointTable, Reply
from datalog_gate.doors.server.pagination import read_number, write_page
from datalog_gate.doors.server.policy_server import PolicyServer
from datalog_gate.doors.server.schemas import PAGES, PROJECT, describe_body, describe_object, describe_page
from datalog_gate.services.approval import ApprovalError, ApprovalRequest, Approvals, tell_verdict

LOG = logging.getLogger(__name__)
STATES = ["awaiting", "approved", "refused", "used", "superseded", "expired"]
MEMBERS = ("id", "state", "project", "stack", "grant", "options", "scope", "asked", "until", "said")
APPROVAL = describe_object(*MEMBERS, id={"type": "string"}, state={"enum": STATES})
ENDPOINTS = EndpointTable()


@ENDPOINTS.add(
    "GET /v2/approvals",
    "approval:list",
    "List requests for approval, the oldest first",
    answer=describe_page("approvals", APPROVAL),
    query={"state": {"enum": STATES, "description": "only those in this state"}, "project": PROJECT, **PAGES},
)
def _list(call: ApiCall) -> Reply:
    state, limit = call.query.get("state"), call.query["limit"]
    projects = call.client.narrow(call.query.get("project"))
    chosen = _read(call, after=read_number(call), projects=projects, state=state, limit=limit + 1)
    answer = write_page("approvals", chosen, limit, lambda request: (str(request.number),), ApprovalRequest.to_json)
    return Reply(answer)


@ENDPOINTS.add("GET /v2/approvals/{approval}", "approval:show", "Show a request for approval", answer=APPROVAL)
def _show(call: ApiCall) -> Reply:
    return Reply(_find(call).to_json())


@ENDPOINTS.add(
    "POST /v2/approvals/{approval}/verdicts",
    "approval:answer",
    "Approve or refuse a request",
    answer=APPROVAL,
    allowed=OPERATOR,
    scopes=CLOUD,
    body=describe_body(
        "verdict",
        verdict={"enum": ["approved", "refused"]},
        why={"type": "string", "maxLength": 2000, "description": "the reason, for the user"},
    ),
    writes=True,
)
def _answer(call: ApiCall) -> Reply:
    """Approve or refuse as the caller, and notify the webhook."""
    request, verdict = _find(call), call.body["verdict"]
    who, why = call.client.user, call.body.get("why", "")
    try:
        now = call.server.now().timestamp()
        request = _open(call.server).say(request.name, verdict, who, why, now)
    except ApprovalError as error:
        raise ApiError(409, "conflict", str(error)) from None

    def notify() -> None:
        options = parse_service_options(call.server.point.settings.service_option)
        if problem := tell_verdict(options.get("approval", {}), verdict, request):
            LOG.warning("the webhook was not notified of %s: %s", request.name, problem)

    return Reply(request.to_json(), after=notify)


def _find(call: ApiCall) -> ApprovalRequest:
    """The request of the path, if the caller sees it. Errors: ApiError."""
    name = call.path["approval"].upper()
    number = name.removeprefix("A-")
    if number.isascii() and number.isdecimal() and len(number) < 10:
        requests = _read(call, after=int(number) - 1, projects=call.client.projects, limit=1)
        if requests and requests[0].name == name:
            return requests[0]
    raise ApiError(404, "not_found", "there is no such request, or it belongs to another project")


def _read(call: ApiCall, **chosen: Any) -> tuple[ApprovalRequest, ...]:
    try:
        return _open(call.server).list(call.server.now().timestamp(), **chosen)
    except ApprovalError as error:
        raise ApiError(503, "store", str(error), headers={"Retry-After": "5"}) from None


def _open(server: PolicyServer) -> Approvals:
    return Approvals(server.point.settings.store)
