"""Checks that send requests to Keystone and Heat."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Set
from typing import Any

from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.engine_start import LIVE, PROBE
from datalog_gate.doors.cli.doctor import CheckResult, hide_secrets
from datalog_gate.doors.cli.heat_conf import IniFile

PREVIEW = {
    "stack_name": "datalog-gate-canary",
    "template": {"heat_template_version": "2018-08-31", "description": "A look whether a door is live."},
}
PATIENCE = 60.0
"""Seconds to wait for an engine to create an empty stack."""
HEADER = "Datalog-Gate"
"""The header in every answer to a request that passed a door."""
KEYSTONE = {"keystone_authtoken": "auth_url", "trustee": "auth_url", "clients_keystone": "auth_uri"}
"""The options of heat.conf, by section, that name Keystone."""
TIMEOUT = 5.0
"""Seconds to wait for Keystone's answer."""


def check_keystone(conf: Any, ini: IniFile, secrets: Set[str]) -> Iterator[CheckResult]:
    """Check that the Keystone in heat.conf answers, which Heat needs to authenticate users, and that of the
    environment. A finding about the latter has no place."""
    from oslo_config import cfg

    trusted: dict[str, str | bool] = {}
    for section, option in KEYSTONE.items():
        conf.register_opt(cfg.StrOpt("auth_section", default=section), section)
        section = conf[section].auth_section
        conf.register_opts([cfg.StrOpt(option), cfg.StrOpt("cafile"), cfg.BoolOpt("insecure", default=False)], section)
        group = conf[section]
        url = group[option]
        if url and url not in trusted:
            trusted[url] = group.cafile or not group.insecure
            if problem := _find_problem(url, trusted[url]):
                message = f"Keystone is unreachable at {url}, so that no token can be verified: {problem}"
                fix = f"correct {option} under [{section}], or start Keystone"
                yield CheckResult(
                    "finding", "keystone", hide_secrets(message, secrets), ini.place(section, option), fix
                )
    url = os.environ.get("OS_AUTH_URL", "")
    if url and url not in trusted and (problem := _find_problem(url, os.environ.get("OS_CACERT") or True)):
        message = hide_secrets(f"Keystone is unreachable at {url}, so that no door was tried: {problem}", secrets)
        yield CheckResult("finding", "keystone", message, None, "correct OS_AUTH_URL in the environment, or unset it")


def _find_problem(url: str, trusted: str | bool) -> str:
    """Why a Keystone does not answer; "" if it does. `trusted` are its certificate authorities, as requests takes
    them."""
    try:
        from keystoneauth1.exceptions import ClientException
        from keystoneauth1.session import Session
    except ImportError:
        return ""
    try:
        status = Session(timeout=TIMEOUT, verify=trusted).get(url, authenticated=False, raise_exc=False).status_code
    except (ClientException, OSError, ValueError) as error:
        return _innermost(error)
    return "" if status < 400 else f"it answers {status}"


def _innermost(error: BaseException) -> str:
    """The first error in the chain that led to this one; the others only repeat it."""
    while error.__context__:
        error = error.__context__
    return " ".join(str(error).split())


def check_preview() -> Iterator[CheckResult]:
    """Check that a door answers in the Heat of the credentials, by a preview, which creates nothing."""
    from datalog_gate.doors.cli.heat_client import Heat

    try:
        status, headers = Heat().post("/stacks/preview", PREVIEW)
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


def find_roles() -> Set[str] | None:
    """The names of all roles, with the credentials of the environment; None if Keystone does not list them."""
    from datalog_gate.doors.cli.heat_client import Heat

    try:
        return Heat().roles()
    except InputError:
        return None


def probe_engine() -> CheckResult:
    """Check that a door in an engine refuses to create an empty stack, which is then deleted. Errors: InputError,
    UsageError as `Heat`."""
    from datalog_gate.doors.cli.heat_client import Heat

    heat = Heat()
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
