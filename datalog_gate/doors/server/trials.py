"""Trials of rules on a template and on all stored stacks.

A trial is in the store, so that any server of the store shows it under its URL. A run is a thread that writes its
progress. If it has written none for `LOST` seconds, its process has ended.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from threading import Lock, Thread
from typing import Any

from datalog_gate.api import Rules
from datalog_gate.base.errors import GateError
from datalog_gate.base.failures import log_failure
from datalog_gate.decision.policy_set import PolicySet, RuleFile, load
from datalog_gate.decision_point.inventory_source import load_inventory
from datalog_gate.decision_point.point import build_caller
from datalog_gate.doors.server.decisions import DECISION, DEFINITION, further_refusals, read_definition
from datalog_gate.doors.server.endpoint import MEMBER, ApiCall, ApiError, EndpointTable, Reply
from datalog_gate.doors.server.scan_access import open_scan_store
from datalog_gate.doors.server.schemas import WITH_PAGE, describe_body, describe_object
from datalog_gate.explain.explanation import Explanation
from datalog_gate.pages.decision_page import build_page
from datalog_gate.scan.batch import ScanRequest, judge_entry, judge_stack
from datalog_gate.scan.feed import StackEntry
from datalog_gate.scan.open_findings import count_stacks, read_entries
from datalog_gate.validation.refusals import find_refusals

LOG = logging.getLogger(__name__)
MOST = 100
"""The maximum number of stored findings of a run."""
LEAST = 3
"""The maximum number of these of a stack."""
LOST = 60.0
"""Seconds without progress after which a run counts as ended."""
_RUNNING = Lock()
"""Limits a process to one run at a time, which leaves capacity for requests."""
MEMBERS = ("id", "rules", "policies", "warnings", "decision", "run")
TRIAL = describe_object(*MEMBERS, decision={"anyOf": [{"type": "null"}, DECISION]})
ENDPOINTS = EndpointTable()


@ENDPOINTS.add(
    "POST /v2/trials",
    "trial:create",
    "Try rules, on a template",
    answer=TRIAL,
    allowed=MEMBER,
    body=describe_body("rules", rules={"type": "string", "maxLength": 200000}, **DEFINITION),
    status=201,
)
def _create(call: ApiCall) -> Reply:
    """Check the rules, judge the template by them, and store both. Errors: RulesError, InputError."""
    body: dict[str, Any] = call.body
    request = _build_request(call, body["rules"])
    trial: dict[str, Any] = {"id": secrets.token_hex(8), "project": call.client.project, "user": call.client.user}
    trial |= {"rules": body["rules"], "policies": [policy.id for policy in request.rules.policies]}
    trial |= {"warnings": [warning.to_json() for warning in request.rules.warnings], "decision": None, "run": None}
    if "template" in body:
        definition = read_definition(body)
        caller = build_caller(call.client.credentials) if call.client.project else None
        entry = StackEntry("trial", "stack", call.client.project or None, definition, caller=caller)
        types = request.rules.catalogue.of_heat(call.server.options.heat)
        with further_refusals(types):
            stack = definition.stack("stack", request.rules.catalogue)
        judgement = judge_stack(stack, entry, request)
        refusals = find_refusals(stack, types)
        page = build_page(judgement.decision, Explanation(judgement), [stack], refusals=refusals)
        text = body["template"] if isinstance(body["template"], str) else json.dumps(body["template"])
        trial |= {"decision": judgement.decision.to_json(), "template": text, "page": asdict(page)}
    _write(call, trial)
    return Reply(_to_json(trial), 201, {"Location": f"/v2/trials/{trial['id']}"})


def _build_request(call: ApiCall, rules: str) -> ScanRequest:
    """The request for judging stacks in a trial, which sees the inventory too. Errors: RulesError, InputError."""
    settings, ruleset = call.server.point.current()
    tried: PolicySet = load([RuleFile("rules", "rules.dl", rules)], ruleset.rules.catalogue)
    return ScanRequest(tried, call.server.now(), load_inventory(settings, Rules(tried), None).inventory)


@ENDPOINTS.add(
    "GET /v2/trials/{trial}",
    "trial:show",
    "Show a trial, and how far its run is",
    answer=TRIAL,
    query=WITH_PAGE,
)
def _show(call: ApiCall) -> Reply:
    trial = _read(call)
    return Reply(trial if call.query["page"] else _to_json(trial))


def _to_json(trial: Mapping[str, Any]) -> dict[str, Any]:
    return {name: trial[name] for name in trial if name not in ("page", "template", "project")}


@ENDPOINTS.add(
    "POST /v2/trials/{trial}/runs",
    "trial:run",
    "Judge all stored stacks by the rules of a trial",
    answer=TRIAL,
    allowed=MEMBER,
    status=202,
)
def _run(call: ApiCall) -> Reply:
    """Start judging all stored stacks that the caller sees."""
    trial = _read(call)
    if trial["run"] and trial["run"]["state"] == "running":
        raise ApiError(409, "running", "the trial is running already")
    request, projects = _build_request(call, trial["rules"]), call.client.projects
    with open_scan_store(call.server.options) as store:
        total = count_stacks(store.database, projects)
    trial["run"] = {"state": "running", "total": total, "done": 0, "stacks": 0, "policies": {}, "findings": []}
    trial["run"] |= {"unread": 0, "problem": "", "at": time.time()}
    _write(call, trial)
    Thread(target=_judge_all, args=(call, trial, request), daemon=True, name="trial").start()
    return Reply(_to_json(trial), 202)


def _judge_all(call: ApiCall, trial: dict[str, Any], request: ScanRequest) -> None:
    run, policies = trial["run"], Counter[str]()
    try:
        with _RUNNING, open_scan_store(call.server.options) as store:
            for entry in read_entries(store.database, call.client.projects):
                result = judge_entry(entry, request)
                run["done"] += 1
                run["unread"] += bool(result.unread)
                run["stacks"] += bool(result.findings)
                policies.update(finding.policy for finding in result.findings)
                if len(run["findings"]) < MOST:
                    of_stack = {"root": entry.root, "stack": entry.name, "project": entry.project}
                    severest = sorted(result.findings, key=lambda finding: not finding.denies)
                    run["findings"] += [
                        of_stack | {"policy": finding.policy, "state": finding.state, "message": finding.message}
                        for finding in severest[: min(LEAST, MOST - len(run["findings"]))]
                    ]
                if run["done"] % 25 == 0:
                    _write(call, trial | {"run": run | {"policies": dict(policies), "at": time.time()}})
        run["state"] = "done"
    except GateError as error:
        run |= {"state": "failed", "problem": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever fails, the trial ends with it
        log_failure(LOG, "trial %s", trial["id"])
        run |= {"state": "failed", "problem": f"the run failed ({type(error).__name__})"}
    _write(call, trial | {"run": run | {"policies": dict(policies), "at": time.time()}})


def _write(call: ApiCall, trial: Mapping[str, Any]) -> None:
    call.server.records.write_trial(trial["id"], trial)


def _read(call: ApiCall) -> dict[str, Any]:
    """The trial of the path, if it belongs to the caller's project. Errors: ApiError."""
    trial = call.server.records.find_trial(call.path["trial"])
    if trial:
        own = (trial["project"], trial["user"]) == (call.client.project, call.client.user)
        if own or (trial["project"] and call.client.sees(trial["project"])):
            run = trial["run"]
            if run and run["state"] == "running" and time.time() - run["at"] > LOST:
                run["state"] = "ended"
            return trial
    raise ApiError(404, "not_found", "there is no such trial, or it belongs to another project")
