"""Checks of the enabled plugins and services."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from datalog_gate.base.records import replace
from datalog_gate.decision_point.settings import Settings
from datalog_gate.doors.cli.doctor import NO_START, CheckResult, Locate, hide_secrets
from datalog_gate.plugins.breaker import within
from datalog_gate.plugins.plugin_errors import PluginLoadError, UnavailableError
from datalog_gate.services.contract import Service


def check_plugins(settings: Settings, locate: Locate, secrets: Set[str]) -> Iterator[CheckResult]:
    """Check that the enabled preflight plugins and services load with their settings, as a service loads them."""
    from datalog_gate.decision_point.enabled_plugins import load_enabled_services, load_preflight

    with TemporaryDirectory() as folder:  # loading services may create tables, and the doctor must not
        own = replace(settings, store=str(Path(folder, "store"))) if settings.store else settings
        yield from _check_enabled("preflight", own, load_preflight, locate, secrets)
        yield from _check_enabled("services", own, load_enabled_services, locate, secrets)


def _check_enabled(
    about: str, settings: Settings, load: Callable[[Settings], object], locate: Locate, secrets: Set[str]
) -> Iterator[CheckResult]:
    try:
        loaded = load(settings)
    except (PluginLoadError, ValueError) as error:
        fix = f"correct `{about}`, and the settings of what it names: {NO_START}"
        yield CheckResult("finding", about, hide_secrets(str(error), secrets), locate(about), fix)
        return
    if names := getattr(settings, about):
        yield CheckResult("ok", about, f"they load: {', '.join(names)}", locate(about))
    if isinstance(loaded, Mapping):
        yield from _check_promises(loaded, settings.service_call_seconds, locate)


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
