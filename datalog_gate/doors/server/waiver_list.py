"""The waivers in force, and those that people create here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from datalog_gate.decision.decision import read_instant
from datalog_gate.decision_point.inventory_source import STORE
from datalog_gate.doors.server.endpoint import CLOUD, OPERATOR, ApiCall, ApiError, EndpointTable, Reply
from datalog_gate.doors.server.pagination import read_text_marker, write_page
from datalog_gate.doors.server.schemas import PAGES, POLICY, PROJECT, describe_body, describe_object, describe_page
from datalog_gate.store.stored_waivers import StoredWaiver, add_waiver, read_waivers, remove_waiver

ID = re.compile(r"S-([1-9][0-9]{0,17})")
_SHORT = {"type": "string", "minLength": 1, "maxLength": 255}
ENTRY = describe_body(
    "policy",
    "reason",
    "expires",
    **dict.fromkeys(("policy", "subject", "project", "owner", "ticket", "while"), _SHORT),
    reason={"type": "string", "minLength": 1, "maxLength": 2000},
    expires={**_SHORT, "description": "the first day on which it no longer holds, in ISO 8601"},
    key={"type": "object", "maxProperties": 50, "description": "values of key columns of the policy"},
)
WAIVER = describe_object("id", "policy", "project", "reason", "expires", "given_by", "given_at", "in_force", "scope")
ENDPOINTS = EndpointTable()


@ENDPOINTS.add(
    "GET /v2/waivers",
    "waiver:list",
    "List the waivers, by id",
    answer=describe_page("waivers", WAIVER),
    query={"project": PROJECT, "policy": POLICY, **PAGES},
)
def _list(call: ApiCall) -> Reply:
    after, wanted = read_text_marker(call), {name: call.query.get(name) for name in ("project", "policy")}
    chosen = [
        waiver
        for waiver in sorted(_read_all(call), key=lambda waiver: _order_id(waiver["id"]))
        if _order_id(waiver["id"]) > _order_id(after)
        and all(value in (None, waiver[name]) for name, value in wanted.items())
    ]
    return Reply(write_page("waivers", chosen, call.query["limit"], lambda waiver: (waiver["id"],)))


def _order_id(id_: str) -> list[tuple[int, str]]:
    """The sort key of an id, by which S-2 comes before S-10."""
    return [(len(part) * (at % 2), part) for at, part in enumerate(re.split("([0-9]+)", id_))]


@ENDPOINTS.add("GET /v2/waivers/{waiver}", "waiver:show", "Show a waiver", answer=WAIVER)
def _show(call: ApiCall) -> Reply:
    for waiver in _read_all(call):
        if waiver["id"] == call.path["waiver"]:
            return Reply(waiver)
    raise _missing_error()


@ENDPOINTS.add(
    "POST /v2/waivers",
    "waiver:create",
    "Waive what a policy finds until a day",
    answer=WAIVER,
    allowed=OPERATOR,
    scopes=CLOUD,
    body=ENTRY,
    status=201,
    writes=True,
)
def _create(call: ApiCall) -> Reply:
    """Create a waiver, if it fits the rules and the gate reads waivers from the store."""
    if (place := call.server.point.current().settings.waivers) != STORE:
        message = "the waivers of this gate are in a file" if place else "this gate reads no waivers"
        raise ApiError(409, "file" if place else "no_waivers", message, "set waivers = store in [datalog_gate]")
    entry = {"owner": call.client.user, **call.body}
    if not call.client.sees(entry.get("project")) or not (entry.get("project") or call.client.projects is None):
        raise ApiError(
            403, "forbidden", "you may only waive findings of a project that you can see", "name it in project"
        )
    rules = call.server.point.current().ruleset.rules
    rules.waivers([{**entry, "id": "S-0"}])
    waiver = add_waiver(call.server.records.store, entry, call.client.user, call.server.now().timestamp())
    in_force = not call.server.point.reloader.problems() and read_instant(entry["expires"]) > call.server.now()
    data = _stored_to_json(waiver, in_force)
    return Reply(data, 201, {"Location": f"/v2/waivers/{waiver.id}"}, call.server.look_at_waivers)


@ENDPOINTS.add(
    "DELETE /v2/waivers/{waiver}",
    "waiver:delete",
    "End a waiver that was given here",
    answer=WAIVER,
    allowed=OPERATOR,
    scopes=CLOUD,
    writes=True,
)
def _remove(call: ApiCall) -> Reply:
    store, match = call.server.records.store, ID.fullmatch(call.path["waiver"])
    number = int(match[1]) if match else 0
    for waiver in read_waivers(store):
        if waiver.number == number and call.client.sees(waiver.entry.get("project", "")):
            remove_waiver(store, number)
            return Reply(_stored_to_json(waiver, in_force=False), after=call.server.look_at_waivers)
    raise _missing_error()


def _missing_error() -> ApiError:
    return ApiError(404, "not_found", "there is no such waiver, or it belongs to another project")


def _read_all(call: ApiCall) -> list[dict[str, Any]]:
    """The waivers that the caller sees, whether or not they are in force in the doors of this configuration."""
    call.server.look_at_waivers()
    settings, ruleset = call.server.point.current()
    in_force = {waiver.id for waiver in ruleset.waivers if waiver.until > call.server.now()}
    stored = read_waivers(call.server.records.store)
    shown = [_stored_to_json(waiver, waiver.id in in_force and settings.waivers == STORE) for waiver in stored]
    if settings.waivers != STORE:
        shown += [_to_json(waiver.to_json(), waiver.id in in_force) for waiver in ruleset.waivers]
    return [data for data in shown if call.client.sees(data["project"])]


def _stored_to_json(waiver: StoredWaiver, in_force: bool) -> dict[str, Any]:
    return _to_json(waiver.entry, in_force, waiver.who, waiver.at)


def _to_json(
    entry: Mapping[str, object], in_force: bool, who: str | None = None, at: float | None = None
) -> dict[str, Any]:
    scope = list_scope(entry)
    return {"project": "", **entry, "scope": scope, "given_by": who, "given_at": at, "in_force": in_force}


def list_scope(entry: Mapping[str, Any]) -> list[str]:
    """The conditions, all of which a finding that a waiver covers must meet: ``group is "web/sg"``."""
    conditions = [f"the project is {entry['project']}"] if entry.get("project") else []
    conditions += [f"the resource is {entry['subject']}"] if entry.get("subject") else []
    conditions += [f"{name} is {json.dumps(value)}" for name, value in entry.get("key", {}).items()]
    conditions += [entry["while"]] if entry.get("while") else []
    return [*conditions, f"it is before {entry['expires']}"]
