"""Sources of data, drivers and the library of Congress's API, version 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from datalog_gate.base.diagnostics import did_you_mean
from datalog_gate.base.errors import InputError
from datalog_gate.base.values import to_json
from datalog_gate.doors.server.congress import (
    FLAG,
    NAME,
    POLICY,
    RESULTS,
    TEXT,
    change,
    find_library,
    source_rows,
)
from datalog_gate.doors.server.congress_state import PolicyState, drivers, read_row, tables
from datalog_gate.doors.server.endpoint import CLOUD, OPERATOR, ApiCall, ApiError, EndpointTable, Reply
from datalog_gate.doors.server.schemas import Schema, describe_object
from datalog_gate.schema import cloud
from datalog_gate.schema.catalogue import SHIPPED
from datalog_gate.schema.declaration import Relation
from datalog_gate.store.rule_store import Change, TooManyRowsError
from datalog_gate.store.tables import data_sources, pushed_rows

KEPT = ("auth_url", "cloud", "endpoint", "lazy_tables", "poll_time", "project_domain_name", "project_name", "region",
        "tenant_name", "user_domain_name", "username")  # fmt: skip
"""The settings whose values are stored: those of Congress's drivers that are not secret. The others are not used for
logging in."""
HIDDEN = "<hidden>"
SOURCE = describe_object(
    "name",
    "driver",
    name={**NAME, "type": "string"},
    driver={"type": "string"},
    description=TEXT,
    config={"type": ["object", "null"]},
)
ROWS: Schema = {"type": "array", "items": {"type": ["array", "object"]}}
ACTION = {"type": "string", "default": "request-refresh", "description": "what to do"}
ALL, ONE, TABLE = "/v1/data-sources", "/v1/data-sources/{source}", "/v1/data-sources/{source}/tables/{table}"
LIBRARY, BOOK = "/v1/librarypolicies", "/v1/librarypolicies/{library}"
WITH_RULES = {"include_rules": {**FLAG, "default": True, "description": "with the rules"}}
ENDPOINTS = EndpointTable("congress_", allowed=OPERATOR, scopes=CLOUD)


def _source(call: ApiCall) -> Mapping[str, Any]:
    """The source of the path. Errors: ApiError."""
    sources, wanted = call.server.live.state().sources, call.path["source"]
    for source in sources.values():
        if wanted in (source["id"], source["name"]):
            return source
    raise ApiError(404, "not_found", f"Datasource not found {wanted}", did_you_mean(wanted, sources) or "")


def _format(source: Mapping[str, Any]) -> dict[str, Any]:
    names = "id", "name", "driver", "description", "config"
    return {**{name: source[name] for name in names}, "enabled": True, "type": None}


@ENDPOINTS.add(f"GET {ALL}", "source:list", "List sources of data", answer=RESULTS)
def _list(call: ApiCall) -> Reply:
    return Reply({"results": [_format(source) for source in call.server.live.state().sources.values()]})


@ENDPOINTS.add(f"GET {ONE}", "source:show", "Show a source")
def _show(call: ApiCall) -> Reply:
    return Reply(_format(_source(call)))


@ENDPOINTS.add(f"POST {ALL}", "source:create", "Create a source", body=SOURCE, status=201, writes=True)
def _create(call: ApiCall) -> Reply:
    name, driver = call.body["name"], call.body["driver"]
    if driver not in drivers():
        raise ApiError(404, "not_found", f"Invalid driver: {driver}", did_you_mean(driver, drivers()) or "")
    config = {key: _keep(key, value) for key, value in (call.body.get("config") or {}).items()}
    source = {
        "id": str(uuid4()),
        "name": name,
        "driver": driver,
        "description": call.body.get("description") or "",
        "config": config,
    }

    def work(state: PolicyState) -> tuple[Change, Any, None]:
        known = [str(stored["name"]) for stored in state.stored.sources]
        policies = {str(policy["name"]) for policy in state.policies}
        if (
            name in known
            or name in policies
            or name in state.modules
            or (name != driver and name in SHIPPED.namespaces())
        ):
            raise ApiError(409, "in_use", f"Datasource already in use with name {name}")
        change = Change(call.client.user, "add source", name, (source,), ((data_sources, source),))
        return change, state.with_sources((*state.stored.sources, source)), None

    change(call, work, "Rules read something else with this name", "in_use")
    return Reply(_format(source), 201, {"Location": f"/v1/data-sources/{source['id']}"})


def _keep(name: str, value: Any) -> Any:
    """The value of a setting that is not secret. A URL may contain a password."""
    if name not in KEPT or isinstance(value, dict | list) or ("://" in str(value) and "@" in str(value)):
        return HIDDEN
    return value


@ENDPOINTS.add(f"DELETE {ONE}", "source:delete", "Delete a source", writes=True)
def _delete(call: ApiCall) -> Reply:
    def work(state: PolicyState) -> tuple[Change, Any, Mapping[str, Any]]:
        source = _source(call)
        kept = tuple(stored for stored in state.stored.sources if stored["name"] != source["name"])
        if len(kept) == len(state.stored.sources):
            message = f"the source {source['name']} exists without being created"
            raise ApiError(409, "built_in", message, "there is nothing to delete")
        removed = ((data_sources, {"name": source["name"]}), (pushed_rows, {"source": source["name"]}))
        change = Change(call.client.user, "remove source", source["name"], (source,), removed=removed)
        return change, state.with_sources(kept), source

    return Reply(_format(change(call, work, "Rules need the source", "in_use")))


@ENDPOINTS.add(
    f"POST {ONE}",
    "source:refresh",
    "Read the rows of a source again",
    body={"type": ["object", "null"]},
    query={"action": ACTION},
)
def _act(call: ApiCall) -> Reply:
    source = _source(call)
    if call.query["action"] != "request-refresh":
        message = f"{call.query['action']} is not run: actions that rules execute are only recorded"
        raise ApiError(400, "unsupported", message)
    if problem := call.server.live.rows(fresh=True).problem:
        raise ApiError(503, "refresh", f"the rows of {source['name']} can't be read: {problem}")
    return Reply({})


def _schema(driver: str) -> list[dict[str, Any]]:
    return [_describe(relation) for relation in tables(driver)]


def _describe(relation: Relation) -> dict[str, Any]:
    columns = [
        {"name": column.name, "description": column.meaning or column.kinds.describe()} for column in relation.columns
    ]
    return {"table_id": relation.name.partition(":")[2], "columns": columns}


@ENDPOINTS.add(f"GET {ONE}/schema", "schema:show", "Show the tables and columns of a source")
def _show_schema(call: ApiCall) -> Reply:
    return Reply({"tables": _schema(_source(call)["driver"])})


def _table(call: ApiCall) -> tuple[Mapping[str, Any], Relation]:
    """The source and the table of the path. Errors: ApiError."""
    source, wanted = _source(call), call.path["table"]
    if relation := cloud.relation(f"{source['driver']}:{wanted}"):
        return source, relation
    known = [relation.name.partition(":")[2] for relation in tables(source["driver"])]
    message = f"Table '{wanted}' for datasource '{source['name']}' has no schema"
    raise ApiError(404, "not_found", message, did_you_mean(wanted, known) or "")


@ENDPOINTS.add(f"GET {TABLE}/spec", "source_table:describe", "Show the columns of a table")
def _show_spec(call: ApiCall) -> Reply:
    return Reply(_describe(_table(call)[1]))


@ENDPOINTS.add(f"GET {ONE}/tables", "source_table:list", "List the tables of a source", answer=RESULTS)
def _list_tables(call: ApiCall) -> Reply:
    return Reply({"results": [{"id": table["table_id"]} for table in _schema(_source(call)["driver"])]})


@ENDPOINTS.add(f"GET {TABLE}", "source_table:show", "Show a table of a source")
def _show_table(call: ApiCall) -> Reply:
    _table(call)
    return Reply({"id": call.path["table"]})


@ENDPOINTS.add(f"GET {TABLE}/rows", "source_row:list", "List the rows of a table", answer=RESULTS)
def _list_rows(call: ApiCall) -> Reply:
    source, _ = _table(call)
    return Reply({"results": list(source_rows(call.server.live, f"{source['name']}:{call.path['table']}"))})


@ENDPOINTS.add(f"PUT {TABLE}/rows", "source_row:push", "Replace the rows of a table", body=ROWS, writes=True)
def _push_rows(call: ApiCall) -> Reply:
    source, relation = _table(call)
    table, data = call.path["table"], []
    for at, row in enumerate(call.body, 1):
        try:
            typed = read_row(f"{source['name']}:{table}", row, at).typed(relation)
        except (TypeError, ValueError) as error:
            raise ApiError(400, "bad_rows", f"row {at}: {error}") from None
        except InputError as error:
            message = f"row {at}: {error.diagnostics[0].message}"
            raise ApiError(400, "bad_rows", message, error.diagnostics[0].suggestion or "") from None
        data.append([to_json(value) for value in typed])
    try:
        call.server.live.store.push(source["name"], table, data)
    except TooManyRowsError as error:
        raise ApiError(413, "too_many_rows", str(error)) from None
    call.server.live.rows(fresh=True)
    return Reply({})


@ENDPOINTS.add(f"GET {ONE}/status", "status:show", "Show how old the rows of a source are")
def _status(call: ApiCall) -> Reply:
    source, live = _source(call), call.server.live
    rows = live.rows()
    sizes = [len(lines) for name, lines in rows.lines.items() if name.startswith(f"{source['name']}:")]
    written = rows.written.strftime("%Y-%m-%d %H:%M:%S") if rows.written else "None"
    return Reply(
        {
            "last_updated": written,
            "last_error": rows.problem or "None",
            "number_of_updates": str(sum(live.store.numbers())),
            "initialized": str(bool(sizes)),
            "subscriptions": [],
            "subscribers": [],
            "rows": str(sum(sizes)),
        }
    )


@ENDPOINTS.add(f"GET {ONE}/actions", "action:list", "List the actions of a source: none", answer=RESULTS)
def _list_actions(call: ApiCall) -> Reply:
    _source(call)
    return Reply({"results": []})


@ENDPOINTS.add("GET /v1/system/drivers", "driver:list", "List drivers", answer=RESULTS)
def _list_drivers(_call: ApiCall) -> Reply:
    results = [{"id": name, "description": f"tables of {name}: {len(tables(name))}"} for name in drivers()]
    return Reply({"results": results})


@ENDPOINTS.add("GET /v1/system/drivers/{driver}", "driver:show", "Show a driver")
def _show_driver(call: ApiCall) -> Reply:
    name = call.path["driver"]
    if name not in drivers():
        raise ApiError(404, "not_found", f"Driver not found {name}", did_you_mean(name, drivers()) or "")
    config = {"cloud": "optional: rows come from the inventory, or are pushed"}
    described = {"id": name, "description": f"tables of {name}", "module": "datalog_gate.inventory", "secret": []}
    return Reply({**described, "config": config, "tables": _schema(name)})


@ENDPOINTS.add(f"GET {LIBRARY}", "library:list", "List the library", answer=RESULTS, query=WITH_RULES)
def _list_library(call: ApiCall) -> Reply:
    return Reply(
        {"results": [_library(call, item["content"], item["id"]) for item in call.server.live.store.libraries()]}
    )


def _library(call: ApiCall, content: Mapping[str, Any], identity: str) -> dict[str, Any]:
    shown = {"id": identity, "description": "", "kind": "nonrecursive", "abbreviation": "", **content}
    return shown if call.query.get("include_rules", True) else {name: shown[name] for name in shown if name != "rules"}


@ENDPOINTS.add(f"GET {BOOK}", "library:show", "Show a policy of the library", query=WITH_RULES)
def _show_library(call: ApiCall) -> Reply:
    content = find_library(call, call.path["library"])
    return Reply(_library(call, content, content["id"]))


@ENDPOINTS.add(f"POST {LIBRARY}", "library:create", "Add a policy to the library", body=POLICY, status=201, writes=True)
@ENDPOINTS.add(f"PUT {BOOK}", "library:update", "Replace a policy of the library", body=POLICY, writes=True)
def _write_library(call: ApiCall) -> Reply:
    identity = find_library(call, call.path["library"])["id"] if "library" in call.path else str(uuid4())
    if not (call.body or {}).get("name"):
        raise ApiError(400, "policy_name_must_be_provided", "A name must be provided for a policy of the library")
    content = {name: value for name, value in call.body.items() if value is not None}
    call.server.live.store.set_library(identity, content)
    return Reply(_library(call, content, identity), 200 if "library" in call.path else 201)


@ENDPOINTS.add(f"DELETE {BOOK}", "library:delete", "Remove a policy of the library", writes=True)
def _delete_library(call: ApiCall) -> Reply:
    content = find_library(call, call.path["library"])
    call.server.live.store.set_library(content["id"], None)
    return Reply(_library(call, content, content["id"]))
