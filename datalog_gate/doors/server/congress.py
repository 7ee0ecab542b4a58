"""Policies, rules, tables and simulation of Congress's API, version 1."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from datalog_gate.api import explain_simulation
from datalog_gate.base.diagnostics import Diagnostic, did_you_mean
from datalog_gate.base.errors import DiagnosticsError, EngineError, RulesError
from datalog_gate.base.values import to_json
from datalog_gate.decision.simulation import simulate
from datalog_gate.doors.server.congress_state import LivePolicies, PolicyState, read_rule
from datalog_gate.doors.server.endpoint import CLOUD, OPERATOR, ApiCall, ApiError, EndpointTable, Reply
from datalog_gate.doors.server.schemas import LIMIT, Schema, describe_object
from datalog_gate.engine import engine
from datalog_gate.engine.provenance import Provenance
from datalog_gate.explain.explanation import RowExplanation, format_lines
from datalog_gate.language.ast import Module, Rule
from datalog_gate.language.printer import print_module
from datalog_gate.schema import cloud
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.signatures import BUILTINS
from datalog_gate.store.rule_store import Change
from datalog_gate.store.tables import rule_policies, stored_rules

NUMBERS = {
    "rule_syntax": 1002,
    "multiple_rules": 1003,
    "incomplete_simulate_args": 1004,
    "simulate_error": 1007,
    "rule_already_exists": 1008,
    "policy_name_must_be_provided": 1010,
    "policy_already_exists": 1015,
    "policy_not_exist": 1020,
}
"""Congress's error numbers. For other errors they equal the status."""
KINDS = ("nonrecursive", "action", "database", "materialized", "z3")
TRACED = 20
"""The maximum number of rows that a trace explains."""
TEXT = {"type": ["string", "null"], "maxLength": 100_000}
NAME = {"type": ["string", "null"], "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,250}$"}
FLAG = {"type": "boolean", "default": False}
RULE = describe_object("rule", rule={**TEXT, "type": "string"}, name={**TEXT, "maxLength": 255}, comment=TEXT)
POLICY: Schema = {
    "type": ["object", "null"],
    "properties": {
        "name": NAME,
        "description": TEXT,
        "abbreviation": TEXT,
        "kind": {"enum": [*KINDS, None]},
        "rules": {"type": ["array", "null"], "items": RULE, "maxItems": 10_000},
    },
}
SIMULATION: Schema = {
    "type": ["object", "null"],
    "properties": {"query": TEXT, "sequence": TEXT, "action_policy": TEXT},
}
RESULTS = describe_object("results", results={"type": "array"})
ONE, TABLE = "/v1/policies/{policy}", "/v1/policies/{policy}/tables/{table}"
TRACE = {**FLAG, "description": "explain why"}
DELTA = {**FLAG, "description": "return only what is added and removed"}
ENDPOINTS = EndpointTable("congress_", allowed=OPERATOR, scopes=CLOUD)
"""As in Congress, they are for cloud operators only, not for those of a domain."""


def format_error(error: ApiError) -> Mapping[str, Any]:
    """An error in the format of Congress."""
    data = error.data if error.data is not None else (list(error.diagnostics) or None)
    message = f"{error.message}: {error.suggestion}" if error.suggestion else error.message
    return {"error": {"message": message, "error_code": NUMBERS.get(error.code, error.status), "error_data": data}}


def refuse_rules(error: DiagnosticsError, code: str = "rule_syntax", what: str = "Syntax error for rule") -> ApiError:
    """The error for invalid rules, each with its place and advice."""
    wrong = [diagnostic for diagnostic in error.diagnostics if diagnostic.severity == "error"] or error.diagnostics
    details = "; ".join(map(_format_diagnostic, wrong[:5]))
    return ApiError(400, code, f"{what}::{details}", data=[diagnostic.to_json() for diagnostic in wrong])


def _format_diagnostic(diagnostic: Diagnostic) -> str:
    place = f"{diagnostic.span.line}:{diagnostic.span.column} " if diagnostic.span else ""
    return f"{place}{diagnostic.message}" + (f": {diagnostic.suggestion}" if diagnostic.suggestion else "")


def _find(state: PolicyState, name: str) -> dict[str, Any]:
    """A policy by name or id. Errors: ApiError."""
    for policy in _policies(state):
        if name in (policy["id"], policy["name"]):
            return policy
    near = did_you_mean(name, [str(policy["name"]) for policy in _policies(state)])
    raise ApiError(404, "policy_not_exist", f"The specified policy does not exist.::{name}", near or "")


def _policies(state: PolicyState) -> Iterator[dict[str, Any]]:
    for policy in state.policies:
        names = "id", "name", "kind", "description", "abbreviation"
        yield {"owner_id": policy["author"], **{name: policy[name] for name in names}}
    for file in state.files:
        yield {
            "owner_id": "file",
            "id": file.module,
            "name": file.module,
            "kind": "nonrecursive",
            "description": f"{file.file}, which can only be changed in its file",
            "abbreviation": file.module[:5],
        }


def _find_own(state: PolicyState, name: str) -> dict[str, Any]:
    """A policy that the API may change. Errors: ApiError."""
    policy = _find(state, name)
    if policy["owner_id"] == "file":
        raise ApiError(403, "read_only", f"the policy {policy['name']} comes from a file", "change it there")
    return policy


@ENDPOINTS.add("GET /v1/policies", "policy:list", "List policies", answer=RESULTS)
def _list_policies(call: ApiCall) -> Reply:
    return Reply({"results": list(_policies(call.server.live.state()))})


@ENDPOINTS.add(f"GET {ONE}", "policy:show", "Show a policy")
def _show_policy(call: ApiCall) -> Reply:
    return Reply(_find(call.server.live.state(), call.path["policy"]))


@ENDPOINTS.add(
    "POST /v1/policies",
    "policy:create",
    "Create a policy",
    body=POLICY,
    status=201,
    writes=True,
    query={"library_policy": {"type": "string", "description": "the policy of the library that it copies"}},
)
def _create_policy(call: ApiCall) -> Reply:
    body = call.body or {}
    if wanted := call.query.get("library_policy"):
        body = {**find_library(call, wanted), **{name: value for name, value in body.items() if value}}
    name = body.get("name")
    if not name:
        raise ApiError(400, "policy_name_must_be_provided", "A name must be provided when creating a policy")

    def work(state: PolicyState) -> tuple[Change, Any, dict[str, Any]]:
        known = [str(policy["name"]) for policy in _policies(state)]
        if name in known or name in state.modules or name in state.sources or name in SHIPPED.namespaces():
            raise ApiError(409, "policy_already_exists", f"A policy or source with name '{name}' already exists")
        kind = body.get("kind") or "nonrecursive"
        policy = {
            "id": str(uuid4()),
            "name": name,
            "kind": kind,
            "description": body.get("description") or "",
            "abbreviation": (body.get("abbreviation") or name)[:5],
        }
        index, rules = state.index.with_policy(name), []
        for entry in body.get("rules") or ():
            index, rule, _ = _add(index, name, kind, entry, call.client.user)
            rules.append(rule)
        record = {**policy, "author": call.client.user}
        added = ((rule_policies, record), *((stored_rules, rule) for rule in rules))
        answer = {**policy, "owner_id": call.client.user}
        if "rules" in body:
            answer["rules"] = [_show(rule) for rule in rules]
        return Change(call.client.user, "add policy", name, (record, *rules), added), index, answer

    return _created(change(call, work), "/v1/policies")


@ENDPOINTS.add(f"DELETE {ONE}", "policy:delete", "Delete a policy and its rules", writes=True)
def _delete_policy(call: ApiCall) -> Reply:
    def work(state: PolicyState) -> tuple[Change, Any, dict[str, Any]]:
        policy = _find_own(state, call.path["policy"])
        name = policy["name"]
        if name not in {stored["name"] for stored in state.stored.policies}:
            raise ApiError(409, "built_in", f"the policy {name} exists without being created", "delete its rules")
        if readers := state.index.readers(name):
            where = sorted({state.index.rules[identity].module for identity in readers})
            raise ApiError(409, "in_use", f"rules of {', '.join(where)} read {name}", "remove these first")
        removed = ((rule_policies, {"name": name}), (stored_rules, {"policy": name}))
        content = (policy, *state.rules_of(name))
        change = Change(call.client.user, "remove policy", name, content, removed=removed)
        return change, state.index.without_policy(name), policy

    return Reply(change(call, work))


@ENDPOINTS.add(f"GET {ONE}/rules", "rule:list", "List the rules of a policy", answer=RESULTS)
def _list_rules(call: ApiCall) -> Reply:
    state = call.server.live.state()
    return Reply({"results": list(_rules(state, _find(state, call.path["policy"])))})


def _rules(state: PolicyState, policy: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if policy["owner_id"] != "file":
        yield from map(_show, state.rules_of(policy["name"]))
        return
    module = state.modules[policy["name"]]
    rules = [statement for statement in module.statements if isinstance(statement, Rule)]
    for at, rule in enumerate(rules, 1):
        text = print_module(Module(module.name, module.file, (rule,))).strip()
        yield {"id": str(at), "name": None, "comment": "", "rule": text}


def _show(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {name: rule[name] for name in ("id", "name", "comment", "rule")}


def _find_rule(state: PolicyState, policy: Mapping[str, Any], wanted: str) -> dict[str, Any]:
    for rule in _rules(state, policy):
        if wanted == rule["id"]:
            return rule
    raise ApiError(404, "rule_not_exist", f"the policy {policy['name']} has no rule of the id {wanted}")


@ENDPOINTS.add(f"GET {ONE}/rules/{{rule}}", "rule:show", "Show a rule")
def _show_rule(call: ApiCall) -> Reply:
    state = call.server.live.state()
    return Reply(_find_rule(state, _find(state, call.path["policy"]), call.path["rule"]))


@ENDPOINTS.add(f"POST {ONE}/rules", "rule:create", "Add a rule", body=RULE, status=201, writes=True)
def _create_rule(call: ApiCall) -> Reply:
    def work(state: PolicyState) -> tuple[Change, Any, dict[str, Any]]:
        policy = _find_own(state, call.path["policy"])
        index, rule, warnings = _add(state.index, policy["name"], policy["kind"], call.body, call.client.user)
        answer = _show(rule)
        if messages := [_format_diagnostic(warning) for warning in warnings if warning.severity == "warning"]:
            answer["warnings"] = messages
        return Change(call.client.user, "add rule", policy["name"], (rule,), ((stored_rules, rule),)), index, answer

    return _created(change(call, work), call.url)


def _add(
    index: Any, policy: str, kind: str, entry: Mapping[str, Any], author: str
) -> tuple[Any, dict[str, Any], Sequence[Diagnostic]]:
    """Add a rule to an index. Returns its record and the warnings. Errors: ApiError."""
    identity = str(uuid4())
    try:
        rule = read_rule(entry["rule"], policy, kind, identity)
        if rule.annotation:
            place = f"{rule.annotation.span.line}:{rule.annotation.span.column}"
            message = f"Syntax error for rule::{place} @{rule.annotation.name} makes a policy in a rule file alone"
            raise ApiError(400, "rule_syntax", message, "leave it out, and derive rows of `error` or `warning`")
        if any(known.module == policy and known.rule == rule for known in index.rules.values()):
            raise ApiError(409, "rule_already_exists", f"Rule already exists::{entry['rule']}")
        after, warnings = index.add(identity, policy, rule)
    except RulesError as error:
        raise refuse_rules(error) from None
    except ValueError as error:
        if error.args[0] < 2:
            raise ApiError(400, "rule_syntax", "Syntax error for rule::there is no rule in it") from None
        message = f"Received string representing more than 1 rule::{error} statements"
        raise ApiError(400, "multiple_rules", message, "send each by a request of its own") from None
    record = {
        "id": identity,
        "policy": policy,
        "name": entry.get("name"),
        "comment": entry.get("comment") or "",
        "rule": entry["rule"],
        "author": author,
        "at": time.time(),
    }
    return after, record, warnings


@ENDPOINTS.add(f"DELETE {ONE}/rules/{{rule}}", "rule:delete", "Remove a rule", writes=True)
def _delete_rule(call: ApiCall) -> Reply:
    def work(state: PolicyState) -> tuple[Change, Any, dict[str, Any]]:
        policy = _find_own(state, call.path["policy"])
        rule = _find_rule(state, policy, call.path["rule"])
        index = state.index.remove([rule["id"]])
        removed = ((stored_rules, {"id": rule["id"]}),)
        return Change(call.client.user, "remove rule", policy["name"], (rule,), removed=removed), index, rule

    try:
        return Reply(change(call, work, "Others need the rule"))
    except ApiError as error:
        live, author = call.server.live, call.client.user
        if error.code == "rules" and (rule := live.remove_unread(call.path["policy"], call.path["rule"], author)):
            return Reply(_show(rule))
        raise


def change(call: ApiCall, work: Any, what: str = "Syntax error for rule", code: str = "rule_syntax") -> Any:
    """Change the policies. Errors: ApiError with problems of the resulting rules."""
    try:
        return call.server.live.change(work)
    except RulesError as error:
        raise refuse_rules(error, code, what) from None


def _created(answer: dict[str, Any], parent: str) -> Reply:
    return Reply(answer, 201, {"Location": f"{parent}/{answer['id']}"})


@ENDPOINTS.add(f"GET {ONE}/tables", "table:list", "List the tables of a policy", answer=RESULTS)
def _list_tables(call: ApiCall) -> Reply:
    state = call.server.live.state()
    return Reply({"results": [{"id": name} for name in _tables(state, _find(state, call.path["policy"])["name"])]})


def _tables(state: PolicyState, policy: str) -> list[str]:
    """The tables of a policy's heads, and the tables that its rules read, with their policies."""
    prefix = f"{policy}:"
    names = {name.removeprefix(prefix) for name in state.index.relations if name.startswith(prefix)}
    for rule in state.index.rules.values():
        if rule.module == policy:
            names |= {name.removeprefix(prefix) for name in rule.reads}
    return sorted(name for name in names if name not in BUILTINS and not name.startswith("builtin:"))


def _find_table(call: ApiCall) -> tuple[PolicyState, str, str]:
    """The relation of a table of a policy. Errors: ApiError."""
    state, table = call.server.live.state(), call.path["table"]
    policy = _find(state, call.path["policy"])["name"]
    if table not in (known := _tables(state, policy)):
        raise ApiError(404, "not_found", f"Not Found::table '{table}' doesn't exist", did_you_mean(table, known) or "")
    return state, table, table if ":" in table else f"{policy}:{table}"


@ENDPOINTS.add(f"GET {TABLE}", "table:show", "Show a table")
def _show_table(call: ApiCall) -> Reply:
    return Reply({"id": _find_table(call)[1]})


@ENDPOINTS.add(f"GET {TABLE}/rows", "row:list", "List the rows of a table", answer=RESULTS, query={"trace": TRACE})
def _list_rows(call: ApiCall) -> Reply:
    state, _, relation = _find_table(call)
    if relation.rpartition(":")[0] in state.sources:
        rows = list(source_rows(call.server.live, relation))
        return Reply({"results": rows} | ({"trace": "rows of a source"} if call.query["trace"] else {}))
    evaluated, listed = call.server.live.evaluate(relation)
    trace = ""
    if call.query["trace"]:
        explanation = RowExplanation(Provenance(evaluated.checked.program, evaluated.model))
        lines = [
            line
            for row in evaluated.answer(relation).rows[:TRACED]
            for line in format_lines(explanation.of(relation, row), str(row[0]) if row else "")
        ]
        trace = f', "trace": {json.dumps(chr(10).join(lines))}'
    return Reply(f'{{"results": {listed}{trace}}}')


def source_rows(live: LivePolicies, relation: str) -> Iterator[dict[str, Any]]:
    """The rows of a table of a source, in the order of its columns."""
    state = live.state()
    source, _, table = relation.rpartition(":")
    described = cloud.relation(f"{state.sources[source]['driver']}:{table}")
    for line in live.rows().lines.get(relation, ()):
        yield {"data": [to_json(value) for value in line.positional(described)] if described else []}


@ENDPOINTS.add(
    f"POST {ONE}",
    "policy:simulate",
    "Answer a query after a sequence of updates",
    body=SIMULATION,
    query={
        "action": {"enum": ["simulate", "execute"], "default": "simulate", "description": "what to do"},
        "trace": TRACE,
        "delta": DELTA,
    },
)
def _act(call: ApiCall) -> Reply:
    """Simulate actions. Nothing is executed."""
    state = call.server.live.state()
    policy = _find(state, call.path["policy"])["name"]
    if call.query["action"] == "execute":
        message = "execute is recorded and never run: its rows are those of the table execute.SERVICE.ACTION"
        raise ApiError(400, "unsupported", message)
    body = call.body or {}
    if any(body.get(name) is None for name in ("query", "sequence", "action_policy")):
        message = "Simulate requires parameters: query, sequence, action_policy"
        raise ApiError(400, "incomplete_simulate_args", message)
    actions = _find(state, body["action_policy"])["name"]
    modules = [*state.modules.values(), *state.policy_modules()]
    lines = call.server.live.lines(call.server.live.rows())
    try:
        answered = simulate(modules, lines, policy, body["query"], body["sequence"], engine("native"), actions)
    except DiagnosticsError as error:
        raise refuse_rules(error, "simulate_error", "Error in simulate procedure") from None
    if answered.errors:
        raise EngineError(f"{answered.errors[0].span}: {answered.errors[0].message}")
    answer: dict[str, Any] = {"result": list(answered.delta if call.query["delta"] else answered.result)}
    if call.query["trace"]:
        answer["trace"] = "\n".join(explain_simulation(answered))
    return Reply(answer)


def find_library(call: ApiCall, wanted: str) -> dict[str, Any]:
    """A policy of the library by id or name. Errors: ApiError."""
    for library in call.server.live.store.libraries():
        if wanted in (library["id"], library["name"]):
            return {**library["content"], "id": library["id"]}
    raise ApiError(404, "policy_not_exist", f"the library has no policy {wanted}")


@ENDPOINTS.add(
    "GET /v2/rule-changes",
    "change:list",
    "List who changed which rules, the newest first",
    query={
        "limit": LIMIT,
        "before": {"type": "integer", "maximum": 10**17, "description": "`next` of the previous answer"},
    },
)
def _list_history(call: ApiCall) -> Reply:
    limit = call.query["limit"]
    changes = call.server.live.store.history(call.query.get("before"), limit)
    return Reply({"changes": changes, **({"next": changes[-1]["number"]} if len(changes) == limit else {})})
