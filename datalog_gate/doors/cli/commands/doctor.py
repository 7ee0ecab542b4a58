"""The command `doctor`, which checks the installation of the gate."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from datalog_gate.api import load_rules
from datalog_gate.base.diagnostics import Diagnostic, Span, closest
from datalog_gate.base.errors import DiagnosticsError, InputError
from datalog_gate.decision_point.break_glass import read_break_glass
from datalog_gate.decision_point.engine_start import LIVE, PROBE, find_start, running_engines
from datalog_gate.decision_point.log import read_log
from datalog_gate.decision_point.settings import GROUP, Settings
from datalog_gate.doors.cli.common import FINDINGS, OK
from datalog_gate.doors.cli.doctor import CheckResult, format_results
from datalog_gate.doors.cli.doctor.pipelines import check_pipelines, find_door_options
from datalog_gate.doors.cli.heat_conf import IniFile, format_error, read_conf, read_ini
from datalog_gate.files.rules import default_rules
from datalog_gate.files.templates import read_catalogue
from datalog_gate.plugins.plugin_errors import PluginLoadError

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
Locate = Callable[[str], Span]
"""Returns the place of an option in the configuration."""
LIFECYCLE = "heat.stack_lifecycle_plugins"
RESOURCES = Path(__file__).parents[2] / "heat" / "resources"
"""The folder of our resource types."""
SHIM = "datalog_gate_resources.py"
"""The module that Heat imports from that folder."""
ENGINE_DOOR = "datalog_gate_engine_door.py"
"""The module of the door in the convergence engine."""
NOT_INSTALLED = "is not installed"


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
        raise InputError.of(f"{heat_conf} can't be read: {format_error(error)}") from None

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


def check_engine(legacy: bool, plugin_dirs: list[str], place: Span) -> Iterator[CheckResult]:
    """Check which engine new stacks get, and that the lifecycle plugin loads, since Heat ignores one that does not."""
    problem = _plugin_problem()
    if not legacy and not _has_module(plugin_dirs, ENGINE_DOOR):
        message = "convergence, which calls no lifecycle plugin: requests that pass no door are not judged"
        yield CheckResult("note", "engine", message, place)
    if problem and (legacy or problem != NOT_INSTALLED):
        fix = "install datalog-gate into the Python of heat-engine, and run the doctor with that Python"
        yield CheckResult("finding", "engine", f"the lifecycle plugin {problem}", place, fix)
    elif legacy:
        yield CheckResult("ok", "engine", "legacy, and the lifecycle plugin loads", place)


def _plugin_problem() -> str:
    """Why Heat gets no lifecycle plugin; "" if it does. The plugin is created as Heat creates it."""
    plugins = [entry_point for entry_point in entry_points(group=LIFECYCLE) if entry_point.name == "datalog_gate"]
    if not plugins:
        return NOT_INSTALLED
    try:
        plugins[0].load()()
    except Exception as error:  # noqa: BLE001 - whatever it raises, Heat goes on without it
        return f"fails: {type(error).__name__}: {' '.join(str(error).split())}"
    return ""


def _has_module(plugin_dirs: list[str], name: str) -> bool:
    return any((Path(plugin_dir) / name).is_file() for plugin_dir in plugin_dirs)


def check_engine_door(
    settings: Settings, legacy: bool, plugin_dirs: list[str], log: Path | None, place: Span
) -> Iterator[CheckResult]:
    """Check that each heat-engine on this host started with the door that `plugin_dirs` has for it."""
    if legacy or not _has_module(plugin_dirs, ENGINE_DOOR):
        return
    path = log or Path(settings.decision_log)
    if not (log or settings.decision_log):
        message = "nobody can say which engines run with their door: they write it into the decision log"
        yield CheckResult("finding", "engine", message, place, "set decision_log, and restart heat-engine")
        return
    records = [record for record in read_log(path) if isinstance(record, Mapping)] if path.exists() else []
    processes = list(running_engines())
    for process in processes:
        if start := find_start(process, records):
            version, wrapped = start.get("heat"), str(start.get("wrapped"))
            message = f"heat-engine {process} runs with its door, in Heat {version} (converge_stack {wrapped[:12]})"
            yield CheckResult("ok", "engine", message, place)
        else:
            message = f"heat-engine {process} started without its door: what it builds is judged by no engine"
            fix = f"restart it; if it stays so, look for datalog_gate in its log, and that it may write {path}"
            yield CheckResult("finding", "engine", message, place, fix)
    if not processes:
        message = "no heat-engine runs on this host: run the doctor on each host that has one"
        yield CheckResult("note", "engine", message, place)


def check_settings(settings: Settings, plugin_dirs: list[str], locate: Locate, now: datetime) -> Iterator[CheckResult]:
    """Check for settings that weaken the gate, and for plugins and resource types that are missing."""
    from datalog_gate.decision_point.enabled_plugins import load_enabled_services, load_preflight

    yield from _check_weakening(settings, locate, now)
    if not _has_module(plugin_dirs, SHIM):
        fix = f"add {RESOURCES} to plugin_dirs under [DEFAULT] on each heat-engine"
        if settings.create_denial == "failed_stack":
            message = "Heat does not know DatalogGate::Denial, which create_denial = failed_stack needs"
            yield CheckResult("finding", "resources", message, locate("create_denial"), fix)
        if settings.services:
            message = "Heat does not know DatalogGate::Policy, which templates need to grant services"
            yield CheckResult("finding", "resources", message, locate("services"), fix)
    for option, load in {"preflight": load_preflight, "services": load_enabled_services}.items():
        try:
            loaded = load(settings)
        except (PluginLoadError, ValueError) as error:
            fix = "correct it: no service starts with this"
            yield CheckResult("finding", option, str(error), locate(option), fix)
        else:
            if loaded:
                yield CheckResult("ok", option, f"they load: {', '.join(getattr(settings, option))}", locate(option))


def _check_weakening(settings: Settings, locate: Locate, now: datetime) -> Iterator[CheckResult]:
    if settings.mode != "enforce":
        yield CheckResult("note", "mode", f"the mode is {settings.mode}: nothing is refused", locate("mode"))
    weaker = [f"{project} {mode}" for project, mode in settings.project_modes.items() if mode != "enforce"]
    if weaker:
        message = f"nothing is refused to these projects: {', '.join(weaker)}"
        yield CheckResult("note", "mode", message, locate("project_modes"))
    if settings.allow_unverified_context:
        message = "unverified contexts are trusted: a caller may claim to be anybody"
        fix = "remove allow_unverified_context"
        yield CheckResult("finding", "mode", message, locate("allow_unverified_context"), fix)
    if override := read_break_glass(settings.break_glass, now):
        message = (
            f"break-glass is in force until {override.until.isoformat()} ({override.why}): refused requests may pass"
        )
        fix = f"remove {settings.break_glass} when it is not needed any more"
        yield CheckResult("finding", "break_glass", message, locate("break_glass"), fix)


def check_rules(settings: Settings, locate: Locate) -> Iterator[CheckResult]:
    """Check that the rules load with their catalogue and inventory, and that only their owner may write them."""
    place = locate("rules")
    try:
        rules = load_rules(*(settings.rules or [default_rules()]), catalogue=read_catalogue(*settings.catalogue))
        if settings.inventory:
            rules.inventory(settings.inventory)
    except DiagnosticsError as error:
        first, *rest = error.diagnostics
        more = f", and {len(rest)} more" if rest else ""
        fix = "correct them: no service starts with these, and a running one keeps the previous rules"
        yield CheckResult("finding", "rules", f"they can't be loaded: {_format_line(first)}{more}", place, fix)
    else:
        policies = {policy.id for policy in rules.policies}
        source = ", ".join(settings.rules) or f"none are set, so {default_rules()}"
        count = f"{len(policies)} polic{'y' if len(policies) == 1 else 'ies'}"
        yield CheckResult("ok", "rules", f"{rules.digest[:12]} with {count}: {source}", place)
        for warning in rules.warnings:
            yield CheckResult("note", "rules", _format_line(warning), place)
        for name in sorted(settings.policy_modes.keys() - policies):
            message = f"policy_modes names {name}, which is no policy"
            yield CheckResult("note", "rules", message, locate("policy_modes"))
    for path in [*settings.rules, *settings.catalogue, *filter(None, (settings.inventory, settings.break_glass))]:
        writable = [file for file in (Path(path), *Path(path).rglob("*")) if _is_writable_by_others(file)]
        if writable:
            more = f" and {len(writable) - 1} more below it" if len(writable) > 1 else ""
            message = f"users other than the owner may write {writable[0]}{more}"
            yield CheckResult("finding", "rules", message, place, f"chmod -R go-w {path}")


def _format_line(diagnostic: Diagnostic) -> str:
    return f"{f'{diagnostic.span}: ' if diagnostic.span else ''}{diagnostic.message}"


def _is_writable_by_others(path: Path) -> bool:
    """Whether a group or the world may write the file. False if that cannot be read."""
    try:
        return bool(path.stat().st_mode & 0o022)
    except OSError:
        return False


def check_log(settings: Settings, log: Path | None, locate: Locate) -> Iterator[CheckResult]:
    """Check that decisions can be logged, and read the log or the given one. Errors: InputError if it is absent."""
    path, place = Path(settings.decision_log), locate("decision_log")
    if not settings.decision_log:
        yield CheckResult("note", "log", "decision_log is not set: decisions are not logged", place)
    elif not (os.access(path.parent, os.W_OK) and (not os.path.exists(path) or os.access(path, os.W_OK))):
        fix = f"let the user of Heat's services write {path} and in {path.parent}"
        yield CheckResult("finding", "log", f"the user of the doctor can't write {path}", place, fix)
    else:
        yield CheckResult("ok", "log", f"{path} can be written", place)
    if log or (settings.decision_log and os.path.exists(path)):
        yield from _check_records(log or path)


def _check_records(path: Path) -> Iterator[CheckResult]:
    """Count the records of the log, and check that all hosts have loaded the same rules."""
    counts: Counter[str] = Counter()
    loaded: dict[str, tuple[str, str]] = {}
    failed: dict[str, str] = {}
    for record in read_log(path):
        if isinstance(record, Diagnostic):
            counts["unreadable lines"] += 1
            continue
        kind, time, host = (str(record.get(name, "")) for name in ("kind", "time", "host"))
        count = record.get("count")
        counts[str(record.get("verdict")) if kind == "decision" else kind] += count if isinstance(count, int) else 1
        if kind == "loaded":
            loaded[host] = max(loaded.get(host, ("", "")), (time, str(record.get("rules"))))
        elif kind == "reload_failed":
            failed[host] = max(failed.get(host, ""), time)
    if not counts:
        yield CheckResult("note", "log", f"{path} holds no record")
        return
    summary = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    yield CheckResult("note", "log", f"{path}: {summary}")
    differ = len({digest for _, digest in loaded.values()}) > 1
    fix = "give all hosts the same rules, and restart the services that can't load them" if differ else ""
    for host, (time, digest) in sorted(loaded.items()):
        message = f"{host} has had {digest[:12]} in force since {time}"
        yield CheckResult("finding" if differ else "ok", "rules", message, None, fix)
    for host, time in sorted(failed.items()):
        if time > loaded.get(host, ("", ""))[0]:
            message = f"{host} could not load the rules at {time}, and keeps older ones"
            fix = f"look for reload_failed in {path}, and correct the rules"
            yield CheckResult("finding", "rules", message, None, fix)
