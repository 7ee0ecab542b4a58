"""Checks of the settings, the rules and the decision log."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from importlib.metadata import entry_points
from pathlib import Path

from datalog_gate.api import load_rules
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import DiagnosticsError
from datalog_gate.decision_point.break_glass import read_break_glass
from datalog_gate.decision_point.engine_start import find_start, running_engines
from datalog_gate.decision_point.log import read_log
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.doctor.check_result import CheckResult
from datalog_gate.files.rules import default_rules
from datalog_gate.files.templates import read_catalogue
from datalog_gate.plugins.plugin_errors import PluginLoadError

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
