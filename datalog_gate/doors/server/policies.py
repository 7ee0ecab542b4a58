"""The policies in force, and queries over their rules."""

from __future__ import annotations

from typing import Any

from datalog_gate.analysis.policy import Policy
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.server.endpoint import ApiCall, ApiError, EndpointTable, Reply
from datalog_gate.doors.server.pagination import read_text_marker, write_page
from datalog_gate.doors.server.schemas import PAGES, describe_object

POLICY = describe_object("id", "level", "mode", "on", "message", "relation", "place")
ENDPOINTS = EndpointTable()


@ENDPOINTS.add(
    "GET /v2/policies",
    "policy:list",
    "List the policies in force, by id",
    answer=describe_object("rules", "policies", policies={"type": "array", "items": POLICY}),
    query={"level": {"enum": ["deny", "warn", "record"], "description": "only those of this level"}, **PAGES},
)
def _list(call: ApiCall) -> Reply:
    settings, ruleset = call.server.point.current()
    level, limit = call.query.get("level"), call.query["limit"]
    after = read_text_marker(call)
    chosen = [policy for policy in ruleset.rules.policies if policy.id > after and level in (None, policy.level)]
    page = write_page("policies", chosen, limit, lambda policy: (policy.id,), lambda policy: _to_json(policy, settings))
    return Reply({"rules": ruleset.rules.digest, **page})


@ENDPOINTS.add("GET /v2/policies/{policy}", "policy:show", "Show a policy", answer=POLICY)
def _show(call: ApiCall) -> Reply:
    settings, ruleset = call.server.point.current()
    for policy in ruleset.rules.policies:
        if policy.id == call.path["policy"]:
            return Reply(_to_json(policy, settings))
    raise ApiError(404, "not_found", "there is no policy of this id")


def _to_json(policy: Policy, settings: Settings) -> dict[str, Any]:
    place = policy.span.to_json() if policy.span else None
    return {
        "id": policy.id,
        "level": policy.level,
        "mode": settings.policy_modes.get(policy.id, settings.mode),
        "on": sorted(policy.on),
        "message": policy.message,
        "hint": policy.hint,
        "doc": policy.texts.get("doc", ""),
        "relation": policy.relation,
        "place": place,
    }
