"""The command `doctor`, which checks the installation of the gate."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.settings import GROUP, Settings
from datalog_gate.doors.cli.common import FINDINGS, INPUT, OK
from datalog_gate.doors.cli.doctor import CheckResult, Locate, format_first, format_results, run_check
from datalog_gate.doors.cli.doctor.cloud_access import check_keystone, check_preview, find_roles, probe_engine
from datalog_gate.doors.cli.doctor.decision_log import check_log
from datalog_gate.doors.cli.doctor.enabled_services import check_plugins
from datalog_gate.doors.cli.doctor.engines import (
    check_engine,
    check_plugin_dirs,
    check_resource_types,
    check_running_engines,
)
from datalog_gate.doors.cli.doctor.metrics import check_metrics
from datalog_gate.doors.cli.doctor.options import (
    check_option_names,
    check_settings,
    find_secrets,
    read_heat_options,
    read_options,
)
from datalog_gate.doors.cli.doctor.pipelines import check_pipelines, find_door_options
from datalog_gate.doors.cli.doctor.policy_inputs import check_break_glass, check_policy_inputs, check_writers
from datalog_gate.doors.cli.doctor.stores import check_stores
from datalog_gate.doors.cli.heat_conf import IniFile, read_conf, read_conf_places, read_ini


def doctor(options: argparse.Namespace) -> int:
    """Print the results of all checks.

    The exit code is `INPUT` if a file that the command names can't be read. Errors: UsageError if oslo.config is not
    installed.
    """
    results = examine(options.heat_conf, options.paste, options.log, options.cfn, engine=options.engine)
    if options.probe:
        results += run_check("probe", lambda: [probe_engine()])
    print(format_results(results, options.format), end="")
    if any(result.about == "files" for result in results):
        return INPUT
    return FINDINGS if any(result.level == "finding" for result in results) else OK


def examine(
    heat_conf: Path,
    paste: Path | None = None,
    log: Path | None = None,
    cfn: bool = True,
    now: datetime | None = None,
    engine: bool = True,
) -> list[CheckResult]:
    """Check the Heat with this configuration.

    `paste` and `log` default to the files that heat.conf names. Without `cfn` heat-api-cfn is not deployed, without
    `engine` no heat-engine runs on this host. A file of these arguments that can't be read is a finding about `files`.
    Errors: UsageError if oslo.config is not installed.
    """
    try:
        conf, ini = read_conf(heat_conf), read_conf_places(heat_conf)
    except InputError as error:
        fix = "name Heat's configuration with --heat-conf, and run the doctor as the user of Heat's services"
        return [CheckResult("finding", "files", format_first(error), None, fix)]
    results = list(_examine(conf, ini, paste, log, cfn, now or datetime.now(UTC), engine))
    return list(dict.fromkeys(results))  # doors with equal settings have equal results


def _examine(
    conf: Any, ini: IniFile, paste: Path | None, log: Path | None, cfn: bool, now: datetime, engine: bool
) -> Iterator[CheckResult]:
    heat, results = read_heat_options(conf, ini)
    yield from results
    legacy, plugin_dirs, flavor = not heat["convergence_engine"], heat["plugin_dirs"], heat["flavor"] or ""
    engine_place = ini.place("DEFAULT", "convergence_engine")
    yield from run_check("engine", check_engine, legacy, plugin_dirs, engine, engine_place)
    yield from run_check("engine", check_plugin_dirs, plugin_dirs, ini.place("DEFAULT", "plugin_dirs"))
    yield from check_option_names(ini)
    if log and (not os.path.exists(log) or not os.access(log, os.R_OK) or log.is_char_device()):
        fix = "name a decision log with --log that the user of the doctor can read"
        yield CheckResult("finding", "files", f"{log} can't be read", None, fix)
        log = None
    paste_file = paste or Path(ini.file).parent / heat["api_paste_config"]
    paste_ini, has_paste = IniFile(str(paste_file), {}, {}), False
    try:
        paste_ini, has_paste = read_ini(paste_file), True
    except InputError as error:
        fix = (
            "name it with --paste"
            if paste
            else "correct api_paste_config under [paste_deploy]: no API starts without it"
        )
        yield CheckResult("finding", "files" if paste else "door", format_first(error), None, fix)
    door_options = find_door_options(paste_ini, flavor)
    configurations: list[tuple[Settings, Locate]] = []
    for section in (None, *door_options):
        locate: Locate = partial(_locate_option, ini, paste_ini, section)
        settings, results = read_options(conf, door_options[section] if section else {}, locate)
        yield from results
        configurations.append((settings, locate))
        if section is None:
            yield from run_check("engine", check_running_engines, settings, legacy, plugin_dirs, log, engine_place)
    if has_paste:
        unverified = any(settings.allow_unverified_context for settings, _ in configurations)
        yield from run_check("door", check_pipelines, paste_ini, flavor, cfn, unverified)
    for settings, locate in configurations:
        secrets = find_secrets(ini, settings)
        yield from run_check("options", check_settings, settings, heat["rpc_response_timeout"], locate)
        yield from run_check("break_glass", check_break_glass, settings, locate, now)
        yield from run_check("resources", check_resource_types, settings, plugin_dirs, locate)
        yield from run_check("services", check_plugins, settings, locate, secrets)
        yield from run_check("store", check_stores, settings, locate, ini.file, secrets)
        yield from run_check("rules", check_policy_inputs, settings, locate, now, ini.file)
        yield from run_check("log", check_log, settings, log, locate)
        yield from run_check("metrics", check_metrics, settings, locate)
    keystone = list(run_check("keystone", check_keystone, conf, ini, secrets))
    yield from keystone
    can_ask = all(result.place for result in keystone)
    has_credentials = can_ask and bool(os.environ.get("OS_AUTH_URL") or os.environ.get("OS_ENDPOINT"))
    yield from run_check("policy_file", _check_policy_files, conf, ini, configurations, has_credentials)
    if has_credentials:
        yield from run_check("preview", check_preview)


def _check_policy_files(
    conf: Any, ini: IniFile, configurations: list[tuple[Settings, Locate]], has_credentials: bool
) -> Iterator[CheckResult]:
    """Check the files of oslo.policy, for the services of all doors."""
    from datalog_gate.decision_point.policy_file import find_policy_problems, policy_paths

    services = list(dict.fromkeys(name for settings, _ in configurations for name in settings.services))
    has_break_glass = any(settings.break_glass for settings, _ in configurations)
    for path in policy_paths(conf):
        yield from check_writers("policy_file", path, lambda _: ini.place("oslo_policy", "policy_file"))
    for problem in find_policy_problems(conf, services, has_break_glass, find_roles() if has_credentials else None):
        place = problem.place or ini.place("oslo_policy", "policy_file")
        yield CheckResult("finding" if problem.certain else "note", "policy_file", problem.message, place, problem.fix)


def _locate_option(ini: IniFile, paste: IniFile, section: str | None, option: str) -> Span:
    """The place of an option: in the section of a door, else in heat.conf."""
    if section and (option in paste.sections[section] or not option):
        return paste.place(section, option)
    return ini.place(GROUP, option)
