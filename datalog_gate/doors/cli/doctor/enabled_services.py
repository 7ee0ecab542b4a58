"""Checks of the enabled plugins and services."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from datalog_gate.base.diagnostics import closest
from datalog_gate.base.records import replace
from datalog_gate.decision_point.settings import Settings, parse_plugin_options
from datalog_gate.doors.cli.doctor import NO_START, CheckResult, Locate, hide_secrets
from datalog_gate.plugins.breaker import within
from datalog_gate.plugins.loader import load_plugins
from datalog_gate.plugins.plugin_errors import PluginLoadError, UnavailableError
from datalog_gate.plugins.plugin_settings import UnknownSettingError
from datalog_gate.preflight.plugin import GROUP as PREFLIGHT_GROUP
from datalog_gate.preflight.plugin import Plugin
from datalog_gate.services.contract import GROUP as SERVICE_GROUP
from datalog_gate.services.contract import Service

Enabled = Literal["preflight", "services"]
OPTIONS: dict[Enabled, str] = {"preflight": "preflight_option", "services": "service_option"}
"""The option for the settings of the plugins, by the option that enables them."""
GROUPS: dict[Enabled, str] = {"preflight": PREFLIGHT_GROUP, "services": SERVICE_GROUP}


def check_plugins(settings: Settings, locate: Locate, secrets: Set[str]) -> Iterator[CheckResult]:
    """Check that the enabled preflight plugins and services load with their settings."""
    from datalog_gate.decision_point.enabled_plugins import load_enabled_services, load_preflight

    with TemporaryDirectory() as folder:  # loading services may create tables, and the doctor must not
        own = replace(settings, store=str(Path(folder, "store")))
        yield from _check_enabled("preflight", own, load_preflight, locate, secrets)
        yield from _check_enabled("services", own, load_enabled_services, locate, secrets)
        with suppress(PluginLoadError, ValueError):  # said above
            yield from _check_promises(load_enabled_services(own), settings.service_call_seconds, locate)
    if settings.services and not settings.store:
        message = "services need a store, in which their claims are kept"
        fix = f"write `store = URL`, or `store = /var/lib/heat/store` on a single host: {NO_START}"
        yield CheckResult("finding", "services", message, locate("services"), fix)


def _check_promises(services: Mapping[str, Service], seconds: float, locate: Locate) -> Iterator[CheckResult]:
    """Check that the configuration lets the services keep their promises."""
    for name, service in services.items():
        try:
            for problem in within(seconds, name, partial(_list_problems, service)):
                fix = f"see {name} in docs/services.md"
                yield CheckResult("finding", "services", f"{name}: {problem}", locate("service_option"), fix)
        except UnavailableError as error:
            yield CheckResult("note", "services", f"{name} can't be checked: {error.reason}", locate("services"))


def _list_problems(service: Service) -> tuple[str, ...]:
    return tuple(service.problems())


def _check_enabled(
    about: Enabled, settings: Settings, load: Callable[[Settings], object], locate: Locate, secrets: Set[str]
) -> Iterator[CheckResult]:
    """Check the names, then load all plugins together; if that fails, each alone."""
    names: Sequence[str] = getattr(settings, about)
    findings = list(_check_names(about, settings, locate))
    try:
        load(settings)
    except (PluginLoadError, ValueError) as error:
        findings += _check_each(about, settings, load, locate, secrets)
        if not findings:  # each loads alone
            message, fix = hide_secrets(str(error), secrets), f"correct `{about}`: {NO_START}"
            findings = [CheckResult("finding", about, message, locate(about), fix)]
    yield from findings
    if names and not findings:
        yield CheckResult("ok", about, f"they load: {', '.join(names)}", locate(about))


def _check_names(about: Enabled, settings: Settings, locate: Locate) -> Iterator[CheckResult]:
    """Check that each plugin is installed and named once, and that each setting is that of a plugin."""
    names, option = getattr(settings, about), OPTIONS[about]
    installed = _find_installed(about)
    try:
        with_settings = set(parse_plugin_options(option, getattr(settings, option)))
    except ValueError as error:
        yield CheckResult(
            "finding", about, str(error), locate(option), f"write `{option} = NAME.KEY=VALUE`: {NO_START}"
        )
        with_settings = set()
    for name in sorted(with_settings - set(names)):
        near = closest(name, names)
        if near and near not in installed:  # this is the finding
            continue
        message = f"{option} has settings of {name}, which is not enabled in `{about}`"
        fix = f"write {near} in place of {name}" if near else f"add {name} to `{about}`, or remove its settings"
        yield CheckResult("finding", about, message, locate(option), f"{fix}: {NO_START}")
    for name in dict.fromkeys(names):
        if name not in installed:
            near = closest(name, installed)
            known = f"one of {', '.join(sorted(installed))}" if installed else "none"
            fix = f"write {near} in place of {name}" if near else f"install the package that has it, or write {known}"
            message = f"{about} names {name}, which is not installed"
            yield CheckResult("finding", about, message, locate(about), f"{fix}: {NO_START}")
        elif names.count(name) > 1:
            message = f"{about} names {name} twice"
            yield CheckResult("finding", about, message, locate(about), f"remove one of them: {NO_START}")


def _check_each(
    about: Enabled, settings: Settings, load: Callable[[Settings], object], locate: Locate, secrets: Set[str]
) -> Iterator[CheckResult]:
    """Find the plugins that fail to load by loading each alone."""
    option = OPTIONS[about]
    try:
        options = parse_plugin_options(option, getattr(settings, option))
    except ValueError:  # already reported, and it is not known whose settings are missing
        return
    for name in sorted(_find_installed(about).intersection(getattr(settings, about))):
        texts = tuple(f"{name}.{key}={value}" for key, value in options.get(name, {}).items())
        try:
            if about == "preflight":  # alone, a plugin may lack others that it requires
                load_plugins(PREFLIGHT_GROUP, Plugin, [name], {name: options.get(name, {})})
            else:
                load(replace(settings, services=(name,), service_option=texts))
        except PluginLoadError as error:
            message = hide_secrets(str(error.__cause__ or error), secrets)
            fix = f"{_correct(about, name, error)}: {NO_START}"
            yield CheckResult("finding", about, message, locate(option), fix)


def _correct(about: Enabled, name: str, error: PluginLoadError) -> str:
    """How to correct a plugin that does not load."""
    option = f"{OPTIONS[about]} = {name}"
    match error.__cause__.__cause__ if error.__cause__ else None:
        case UnknownSettingError(name=wrong, near=near):
            right = f"write `{option}.{near}=...` in place of" if near else "remove"
            return f"{right} `{option}.{wrong}=...`"
        case KeyError(args=(str(missing),)):
            return f"write `{option}.{missing}=...`"
        case ImportError() | AttributeError() | SyntaxError():
            return f"reinstall the package of {name}, or remove {name} from `{about}`"
    return f"correct `{option}.KEY=VALUE`"


def _find_installed(about: Enabled) -> set[str]:
    return {entry_point.name for entry_point in entry_points(group=GROUPS[about])}
