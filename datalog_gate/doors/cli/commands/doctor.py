"""The command `doctor`, which checks the installation of the gate."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import InputError
from datalog_gate.base.records import fields
from datalog_gate.decision_point.settings import GROUP, Settings
from datalog_gate.doors.cli.common import FINDINGS, INPUT, OK
from datalog_gate.doors.cli.doctor import (
    CheckResult,
    Locate,
    format_first,
    format_results,
    hide_secrets,
    run_check,
)
from datalog_gate.doors.cli.doctor.cloud_access import check_preview, probe_engine
from datalog_gate.doors.cli.doctor.decision_log import check_log
from datalog_gate.doors.cli.doctor.engines import (
    check_engine,
    check_plugin_dirs,
    check_resource_types,
    check_running_engines,
)
from datalog_gate.doors.cli.doctor.options import (
    check_option_names,
    check_settings,
    find_secrets,
    read_heat_options,
)
from datalog_gate.doors.cli.doctor.pipelines import check_pipelines, find_door_options
from datalog_gate.doors.cli.heat_conf import IniFile, format_error, read_conf, read_conf_places, read_ini


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
    from oslo_config import cfg

    from datalog_gate.decision_point.config_options import build_settings
    from datalog_gate.doors.cli.doctor.protection import check_break_glass, check_permissions, check_policy_file
    from datalog_gate.doors.cli.doctor.start import NO_START, check_plugins, check_rules

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
    paste_ini, has_paste = IniFile(str(paste or Path(ini.file).parent / heat["api_paste_config"]), {}, {}), False
    try:
        paste_ini, has_paste = read_ini(Path(paste_ini.file)), True
    except InputError as error:
        about, fix = ("files", "name it with --paste") if paste else ("door", "correct api_paste_config")
        yield CheckResult("finding", about, format_first(error), None, fix)
    configurations: list[tuple[Settings, Locate]] = []
    for section, texts in (("", {}), *find_door_options(paste_ini, flavor).items()):
        locate: Locate = partial(_locate_option, ini, paste_ini, section)
        try:
            configurations.append((build_settings(conf, texts), locate))
        except (ValueError, cfg.Error) as error:
            message = hide_secrets(format_error(error), find_secrets(ini, Settings()))
            yield CheckResult("finding", "options", message, locate(_find_wrong_option(conf, texts)), NO_START)
    if has_paste:
        unverified = any(settings.allow_unverified_context for settings, _ in configurations)
        yield from run_check("door", check_pipelines, paste_ini, flavor, cfn, unverified)
    for settings, locate in configurations:
        secrets = find_secrets(ini, settings)
        yield from run_check("engine", check_running_engines, settings, legacy, plugin_dirs, log, engine_place)
        yield from run_check("options", check_settings, settings, heat["rpc_response_timeout"], locate)
        yield from run_check("break_glass", check_break_glass, settings, locate, now)
        yield from run_check("resources", check_resource_types, settings, plugin_dirs, locate)
        yield from run_check("services", check_plugins, settings, locate, secrets)
        yield from run_check("rules", check_rules, settings, locate, now, secrets)
        yield from run_check("rules", check_permissions, settings, locate)
        yield from run_check("log", check_log, settings, log, locate)
    if configurations:
        all_settings = [settings for settings, _ in configurations]
        yield from run_check("policy_file", check_policy_file, conf, ini, all_settings)
    if os.environ.get("OS_AUTH_URL") or os.environ.get("OS_ENDPOINT"):
        yield from run_check("preview", check_preview)


def _find_wrong_option(conf: Any, texts: Mapping[str, str]) -> str:
    """The first option that is wrong in heat.conf, else in the texts of a door's section; empty if no single one is."""
    from oslo_config import cfg

    from datalog_gate.decision_point.config_options import build_settings

    for field in fields(Settings):
        try:
            conf[GROUP][field.name]
        except (ValueError, cfg.Error):
            return field.name
    for name, text in texts.items():
        try:
            build_settings(conf, {name: text})
        except (ValueError, cfg.Error):
            return name
    return ""


def _locate_option(ini: IniFile, paste: IniFile, section: str, option: str) -> Span:
    """The place of an option: in the section of a door, else in heat.conf."""
    if section and (option in paste.sections[section] or not option):
        return paste.place(section, option)
    return ini.place(GROUP, option)
