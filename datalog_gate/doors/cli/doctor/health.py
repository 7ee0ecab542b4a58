"""Whether what the doors work with is there and works (layer 6): rules, log, plugins.

In: the settings, and where heat.conf gives them. Out: a `Sign` for each thing looked at.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from importlib.metadata import entry_points
from pathlib import Path

from datalog_gate.api import load_rules
from datalog_gate.base.diagnostics import Diagnostic, Span
from datalog_gate.base.errors import DiagnosticsError
from datalog_gate.decision_point.break_glass import read_break_glass
from datalog_gate.decision_point.log import read_log
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.doctor.check_result import Sign
from datalog_gate.files.rules import default_rules
from datalog_gate.files.templates import read_catalogue
from datalog_gate.plugins.errors import PluginLoadError

At = Callable[[str], Span]
"""Where heat.conf gives an option."""
LIFECYCLE = "heat.stack_lifecycle_plugins"
RESOURCES = Path(__file__).parents[2] / "heat" / "resources"
"""The folder of our resource types; `SHIM` is what Heat imports of it."""
SHIM = "datalog_gate_resources.py"
ABSENT = "is not installed"


def examine_engine(legacy: bool, at: Span) -> Iterator[Sign]:
    """Which engine new stacks get, and whether the lifecycle plugin loads: one that fails Heat silently passes over."""
    problem = _plugin()
    fix = "install datalog-gate into the Python of heat-engine, and run the doctor with that Python"
    if not legacy:
        what = "convergence, which calls no lifecycle plugin: what passes no door is not judged"
        yield Sign("note", "engine", what, at)
    if problem and (legacy or problem != ABSENT):
        yield Sign("finding", "engine", f"the lifecycle plugin {problem}", at, fix)
    elif legacy:
        yield Sign("ok", "engine", "legacy, and the lifecycle plugin loads", at)


def examine_settings(settings: Settings, plugin_dirs: list[str], at: At, now: datetime) -> Iterator[Sign]:
    """What the settings weaken, and what they name that is not there."""
    if settings.mode != "enforce":
        yield Sign("note", "mode", f"the mode is {settings.mode}: nothing is refused", at("mode"))
    if weaker := [f"{project} {mode}" for project, mode in settings.project_modes.items() if mode != "enforce"]:
        yield Sign("note", "mode", f"projects that nothing is refused to: {', '.join(weaker)}", at("project_modes"))
    if settings.allow_unverified_context:
        what = "a context is trusted that nobody verified: anybody is whoever he says"
        fix = "take allow_unverified_context out"
        yield Sign("finding", "mode", what, at("allow_unverified_context"), fix)
    if glass := read_break_glass(settings.break_glass, now):
        what = f"the glass is broken until {glass.until.isoformat()} ({glass.why}): refused requests may pass"
        fix = f"remove {settings.break_glass} once it is not needed"
        yield Sign("finding", "glass", what, at("break_glass"), fix)
    known = any((Path(plugin_dir) / SHIM).is_file() for plugin_dir in plugin_dirs)
    fix = f"add {RESOURCES} to plugin_dirs under [DEFAULT] on each heat-engine"
    if settings.create_denial == "failed_stack" and not known:
        what = "Heat knows no DatalogGate::Denial, which create_denial = failed_stack makes stacks of"
        yield Sign("finding", "resources", what, at("create_denial"), fix)
    if settings.services and not known:
        what = "Heat knows no DatalogGate::Policy, with which templates grant services"
        yield Sign("finding", "resources", what, at("services"), fix)
    from datalog_gate.decision_point.enabled_plugins import load_enabled_services, load_preflight

    for name, load in {"preflight": load_preflight, "services": load_enabled_services}.items():
        try:
            loaded = load(settings)
        except (PluginLoadError, ValueError) as error:
            yield Sign("finding", name, str(error), at(name), "mend it: a service does not start with this")
        else:
            if loaded:
                yield Sign("ok", name, f"they load: {', '.join(getattr(settings, name))}", at(name))


def examine_rules(settings: Settings, at: At) -> Iterator[Sign]:
    """Whether the rules load with their catalogue and inventory, and who else may write them."""
    place = at("rules")
    try:
        rules = load_rules(*(settings.rules or [default_rules()]), catalogue=read_catalogue(*settings.catalogue))
        if settings.inventory:
            rules.inventory(settings.inventory)
    except DiagnosticsError as error:
        first, *rest = error.diagnostics
        more = f", and {len(rest)} more" if rest else ""
        fix = "mend them: a service does not start with these, and one that runs keeps those before"
        yield Sign("finding", "rules", f"they don't load: {_line(first)}{more}", place, fix)
    else:
        known = {policy.id for policy in rules.policies}
        whose = ", ".join(settings.rules) or f"none are set, so {default_rules()}"
        yield Sign(
            "ok",
            "rules",
            f"{rules.digest[:12]} with {len(known)} polic{'y' if len(known) == 1 else 'ies'}: {whose}",
            place,
        )
        for warning in rules.warnings:
            yield Sign("note", "rules", _line(warning), place)
        for name in sorted(settings.policy_modes.keys() - known):
            yield Sign("note", "rules", f"policy_modes names {name}, which is no policy", at("policy_modes"))
    for path in [*settings.rules, *settings.catalogue, *filter(None, (settings.inventory, settings.break_glass))]:
        if open_ := [one for one in (Path(path), *Path(path).rglob("*")) if _open(one)]:
            more = f" and {len(open_) - 1} more below it" if len(open_) > 1 else ""
            what = f"others than the owner may write {open_[0]}{more}"
            yield Sign("finding", "rules", what, place, f"chmod -R go-w {path}")


def examine_log(settings: Settings, given: Path | None, at: At) -> Iterator[Sign]:
    """Whether decisions are logged, and what the log tells, or the `given` one. Errors: InputError if it is absent."""
    path, place = Path(settings.decision_log), at("decision_log")
    if not settings.decision_log:
        yield Sign("note", "log", "decision_log is not set: decisions are not logged", place)
    elif not all(os.access(one, os.W_OK) for one in ({path} if os.path.exists(path) else set()) | {path.parent}):
        fix = f"let the user of Heat's services write {path} and in {path.parent}"
        yield Sign("finding", "log", f"{path} can't be written by who runs the doctor", place, fix)
    else:
        yield Sign("ok", "log", f"{path} can be written", place)
    if given or (settings.decision_log and os.path.exists(path)):
        yield from _told(given or path)


def _told(path: Path) -> Iterator[Sign]:
    """What the log tells of decisions, and of the rules of each host."""
    counted: Counter[str] = Counter()
    loaded: dict[str, tuple[str, str]] = {}
    failed: dict[str, str] = {}
    for record in read_log(path):
        if isinstance(record, Diagnostic):
            counted["unreadable lines"] += 1
            continue
        kind, time, host = (str(record.get(name, "")) for name in ("kind", "time", "host"))
        count = record.get("count")
        counted[str(record.get("verdict")) if kind == "decision" else kind] += count if isinstance(count, int) else 1
        if kind == "loaded":
            loaded[host] = max(loaded.get(host, ("", "")), (time, str(record.get("rules"))))
        elif kind == "reload_failed":
            failed[host] = max(failed.get(host, ""), time)
    if not counted:
        yield Sign("note", "log", f"{path} holds no record")
        return
    yield Sign("note", "log", f"{path}: {', '.join(f'{name} {count}' for name, count in sorted(counted.items()))}")
    level = "finding" if len({digest for _, digest in loaded.values()}) > 1 else "ok"
    for host, (time, digest) in sorted(loaded.items()):
        what = f"{host} has had {digest[:12]} in force since {time}"
        fix = (
            "give all hosts the same rules, and restart the service where they don't load" if level == "finding" else ""
        )
        yield Sign("finding" if level == "finding" else "ok", "rules", what, None, fix)
    for host, time in sorted(failed.items()):
        if time > loaded.get(host, ("", ""))[0]:
            fix = f"look for reload_failed in {path}, and mend the rules"
            yield Sign(
                "finding", "rules", f"{host} could not load the rules at {time}, and keeps older ones", None, fix
            )


def _open(path: Path) -> bool:
    """Whether a group or the world may write it. What can't be looked at is no worse than what can't be read."""
    try:
        return bool(path.stat().st_mode & 0o022)
    except OSError:
        return False


def _plugin() -> str:
    """Why Heat gets no lifecycle plugin, empty if it does. It is made as Heat makes it."""
    found = [entry_point for entry_point in entry_points(group=LIFECYCLE) if entry_point.name == "datalog_gate"]
    if not found:
        return ABSENT
    try:
        found[0].load()()
    except Exception as error:  # noqa: BLE001 - whatever it raises, Heat goes on without it
        return f"fails: {type(error).__name__}: {' '.join(str(error).split())}"
    return ""


def _line(diagnostic: Diagnostic) -> str:
    return f"{f'{diagnostic.span}: ' if diagnostic.span else ''}{diagnostic.message}"
