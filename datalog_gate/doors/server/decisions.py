"""Decisions on stacks, for tools that ask before they build."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from datalog_gate.analysis.policy import ACTIONS
from datalog_gate.api import ExplainedDecision
from datalog_gate.base.diagnostics import Diagnostic
from datalog_gate.base.errors import InputError
from datalog_gate.decision.decision import Decision
from datalog_gate.decision.request import read_caller
from datalog_gate.decision_point.log import build_record, replay_record
from datalog_gate.decision_point.operation import Answer, Operation
from datalog_gate.decision_point.point import build_caller
from datalog_gate.doors.server.access import ALL_PROJECTS
from datalog_gate.doors.server.endpoint import MEMBER, ApiCall, ApiError, EndpointTable, Reply
from datalog_gate.doors.server.pagination import read_number, write_page
from datalog_gate.doors.server.schemas import PAGES, SEARCH, WITH_PAGE, describe_body, describe_object, describe_order
from datalog_gate.files.stack_definition import StackDefinition
from datalog_gate.pages.decision_page import build_page
from datalog_gate.scan.feed import StackEntry, read
from datalog_gate.schema.catalogue import Catalogue
from datalog_gate.stack.model import Stack
from datalog_gate.store.api_records import DECISION_ORDERS
from datalog_gate.store.transaction import StoreError
from datalog_gate.validation.refusals import find_further_refusals, find_refusals

LOG = logging.getLogger(__name__)
DEFINITION: Mapping[str, Any] = {
    "template": {"type": ["string", "object"], "description": "YAML or JSON, as text or as data"},
    "environment": {"type": ["string", "object", "null"]},
    "environment_files": {"type": "array", "items": {"type": "string"}, "description": "names of `files`, in order"},
    "files": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "the texts of files by name",
    },
    "parameters": {"type": "object"},
}
STACK_NAME: Mapping[str, Any] = {"type": "string", "pattern": r"^[a-zA-Z][a-zA-Z0-9_.-]{0,254}$(?!\n)"}
"""For Python, `$` is also before a line break at the end."""
CALLER: Mapping[str, Any] = {
    "type": ["object", "null"],
    "additionalProperties": False,
    "properties": {
        **{name: {"type": ["string", "null"]} for name in ("user", "project", "domain")},
        "roles": {"type": "array", "items": {"type": "string"}},
    },
    "description": "the caller to judge for, if it is not you; null for none",
}
QUESTION = describe_body(
    "template",
    **DEFINITION,
    stack_name={**STACK_NAME, "default": "stack"},
    action={"enum": list(ACTIONS), "description": "by default update against an older state, else create"},
    against={**describe_body("template", **DEFINITION), "description": "the stack as it was"},
    caller=CALLER,
)
MEMBERS = ("schema", "id", "outcome", "action", "stacks", "violations", "undetermined", "waived", "errors")
DECISION = describe_object(
    *MEMBERS,
    schema={"const": "datalog-gate/decision/1"},
    id={"type": "string"},
    outcome={"enum": ["allow", "allow_with_warnings", "deny", "indeterminate"]},
)
FINDINGS = ("violations", "undetermined", "waived")
HIDDEN = ("inputs", "root", "page")
"""What is stored of a decision besides its JSON."""
ENDPOINTS = EndpointTable()


@ENDPOINTS.add(
    "POST /v2/decisions",
    "decision:create",
    "Judge a stack that is not built yet",
    answer=DECISION,
    allowed=MEMBER,
    body=QUESTION,
    status=201,
)
def _create(call: ApiCall) -> Reply:
    body: dict[str, Any] = call.body
    call.server.look_at_waivers()
    caller, project, credentials = _read_caller(call)
    against = body.get("against")
    operation = Operation(
        door="server",
        action=body.get("action") or ("update" if against else "create"),
        stack_name=body.get("stack_name", "stack"),
        project=project,
        definition=lambda: read_definition(body),
        credentials=credentials,
        request_id=call.request_id,
        dry_run=True,
        against=(lambda: read_definition(against)) if against else None,
    )
    types = call.server.point.current().ruleset.rules.catalogue.of_heat(call.server.options.heat)
    with further_refusals(types):
        trace = call.server.point.decide(operation, caller, explain=True)
    refusals = find_refusals(trace.stack, types)
    record = build_record(operation, Answer.of(trace.decision), trace, "", call.server.now())
    kept = {"inputs": record["inputs"]}
    return _keep(call, trace.decision, trace.stack, project or call.client.project, refusals, kept)


@contextmanager
def further_refusals(types: Catalogue) -> Iterator[None]:
    """Add what Heat would refuse besides to the error of a template that can't be read."""
    try:
        yield
    except InputError as error:
        raise InputError([*error.diagnostics, *find_further_refusals(error, types)], error.sources) from None


def judge_stored(call: ApiCall, entry: StackEntry) -> Reply:
    """Judge a stack that a scan stored, for its caller, and store the decision. Errors: as `Rules.decide`."""
    call.server.look_at_waivers()
    ruleset = call.server.point.current().ruleset
    stack = read(entry, ruleset.rules.catalogue)
    decision = ruleset.rules.decide(
        stack,
        caller=entry.asker,
        inventory=ruleset.inventory,
        waivers=ruleset.waivers,
        now=call.server.now(),
        explain=True,
    )
    return _keep(call, decision, stack, entry.project or call.client.project, (), {"root": entry.root})


def _keep(
    call: ApiCall,
    decision: Decision,
    stack: Stack,
    project: str,
    refusals: Sequence[Diagnostic],
    kept: Mapping[str, object],
) -> Reply:
    """Store a decision with what Heat would refuse and the data of its page, and answer with it. `kept` has its
    `inputs` without secrets, from which fixes are found once somebody looks, or the `root` of a stored stack."""
    content: dict[str, object]
    page = {}
    if not isinstance(decision, ExplainedDecision):
        content = decision.to_json()
    else:
        content = decision.to_json() if "root" in kept else decision.to_json_without_fixes()
        page = {"page": asdict(build_page(decision, decision.explanation, [stack], "root" in kept, refusals=refusals))}
    content["refusals"] = [refusal.to_json() for refusal in refusals]
    try:
        call.server.records.add_decision(
            {**content, **page, **kept},
            project=project,
            user=call.client.user,
            stack_name=stack.id,
            request_id=call.request_id,
        )
    except StoreError as error:  # the caller gets an answer even if it can't be recorded
        LOG.error("decision %s can't be kept: %s", decision.id, error)
    return Reply(_without_why(content), 201, {"Location": f"/v2/decisions/{decision.id}"})


def _read_caller(call: ApiCall) -> tuple[Mapping[str, object] | None, str, Mapping[str, object]]:
    """The caller that rules see, the project, and the credentials that select the services. By default the client, if
    the token has a project. Errors: ApiError."""
    if "caller" not in call.body:
        if not call.client.project:
            return None, "", {}
        return build_caller(call.client.credentials), call.client.project, call.client.credentials
    if not call.client.may(ALL_PROJECTS):
        raise ApiError(403, "forbidden", f"the policy {ALL_PROJECTS} does not allow you to ask for another caller")
    given = call.body["caller"]
    caller = read_caller(given)
    if caller is None:
        return None, "", {}
    credentials = {
        "user_id": caller.user,
        "project_id": caller.project,
        "project_domain_id": caller.domain,
        "roles": list(caller.roles),
    }
    return given, caller.project or "", credentials


def read_definition(data: Mapping[str, Any]) -> StackDefinition:
    """Read the definition of a stack from data that fits `DEFINITION`. Errors: InputError."""
    names = tuple(data.get("environment_files", ()))
    if missing := [name for name in names if name not in data.get("files", {})]:
        raise InputError.of(f"there is no file {missing[0]} in files", suggestion="send its text in files")
    return StackDefinition(
        template=data["template"],
        environment=None if names else data.get("environment"),
        parameters=data.get("parameters"),
        files=data.get("files", {}),
        environment_files=names,
    )


def _without_why(content: Mapping[str, Any]) -> dict[str, Any]:
    """The decision as `check` prints it."""
    plain = {name: value for name, value in content.items() if name != "clean"}
    for name in FINDINGS:
        findings = plain[name]
        plain[name] = [{key: value for key, value in finding.items() if key != "why"} for finding in findings]
    return plain


@ENDPOINTS.add(
    "GET /v2/decisions/{decision}",
    "decision:show",
    "Show a decision, with why each finding holds",
    answer=DECISION,
    query=WITH_PAGE,
)
def _show(call: ApiCall) -> Reply:
    row = call.server.records.find_decision(call.path["decision"], call.client.projects)
    if row is None:
        raise ApiError(404, "not_found", "there is no such decision, or it belongs to another project")
    content = _find_fixes(call, row)
    if not call.query["page"] or "page" not in content:
        return Reply({name: value for name, value in content.items() if name not in HIDDEN})
    page = content["page"] | {"project": row["project"], "root": content.get("root", "")}
    return Reply({name: value for name, value in content.items() if name not in HIDDEN} | {"page": page})


def _find_fixes(call: ApiCall, row: Mapping[str, Any]) -> dict[str, Any]:
    """A stored decision, with the fixes of its findings. When somebody looks for the first time, they are searched and
    stored, if the rules still find the same."""
    content: dict[str, Any] = row["content"]
    ruleset = call.server.point.current().ruleset
    if "inputs" not in content or content["digests"]["rules"] != ruleset.rules.digest:
        return content
    inputs = content.pop("inputs")
    again = replay_record({"decision": content, "inputs": inputs}, ruleset.rules, ruleset.inventory, explain=True)
    if isinstance(again.decision, ExplainedDecision) and not again.changes:
        _add_fixes(content, again.decision)
    try:
        call.server.records.update_decision(row["id"], row["project"], content)
    except StoreError as error:
        LOG.error("the fixes of decision %s can't be kept: %s", row["id"], error)
    return content


def _add_fixes(content: Mapping[str, Any], again: ExplainedDecision) -> None:
    """Add to the data of a decision, and to its page, the fixes of the same decision that was made again."""
    data: dict[str, Any] = again.to_json()
    for name in FINDINGS:
        for finding, same in zip(content[name], data[name], strict=True):
            finding["why"]["fix"] = same["why"]["fix"]
    stacks = again.explanation.judgement.reader.stacks
    found = asdict(build_page(again, again.explanation, stacks, fixes=True))
    fixes = {_name(policy, part): part for policy in found["policies"] for part in policy["findings"]}
    for policy in content["page"]["policies"]:
        for part in policy["findings"]:
            fixed = fixes.get(_name(policy, part), part)
            same_lines = fixed["where"] == part["where"]  # a template with secrets is stored in other lines
            part |= {"fix": fixed["fix"], "diff": fixed["diff"] if same_lines else ()}


def _name(policy: Mapping[str, Any], part: Mapping[str, Any]) -> tuple[str, ...]:
    """What a finding is known by on its page."""
    return policy["policy"], part["resource"], part["message"]


@ENDPOINTS.add(
    "GET /v2/decisions",
    "decision:list",
    "List the decisions that were asked for here",
    answer=describe_object("decisions"),
    query={"search": SEARCH, "sort": describe_order(*DECISION_ORDERS), **PAGES},
)
def _list_decisions(call: ApiCall) -> Reply:
    limit, skip = call.query["limit"], read_number(call)
    search, sort = call.query.get("search", ""), call.query["sort"]
    rows = call.server.records.list_decisions(call.client.projects, search, sort, skip, limit + 1)

    def show(row: Mapping[str, Any]) -> object:
        return {**row, "at": datetime.fromtimestamp(row["at"], UTC).isoformat("T", "seconds")}

    return Reply(write_page("decisions", rows, limit, lambda _: (str(skip + limit),), show))
