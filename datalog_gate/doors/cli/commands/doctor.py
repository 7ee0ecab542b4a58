"""The command `doctor`, which looks for doors that are silently missing."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from datalog_gate.analysis.policy import LEVELS
from datalog_gate.base.diagnostics import Span
from datalog_gate.base.errors import InputError
from datalog_gate.decision_point.settings import GROUP, Settings
from datalog_gate.doors.cli.common import FINDINGS, INPUT, OK
from datalog_gate.doors.cli.doctor import CheckResult, format_first, format_results, run_check
from datalog_gate.doors.cli.doctor.catalogues import check_catalogue
from datalog_gate.doors.cli.doctor.cloud_access import check_preview, probe_engine
from datalog_gate.doors.cli.doctor.engines import (
    ENGINE_DOOR,
    PLUGIN_DIRS,
    check_engine,
    check_plugin_dirs,
    check_resource_types,
    check_running_engines,
    find_modules,
)
from datalog_gate.doors.cli.doctor.hosts import check_hosts, read_starts
from datalog_gate.doors.cli.doctor.pipelines import check_pipelines
from datalog_gate.doors.cli.heat_conf import IniFile, invalid_file, read_conf, read_conf_places, read_ini


def doctor(options: argparse.Namespace) -> int:
    """Print the results of all checks.

    The exit code is `INPUT` if a file that the command names can't be read. Errors: UsageError if oslo.config is not
    installed.
    """
    results = examine(options.heat_conf, options.paste, options.log)
    if options.probe:
        results += run_check("probe", lambda: [probe_engine()])
    print(format_results(results), end="")
    if any(result.about == "files" for result in results):
        return INPUT
    return FINDINGS if any(result.level == "finding" for result in results) else OK


def examine(heat_conf: Path, paste: Path | None = None, log: Path | None = None) -> list[CheckResult]:
    """Check the Heat with this configuration.

    `paste` and `log` default to the files that heat.conf names. A file of these arguments that can't be read is a
    finding about `files`. Errors: UsageError if oslo.config is not installed.
    """
    try:
        conf, ini = read_conf(heat_conf), read_conf_places(heat_conf)
    except InputError as error:
        fix = "name Heat's configuration with --heat-conf, and run the doctor as the user of Heat's services"
        return [CheckResult("finding", "files", format_first(error), None, fix)]
    return [*run_check("options", _examine, conf, ini, paste, log)]


def _examine(conf: Any, ini: IniFile, named_paste: Path | None, log: Path | None) -> Iterator[CheckResult]:
    """Run all checks. Errors: InputError if options have wrong values."""
    heat = _read_heat_options(conf, ini)
    legacy, plugin_dirs = not heat["convergence_engine"], heat["plugin_dirs"]
    place = ini.place("DEFAULT", "convergence_engine")
    yield from run_check("engine", check_engine, legacy, plugin_dirs, place)
    yield from run_check("engine", check_plugin_dirs, plugin_dirs, ini.place("DEFAULT", "plugin_dirs"))
    paste = named_paste or Path(ini.file).parent / heat["api_paste_config"]
    about = "files" if named_paste else "door"
    yield from run_check(about, lambda: check_pipelines(read_ini(paste), heat["flavor"] or ""))
    if os.environ.get("OS_AUTH_URL") or os.environ.get("OS_ENDPOINT"):
        yield from run_check("preview", check_preview)
    settings = _read_settings(conf, ini)
    yield from run_check("resources", check_resource_types, settings, plugin_dirs, ini)
    yield from run_check("catalogue", check_catalogue, settings, ini.place(GROUP, "catalogue"))
    budget = settings.budget_seconds * len(LEVELS)
    if budget >= (timeout := heat["rpc_response_timeout"]):
        message = f"the policies of all levels may work for {budget:g} s, and Heat waits for an engine {timeout} s"
        fix = "lower budget_seconds, or raise rpc_response_timeout"
        yield CheckResult("finding", "budget", message, ini.place(GROUP, "budget_seconds"), fix)
    about = "files" if log else "log"
    yield from run_check(about, _check_log, settings, legacy, plugin_dirs, log, place)


def _read_heat_options(conf: Any, ini: IniFile) -> dict[str, Any]:
    """Read Heat's own relevant options, by name. Errors: InputError."""
    from oslo_config import cfg

    engine = [
        cfg.BoolOpt("convergence_engine", default=True),
        cfg.ListOpt("plugin_dirs", default=PLUGIN_DIRS),
        cfg.IntOpt("rpc_response_timeout", default=60),
    ]
    paste = [cfg.StrOpt("flavor"), cfg.StrOpt("api_paste_config", default="api-paste.ini")]
    conf.register_opts(engine)
    conf.register_opts(paste, "paste_deploy")
    try:
        values = {option.name: conf[option.name] for option in engine}
        return values | {option.name: conf.paste_deploy[option.name] for option in paste}
    except (ValueError, cfg.Error) as error:
        raise invalid_file(Path(ini.file), error) from None


def _read_settings(conf: Any, ini: IniFile) -> Settings:
    """Read the settings of heat.conf. Errors: InputError."""
    from oslo_config import cfg

    from datalog_gate.decision_point.config_options import build_settings

    try:
        return build_settings(conf)
    except (ValueError, cfg.Error) as error:
        raise invalid_file(Path(ini.file), error) from None


def _check_log(
    settings: Settings, legacy: bool, plugin_dirs: Sequence[str], log: Path | None, place: Span
) -> Iterator[CheckResult]:
    """Check the rules of the hosts and the doors of running engines, by a decision log. Errors: InputError."""
    path = log or Path(settings.decision_log)
    if log and not (log.is_file() and os.access(log, os.R_OK)):
        fix = "name a decision log with --log that the user of the doctor can read"
        yield CheckResult("finding", "files", f"{log} can't be read", None, fix)
        return
    records = read_starts(path) if path.is_file() else []
    yield from check_hosts(records)
    if not legacy and find_modules(plugin_dirs, ENGINE_DOOR):
        if log or settings.decision_log:
            yield from check_running_engines(records, path, place)
        else:
            message = "it is not known which engines run with their door, since they write that into the decision log"
            yield CheckResult("finding", "engine", message, place, "set decision_log, and restart heat-engine")
