"""The policies in force, and queries over their rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from datalog_gate.analysis.policy import Policy
from datalog_gate.api import Rules
from datalog_gate.base.values import to_json
from datalog_gate.decision.policy_set import RuleFile
from datalog_gate.decision.query import QueryInputs, ask
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.server.access import ALL_PROJECTS
from datalog_gate.doors.server.decisions import DEFINITION, STACK_NAME, read_definition
from datalog_gate.doors.server.endpoint import MEMBER, ApiCall, ApiError, EndpointTable, Reply
from datalog_gate.doors.server.pagination import read_text_marker, write_page
from datalog_gate.doors.server.scan_access import open_scan_store
from datalog_gate.doors.server.schemas import PAGES, SEARCH, describe_body, describe_object
from datalog_gate.facts.flatten import flatten
from datalog_gate.facts.lines import read, write
from datalog_gate.files.inputs import fact_lines

POLICY = describe_object("id", "level", "mode", "on", "message", "relation", "place")
ROWS = 10_000
"""The maximum number of rows in an answer."""
FACTS: Mapping[str, Any] = {
    "type": "object",
    "description": "rows by relation",
    "additionalProperties": {
        "type": "array",
        "items": {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}},
    },
}
QUESTION = describe_body(
    "query",
    query={"type": "string", "maxLength": 10_000, "description": "an atom, or a body, `:- ...`"},
    rules={"type": "string", "maxLength": 200_000, "description": "rules that the query reads"},
    facts=FACTS,
    stack_name=STACK_NAME,
    **DEFINITION,
)
ENDPOINTS = EndpointTable()


@ENDPOINTS.add(
    "GET /v2/policies",
    "policy:list",
    "List the policies in force, by id",
    answer=describe_object("rules", "policies", policies={"type": "array", "items": POLICY}),
    query={
        "level": {"enum": ["deny", "warn", "record"], "description": "only those of this level"},
        "search": SEARCH,
        **PAGES,
    },
)
def _list(call: ApiCall) -> Reply:
    settings, ruleset = call.server.point.current()
    level, limit = call.query.get("level"), call.query["limit"]
    after = read_text_marker(call)
    search = call.query.get("search", "").lower()
    chosen = [
        policy
        for policy in ruleset.rules.policies
        if policy.id > after and level in (None, policy.level) and search in f"{policy.id} {policy.message}".lower()
    ]
    page = write_page("policies", chosen, limit, lambda policy: (policy.id,), lambda policy: _to_json(policy, settings))
    return Reply({"rules": ruleset.rules.digest, **page})


@ENDPOINTS.add("GET /v2/policies/{policy}", "policy:show", "Show a policy with the text of its rules", answer=POLICY)
def _show(call: ApiCall) -> Reply:
    settings, ruleset = call.server.point.current()
    for policy in ruleset.rules.policies:
        if policy.id == call.path["policy"]:
            return Reply({**_to_json(policy, settings), "rules": list(_list_rules(policy, ruleset.rules))})
    raise ApiError(404, "not_found", "there is no policy of this id")


def _list_rules(policy: Policy, rules: Rules) -> Iterator[dict[str, Any]]:
    """The text of each rule of a policy, with its place and with the annotations and comments above it."""
    spans = dict.fromkeys(
        rule.span for stratum in rules.program.strata for rule in stratum.rules if rule.relation == policy.relation
    )
    for span in spans:
        rows = rules.sources.get(span.file, "").splitlines()
        first = span.line
        while first > 1 and rows[first - 2].strip() and not rows[first - 2].endswith("."):
            first -= 1
        place = span._replace(line=first, column=1).to_json()
        yield {"place": place, "text": "\n".join(rows[first - 1 : span.end_line])}


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


@ENDPOINTS.add(
    "POST /v2/queries",
    "query:create",
    "Answer a query over the rules and facts of the request, a stack, or all stacks",
    answer=describe_object("rows", "complete", "warnings", "errors"),
    allowed=MEMBER,
    body=QUESTION,
)
def _answer(call: ApiCall) -> Reply:
    body: dict[str, Any] = call.body
    text, rules = body["query"], body.get("rules", "")
    catalogue = call.server.point.current().ruleset.rules.catalogue
    lines = fact_lines(body.get("facts"))
    if "template" in body:
        stack = read_definition(body).stack(body.get("stack_name", "stack"), catalogue)
        lines += read("\n".join(write(flatten(stack, catalogue), catalogue)), "<stack>")
    if "all:" in text or "all:" in rules:
        if call.client.projects is not None:
            raise ApiError(403, "forbidden", f"the policy {ALL_PROJECTS} does not allow you to read all stacks")
        with open_scan_store(call.server.options) as store:
            lines += fact_lines(store.facts_named([text, rules]))
    files = [RuleFile("rules", "<rules>", rules)] if rules else []
    answer = ask(files, text, QueryInputs(lines=lines, catalogue=catalogue, now=call.server.now()))
    rows = [[to_json(value) for value in row] for row in answer.rows[:ROWS]]
    return Reply(
        {
            "rows": rows,
            "complete": len(answer.rows) <= ROWS and not answer.errors,
            "warnings": [warning.to_json() for warning in answer.warnings],
            "errors": [{"message": error.message, "place": str(error.span)} for error in answer.errors],
        }
    )
