"""Checks that send requests to Heat."""

from __future__ import annotations

import time
from collections.abc import Iterator

from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.engine_start import LIVE, PROBE
from datalog_gate.doors.cli.doctor import CheckResult

PREVIEW = {
    "stack_name": "datalog-gate-canary",
    "template": {"heat_template_version": "2018-08-31", "description": "A look whether a door is live."},
}
PATIENCE = 60.0
"""Seconds to wait for an engine to create an empty stack."""
HEADER = "Datalog-Gate"
"""The header in every answer to a request that passed a door."""


def check_preview() -> Iterator[CheckResult]:
    """Check that a door answers in the Heat of the credentials, by a preview, which creates nothing."""
    from datalog_gate.doors.cli.heat_client import HeatClient

    try:
        status, headers = HeatClient().post("/stacks/preview", PREVIEW)
    except InputError as error:
        [diagnostic, *_] = error.diagnostics
        yield CheckResult(
            "finding", "preview", diagnostic.message, None, diagnostic.suggestion or "look whether it runs"
        )
        return
    if value := headers.get(HEADER):
        yield CheckResult("ok", "preview", f"a door is live: it answers {value.partition(';')[0]}")
        return
    message = f"no door is live: a preview was answered with {status} and no {HEADER}"
    fix = "correct the findings about doors and restart the API; or Heat rejected the caller before a door could answer"
    yield CheckResult("finding", "preview", message, None, fix)


def probe_engine() -> CheckResult:
    """Check that a door in an engine refuses to create an empty stack, which is then deleted. Errors: InputError,
    UsageError as `Heat`."""
    from datalog_gate.doors.cli.heat_client import HeatClient

    heat = HeatClient()
    status, _ = heat.post("/stacks", {**PREVIEW, "stack_name": PROBE})
    if status != 201:
        message, fix = f"Heat answered the creation of {PROBE} with {status}", f"delete {PROBE} if it exists"
        return CheckResult("finding", "probe", message, None, fix)
    stack = heat.get(f"/stacks/{PROBE}")["stack"]
    end = time.monotonic() + PATIENCE
    while stack["stack_status"].endswith("IN_PROGRESS") and time.monotonic() < end:
        time.sleep(0.5)
        stack = heat.get(f"/stacks/{PROBE}")["stack"]
    heat.delete(f"/stacks/{PROBE}/{stack['id']}")
    # Heat keeps the text of a refusal alone, after words of its own
    if stack["stack_status"] == "CREATE_FAILED" and LIVE in stack["stack_status_reason"]:
        return CheckResult("ok", "probe", f"the engine that was asked answers: {LIVE}")
    message = f"no door is live in the engine that was asked: {PROBE} became {stack['stack_status']}"
    return CheckResult("finding", "probe", message, None, "correct the findings about engines and restart heat-engine")
