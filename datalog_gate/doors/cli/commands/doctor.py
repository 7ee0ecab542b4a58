"""The command `doctor`, which checks the installation of the gate."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import Diagnostic, Span, closest
from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.engine_start import LIVE, PROBE
from datalog_gate.decision_point.settings import GROUP, Settings
from datalog_gate.doors.cli.common import FINDINGS, OK
from datalog_gate.doors.cli.doctor.check_result import CheckResult, format_results
from datalog_gate.doors.cli.doctor.installation import (
    Locate,
    check_engine,
    check_engine_door,
    check_log,
    check_rules,
    check_settings,
)
from datalog_gate.doors.cli.doctor.pipelines import check_pipelines, find_door_options
from datalog_gate.doors.cli.heat_conf import IniFile, format_error, read_conf, read_ini

PREVIEW = {
    "stack_name": "datalog-gate-canary",
    "template": {"heat_template_version": "2018-08-31", "description": "A look whether a door is live."},
}
PATIENCE = 60.0
"""Seconds that an engine has for an empty stack."""
HEADER = "Datalog-Gate"
"""The header of every answer to a request that passed a door."""
PLUGIN_DIRS = ["/usr/lib64/heat", "/usr/lib/heat", "/usr/local/lib/heat", "/usr/local/lib64/heat"]
"""Heat's default (heat/common/config.py:109)."""


def doctor(options: argparse.Namespace) -> int:
    """Print the results of all checks."""
    results = examine(options.heat_conf, options.paste, options.log, options.cfn)
    if options.probe:
        results.append(probe_engine())
    print(format_results(results, options.format), end="")
    return FINDINGS if any(result.level == "finding" for result in results) else OK


def examine(
    heat_conf: Path, paste: Path | None = None, log: Path | None = None, cfn: bool = True, now: datetime | None = None
) -> list[CheckResult]:
    """Check the Heat with that configuration.

    `paste` and `log` default to the files that heat.conf names. Without `cfn` heat-api-cfn is not deployed. Errors:
    InputError for a file that cannot be read, UsageError if oslo.config is not installed.
    """
    ini, conf = read_ini(heat_conf), _read_conf(heat_conf)
    from datalog_gate.decision_point.config_options import build_settings

    try:
        legacy, flavor, plugin_dirs = not conf.convergence_engine, conf.paste_deploy.flavor or "", conf.plugin_dirs
        paste_ini = read_ini(paste or heat_conf.parent / conf.paste_deploy.api_paste_config)
    except ValueError as error:
        raise InputError([Diagnostic("unreadable", f"{heat_conf} can't be read: {format_error(error)}")]) from None

    engine = ini.place("DEFAULT", "convergence_engine")
    results = [*check_engine(legacy, plugin_dirs, engine), *_check_option_names(ini)]
    door_options = find_door_options(paste_ini, flavor)
    configurations: list[tuple[Settings, Locate]] = []
    for section in (None, *door_options):
        locate: Locate = partial(_locate_option, ini, paste_ini, section)
        try:
            settings = build_settings(_read_conf(heat_conf), door_options[section] if section else {})
        except ValueError as error:
            option = re.search(r"option (\w+)", str(error))
            place, fix = locate(option[1] if option else ""), "correct it: no service starts with this"
            results.append(CheckResult("finding", "options", format_error(error), place, fix))
            if section is None:
                break
        else:
            configurations.append((settings, locate))
            if section is None:
                results += check_engine_door(settings, legacy, plugin_dirs, log, engine)
    unverified = any(settings.allow_unverified_context for settings, _ in configurations)
    results += check_pipelines(paste_ini, flavor, cfn, unverified)
    for settings, locate in configurations:
        results += check_settings(settings, plugin_dirs, locate, now or datetime.now(UTC))
        results += check_rules(settings, locate)
        results += check_log(settings, log, locate)
    if os.environ.get("OS_AUTH_URL") or os.environ.get("OS_ENDPOINT"):
        results.append(_check_preview())
    return list(dict.fromkeys(results))  # doors with the same settings have the same results


def _read_conf(path: Path) -> Any:
    """Read heat.conf with Heat's own options that matter here. Errors: as `read_conf`."""
    conf = read_conf(path)
    from oslo_config import cfg

    conf.register_opts(
        [cfg.BoolOpt("convergence_engine", default=True), cfg.ListOpt("plugin_dirs", default=PLUGIN_DIRS)]
    )
    conf.register_opts([cfg.StrOpt("flavor"), cfg.StrOpt("api_paste_config", default="api-paste.ini")], "paste_deploy")
    return conf


def _locate_option(ini: IniFile, paste: IniFile, section: str | None, option: str) -> Span:
    """The place of an option: in the section of a door, or else in heat.conf."""
    if section and (option in paste.sections[section] or not option):
        return paste.place(section, option)
    return ini.place(GROUP, option)


def _check_option_names(ini: IniFile) -> Iterator[CheckResult]:
    """Check for unknown options, which oslo.config ignores silently."""
    names = {field.name for field in fields(Settings)}
    for name in ini.sections.get(GROUP, ()):
        if name not in names:
            similar = closest(name, names)
            fix = f"write {similar}" if similar else "remove it"
            yield CheckResult("finding", "options", f"there is no option {name}", ini.place(GROUP, name), fix)


def probe_engine() -> CheckResult:
    """Check that a door in an engine refuses the creation of an empty stack, which is then deleted.

    Errors: InputError, UsageError as `Heat`.
    """
    from datalog_gate.doors.cli.heat_client import Heat

    heat = Heat()
    status, _ = heat.post("/stacks", {**PREVIEW, "stack_name": PROBE})
    if status != 201:
        message, fix = f"Heat answered the creation of {PROBE} with {status}", f"delete {PROBE} if it is there"
        return CheckResult("finding", "probe", message, None, fix)
    stack = heat.get(f"/stacks/{PROBE}")["stack"]
    end = time.monotonic() + PATIENCE
    while stack["stack_status"].endswith("IN_PROGRESS") and time.monotonic() < end:
        time.sleep(0.5)
        stack = heat.get(f"/stacks/{PROBE}")["stack"]
    heat.delete(f"/stacks/{PROBE}/{stack['id']}")
    if stack["stack_status"] == "CREATE_FAILED" and LIVE in stack["stack_status_reason"]:
        return CheckResult("ok", "probe", f"the engine that was asked answers: {LIVE}")
    message = f"no door is live in the engine that was asked: {PROBE} became {stack['stack_status']}"
    return CheckResult("finding", "probe", message, None, "correct the findings about engines and restart heat-engine")


def _check_preview() -> CheckResult:
    """Check that a door answers in the Heat of the credentials, by a preview, which builds nothing."""
    from datalog_gate.doors.cli.heat_client import Heat

    try:
        status, headers = Heat().post("/stacks/preview", PREVIEW)
    except InputError as error:
        [diagnostic, *_] = error.diagnostics
        return CheckResult("finding", "preview", diagnostic.message, None, diagnostic.suggestion or "")
    if value := headers.get(HEADER):
        return CheckResult("ok", "preview", f"a door is live: it answers {value.partition(';')[0]}")
    message = f"no door is live: a preview was answered with {status} and no {HEADER}"
    fix = "correct the findings about doors and restart the API; or Heat rejected the caller before a door could answer"
    return CheckResult("finding", "preview", message, None, fix)
