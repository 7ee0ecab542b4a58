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
from datalog_gate.base.records import dataclass, replace
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
    given = _Given(paste, log, cfn, engine, now or datetime.now(UTC))
    return list(dict.fromkeys(_examine(conf, ini, given)))  # doors with equal settings have equal results


@dataclass(frozen=True, slots=True)
class _Given:
    """What the command says of an installation; `examine` describes it."""

    paste: Path | None
    log: Path | None
    cfn: bool
    engine: bool
    now: datetime


def _examine(conf: Any, ini: IniFile, given: _Given) -> Iterator[CheckResult]:
    heat, problems = read_heat_options(conf, ini)
    yield from problems
    legacy, plugin_dirs, flavor = not heat["convergence_engine"], heat["plugin_dirs"], heat["flavor"] or ""
    place = ini.place("DEFAULT", "convergence_engine")
    yield from run_check("engine", check_engine, legacy, plugin_dirs, given.engine, place)
    yield from run_check("engine", check_plugin_dirs, plugin_dirs, ini.place("DEFAULT", "plugin_dirs"))
    if (log := given.log) and (not os.path.exists(log) or not os.access(log, os.R_OK) or log.is_char_device()):
        fix = "name a decision log with --log that the user of the doctor can read"
        yield CheckResult("finding", "files", f"{log} can't be read", None, fix)
        given = replace(given, log=None)
    paste, unread = _read_paste(given.paste, Path(ini.file).parent / heat["api_paste_config"])
    yield from unread
    configurations, wrong = _read_configurations(conf, ini, paste, flavor)
    yield from wrong
    if not unread:
        unverified = any(settings.allow_unverified_context for settings, _ in configurations)
        yield from run_check("door", check_pipelines, paste, flavor, given.cfn, unverified)
    for settings, locate in configurations:
        yield from run_check("engine", check_running_engines, settings, legacy, plugin_dirs, given.log, place)
        yield from run_check("options", check_settings, settings, heat["rpc_response_timeout"], locate)
        yield from run_check("resources", check_resource_types, settings, plugin_dirs, locate)
        yield from _check_configuration(settings, locate, given, find_secrets(ini, settings))
    if configurations:
        from datalog_gate.doors.cli.doctor.protection import check_policy_file

        all_settings = [settings for settings, _ in configurations]
        yield from run_check("policy_file", check_policy_file, conf, ini, all_settings)
    if os.environ.get("OS_AUTH_URL") or os.environ.get("OS_ENDPOINT"):
        yield from run_check("preview", check_preview)


def _check_configuration(
    settings: Settings, locate: Locate, given: _Given, secrets: frozenset[str]
) -> Iterator[CheckResult]:
    """Check what the settings of a service name: files, services and rules."""
    from datalog_gate.doors.cli.doctor.protection import check_break_glass, check_permissions
    from datalog_gate.doors.cli.doctor.start import check_plugins, check_rules

    yield from run_check("break_glass", check_break_glass, settings, locate, given.now)
    yield from run_check("services", check_plugins, settings, locate, secrets)
    yield from run_check("rules", check_rules, settings, locate, given.now, secrets)
    yield from run_check("rules", check_permissions, settings, locate)
    yield from run_check("log", check_log, settings, given.log, locate)


def _read_paste(named: Path | None, default: Path) -> tuple[IniFile, list[CheckResult]]:
    """Read api-paste.ini; one without sections, and the problem, if it can't be read."""
    file = named or default
    try:
        return read_ini(file), []
    except InputError as error:
        about, fix = ("files", "name it with --paste") if named else ("door", "correct api_paste_config")
        return IniFile(str(file), {}, {}), [CheckResult("finding", about, format_first(error), None, fix)]


def _read_configurations(
    conf: Any, ini: IniFile, paste: IniFile, flavor: str
) -> tuple[list[tuple[Settings, Locate]], list[CheckResult]]:
    """Read the settings of heat.conf, and of each door with options of its own; also return what is wrong in them."""
    from oslo_config import cfg

    from datalog_gate.decision_point.config_options import build_settings, find_wrong_option
    from datalog_gate.doors.cli.doctor.start import NO_START

    configurations: list[tuple[Settings, Locate]] = []
    wrong = []
    for section, texts in (("", {}), *find_door_options(paste, flavor).items()):
        locate: Locate = partial(_locate_option, ini, paste, section)
        try:
            configurations.append((build_settings(conf, texts), locate))
        except (ValueError, cfg.Error) as error:
            message = hide_secrets(format_error(error), find_secrets(ini, Settings()))
            wrong.append(CheckResult("finding", "options", message, locate(find_wrong_option(conf, texts)), NO_START))
    return configurations, wrong


def _locate_option(ini: IniFile, paste: IniFile, section: str, option: str) -> Span:
    """The place of an option: in the section of a door, else in heat.conf."""
    if section and (option in paste.sections[section] or not option):
        return paste.place(section, option)
    return ini.place(GROUP, option)
