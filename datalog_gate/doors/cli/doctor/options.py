"""Checks of the options of heat.conf and of the doors' own sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote
from typing import Any

from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.doctor import CheckResult, Locate
from datalog_gate.doors.cli.heat_conf import IniFile, format_error

PLUGIN_DIRS = ["/usr/lib64/heat", "/usr/lib/heat", "/usr/local/lib/heat", "/usr/local/lib64/heat"]
"""Heat's default (heat/common/config.py:109)."""
LEVELS = 3
"""The number of levels with their own budget: deny, warn and record."""
ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""An id in Keystone; 64 digits for a user of another directory."""
IDS = {"exempt_projects": "project", "exempt_users": "user", "project_modes": "project"}
"""The options that hold ids, and the kind of thing they identify."""
SECRET = re.compile(r"passw|secret|token|credential|api_?key", re.IGNORECASE)
PASSWORD_IN_ADDRESS = re.compile(r"://[^:/@\s]*:([^/@\s]+)@")


def read_heat_options(conf: Any, ini: IniFile) -> tuple[dict[str, Any], list[CheckResult]]:
    """Read Heat's own relevant options, by name. An unreadable one is a finding, and its default is used."""
    from oslo_config import cfg

    options: dict[str, list[Any]] = {
        "DEFAULT": [
            cfg.BoolOpt("convergence_engine", default=True),
            cfg.ListOpt("plugin_dirs", default=PLUGIN_DIRS),
            cfg.IntOpt("rpc_response_timeout", default=60),
        ],
        "paste_deploy": [cfg.StrOpt("flavor"), cfg.StrOpt("api_paste_config", default="api-paste.ini")],
    }
    values: dict[str, Any] = {}
    results: list[CheckResult] = []
    for section, group_options in options.items():
        group = None if section == "DEFAULT" else section
        conf.register_opts(group_options, group)
        for option in group_options:
            values[option.name] = option.default
            try:
                values[option.name] = getattr(conf[group] if group else conf, option.name)
            except (ValueError, cfg.Error) as error:
                place = ini.place(section, option.name)
                results.append(CheckResult("finding", "options", format_error(error), place, "correct it"))
    return values, results


def check_settings(settings: Settings, rpc_seconds: float, locate: Locate) -> Iterator[CheckResult]:
    """Check for options that weaken the gate, that match nobody, or that let Heat give up before the gate decides."""
    if settings.mode != "enforce":
        yield CheckResult("note", "mode", f"the mode is {settings.mode}: nothing is refused", locate("mode"))
    weaker = [f"{project} {mode}" for project, mode in settings.project_modes.items() if mode != "enforce"]
    if weaker:
        message = f"nothing is refused for these projects: {', '.join(weaker)}"
        yield CheckResult("note", "mode", message, locate("project_modes"))
    if settings.allow_unverified_context:
        message = "unverified contexts are trusted: a caller may claim to be anyone"
        fix = "remove allow_unverified_context"
        yield CheckResult("finding", "mode", message, locate("allow_unverified_context"), fix)
    for option, kind in IDS.items():
        for name in getattr(settings, option):
            if not ID.fullmatch(name):
                message = f"{option} has {name}, which is a name, not an id: it has no effect, since ids are compared"
                fix = f"write the id, which `openstack {kind} show {quote(name)} -f value -c id` prints"
                yield CheckResult("finding", "options", message, locate(option), fix)
    if (longest := LEVELS * settings.budget_seconds) >= rpc_seconds:
        message = (
            f"the budget exceeds the RPC timeout: policies may take {longest:g} seconds, {LEVELS} levels of "
            f"budget_seconds = {settings.budget_seconds:g}, but Heat's API waits only {rpc_seconds:g} for an engine"
        )
        fix = f"write `budget_seconds = {rpc_seconds / 2 / LEVELS:g}`, or a longer rpc_response_timeout under [DEFAULT]"
        yield CheckResult("finding", "options", message, locate("budget_seconds"), fix)


def find_secrets(ini: IniFile, settings: Settings) -> frozenset[str]:
    """The secrets in a configuration, which no message may show."""
    secrets = set()
    for options in ini.sections.values():
        for name, text in options.items():
            secrets.update(PASSWORD_IN_ADDRESS.findall(text))
            if SECRET.search(name):
                secrets.add(text)
    for text in settings.service_option:
        name, _, value = text.partition("=")
        if SECRET.search(name):
            secrets.add(value.strip())
    return frozenset(secret for secret in secrets if len(secret) > 2)
