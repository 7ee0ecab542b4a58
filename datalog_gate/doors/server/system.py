"""Versions, health, metrics, and the inventory."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress

from datalog_gate.decision_point.inventory_source import STORE
from datalog_gate.decision_point.metrics import Sample
from datalog_gate.doors.server.endpoint import ANYBODY, ApiCall, ApiError, EndpointTable, Reply
from datalog_gate.doors.server.policy_server import PolicyServer
from datalog_gate.doors.server.scan_access import open_scan_store
from datalog_gate.doors.server.schemas import describe_object
from datalog_gate.plugins.breaker import within
from datalog_gate.plugins.plugin_errors import UnavailableError
from datalog_gate.store.transaction import StoreError

LOG = logging.getLogger(__name__)
TEXT = "text/plain; version=0.0.4; charset=utf-8"
PATIENCE = 0.8
"""Seconds within which all checks of health must end."""
ENDPOINTS = EndpointTable()


@ENDPOINTS.add("GET /", "version:list", "List the versions of the API", allowed=ANYBODY)
def _list_versions(_call: ApiCall) -> Reply:
    links = [{"rel": "self", "href": "/v2/openapi.json"}]
    return Reply({"versions": [{"id": "v2", "status": "CURRENT", "updated": "2026-11-25T00:00:00Z", "links": links}]})


@ENDPOINTS.add(
    "GET /healthcheck",
    "health:show",
    "Show whether the server can work: its store, rules and inventory",
    answer=describe_object("status", "checks"),
    allowed=ANYBODY,
)
def _show_health(call: ApiCall) -> Reply:
    done = dict[str, dict[str, object]]()

    def check_all() -> None:
        for name, check in HEALTH.items():
            well, facts = check(call.server)
            done[name] = {"status": "ok" if well else "failing", **facts}

    with suppress(UnavailableError):
        within(PATIENCE, "health", check_all)
    late: dict[str, object] = {"status": "failing", "problem": f"no answer within {PATIENCE:g} seconds"}
    checks = {name: done.get(name, late) for name in HEALTH}
    well = all(check["status"] == "ok" for check in checks.values())
    return Reply({"status": "ok" if well else "failing", "checks": checks}, 200 if well else 503)


def _check_store(server: PolicyServer) -> tuple[bool, dict[str, object]]:
    try:
        server.records.ping()
    except StoreError as error:
        return False, {"problem": str(error)}
    return True, {}


def _check_rules(server: PolicyServer) -> tuple[bool, dict[str, object]]:
    server.point.reloader.refresh()  # another thread may be looking just now, and `current` would not wait for it
    rules = server.point.reloader.in_force.ruleset.rules
    problems = {source: str(error).splitlines()[0] for source, error in server.point.reloader.problems().items()}
    problems.pop("inventory", None)
    facts: dict[str, object] = {"digest": rules.digest, "policies": len(rules.policies)}
    return not problems, {**facts, **({"problems": problems} if problems else {})}


def _check_inventory(server: PolicyServer) -> tuple[bool, dict[str, object]]:
    """Check the age of the inventory. An old one is not a reason to send requests elsewhere."""
    settings, ruleset = server.point.current()
    problem = server.point.reloader.problems().get("inventory")
    facts: dict[str, object] = (
        {"source": STORE if settings.inventory == STORE else "file"} if settings.inventory else {}
    )
    facts["age_seconds"] = {name: round(age) for name, age in ruleset.ages(server.now()).items()}
    return problem is None, {**facts, **({"problem": str(problem).splitlines()[0]} if problem else {})}


HEALTH: Mapping[str, Callable[[PolicyServer], tuple[bool, dict[str, object]]]] = {
    "store": _check_store,
    "rules": _check_rules,
    "inventory": _check_inventory,
}


@ENDPOINTS.add(
    "GET /metrics",
    "metrics:show",
    "Show the numbers of all processes of the host to Prometheus",
    answer={"type": "string"},
    allowed=ANYBODY,
    media_type=TEXT,
)
def _show_metrics(call: ApiCall) -> Reply:
    samples = list[Sample]()
    if call.server.options.scan_store:
        try:
            with open_scan_store(call.server.options) as store:
                numbers = Counter[tuple[str, str]]()
                for (level, state, _), number in store.counts().items():
                    numbers[level, state] += number
            samples = [("datalog_gate_findings_open", labels, [float(number)]) for labels, number in numbers.items()]
        except ApiError as error:
            LOG.warning("metrics: %s", error.message)
    return Reply(call.server.point.metrics.render(samples))


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
