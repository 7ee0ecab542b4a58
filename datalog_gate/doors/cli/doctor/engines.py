"""Checks of the doors in Heat's engines, and of `plugin_dirs`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path

from datalog_gate import __version__
from datalog_gate.base.diagnostics import Span
from datalog_gate.decision_point.enabled_plugins import list_grantable
from datalog_gate.decision_point.engine_start import find_start, read_age, running_engines
from datalog_gate.decision_point.settings import GROUP, Settings
from datalog_gate.doors.cli.doctor import CheckResult
from datalog_gate.doors.cli.heat_conf import IniFile

PLUGIN_DIRS = ["/usr/lib64/heat", "/usr/lib/heat", "/usr/local/lib/heat", "/usr/local/lib64/heat"]
"""Heat's default (heat/common/config.py:109)."""
STARTING = 60.0
"""Seconds in which an engine loads its modules, also on a busy host."""
LIFECYCLE = "heat.stack_lifecycle_plugins"
NOT_INSTALLED = "is not installed"
FOLDER = Path(__file__).parents[2] / "heat"
ENGINE_FOLDER = FOLDER / "engine"
ENGINE_DOOR = "datalog_gate_engine_door.py"
"""The module of the door in the convergence engine."""
RESOURCES = FOLDER / "resources"
"""The folder of the gate's resource types."""
SHIM = "datalog_gate_resources.py"
"""The module that Heat imports from that folder."""


def check_engine(legacy: bool, plugin_dirs: Sequence[str], place: Span) -> Iterator[CheckResult]:
    """Check that the engine for new stacks has a door of this version, and that the lifecycle plugin loads, since Heat
    ignores a broken one."""
    problem = _plugin_problem()
    doors = find_modules(plugin_dirs, ENGINE_DOOR)
    if not legacy and not doors:
        message = "the engine's door is off: what convergence builds without a request to the API is not judged"
        fix = f"add {ENGINE_FOLDER} to plugin_dirs under [DEFAULT], also on a host without heat-engine"
        yield CheckResult("finding", "engine", message, place, fix)
    if problem and (legacy or problem != NOT_INSTALLED):
        fix = "install datalog-gate into the Python of heat-engine, and run the doctor with that Python"
        yield CheckResult("finding", "engine", f"the lifecycle plugin {problem}", place, fix)
    elif legacy:
        yield CheckResult("ok", "engine", "legacy, and the lifecycle plugin loads", place)
    if not legacy:
        for door in doors:
            if door.read_bytes() != (ENGINE_FOLDER / ENGINE_DOOR).read_bytes():
                message = f"the engine's door {door} differs from that of datalog_gate {__version__}"
                fix = f"write {ENGINE_FOLDER} in place of {door.parent} in plugin_dirs, and restart heat-engine"
                yield CheckResult("finding", "engine", message, place, fix)


def _plugin_problem() -> str:
    """Why Heat can't use the lifecycle plugin; "" if it can. The plugin is created as Heat creates it."""
    plugins = [entry_point for entry_point in entry_points(group=LIFECYCLE) if entry_point.name == "datalog_gate"]
    if not plugins:
        return NOT_INSTALLED
    try:
        plugins[0].load()()
    except Exception as error:  # noqa: BLE001 - whatever it raises, Heat goes on without it
        return f"fails: {type(error).__name__}: {' '.join(str(error).split())}"
    return ""


def find_modules(plugin_dirs: Sequence[str], name: str) -> list[Path]:
    """The files of that name in the folders of `plugin_dirs`."""
    return [path for plugin_dir in plugin_dirs if (path := Path(plugin_dir, name)).is_file()]


def check_plugin_dirs(plugin_dirs: Sequence[str], place: Span) -> Iterator[CheckResult]:
    """Check that the folders of `plugin_dirs` exist, except Heat's default ones."""
    for plugin_dir in plugin_dirs:
        if plugin_dir not in PLUGIN_DIRS and not Path(plugin_dir).is_dir():
            own = next(
                (str(folder) for folder in (ENGINE_FOLDER, RESOURCES) if folder.name == Path(plugin_dir).name), ""
            )
            message = f"plugin_dirs has {plugin_dir}, which is missing: Heat starts without its plugins"
            fix = f"write {own} in place of it" if own else f"create it, or remove {plugin_dir} from plugin_dirs"
            yield CheckResult("finding", "engine", message, place, fix)


def check_running_engines(records: Iterable[Mapping[str, object]], log: Path, place: Span) -> Iterator[CheckResult]:
    """Check that each heat-engine on this host started with its door, by the records of the log at that path."""
    processes = list(running_engines(Path(place.file)))
    for process in processes:
        if start := find_start(process, records):
            heat, wrapped = start.get("heat"), str(start.get("wrapped"))
            message = f"heat-engine {process} runs with its door, in Heat {heat} (converge_stack {wrapped[:12]})"
            yield CheckResult("ok", "engine", message, place)
        elif read_age(process) < STARTING:
            message = f"heat-engine {process} is starting: it has not recorded its door yet"
            yield CheckResult("note", "engine", message, place, "run the doctor again in a minute")
        else:
            message = f"heat-engine {process} started without its door: what it builds is not judged in the engine"
            fix = (
                f"restart it; if that does not help, search its log for datalog_gate, and check that it may write {log}"
            )
            yield CheckResult("finding", "engine", message, place, fix)
    if not processes:
        message = "no heat-engine runs on this host: run the doctor on each host that has one"
        yield CheckResult("note", "engine", message, place)


def check_resource_types(settings: Settings, plugin_dirs: Sequence[str], ini: IniFile) -> Iterator[CheckResult]:
    """Check that Heat knows the gate's resource types if options need them."""
    if find_modules(plugin_dirs, SHIM):
        return
    fix = f"add {RESOURCES} to plugin_dirs under [DEFAULT] on each heat-engine"
    if settings.create_denial == "failed_stack":
        message = "Heat does not know DatalogGate::Denial, which create_denial = failed_stack needs"
        yield CheckResult("finding", "resources", message, ini.place(GROUP, "create_denial"), fix)
    if list_grantable(settings):
        message = "Heat does not know DatalogGate::Policy, which templates need to grant services"
        yield CheckResult("finding", "resources", message, ini.place(GROUP, "services"), fix)
